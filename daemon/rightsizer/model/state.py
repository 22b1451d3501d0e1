"""Vocabulary of accounting: states, conditions, causes of waste, telemetry tiers."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final


class State(StrEnum):
    """State of a device; exactly one at any time."""

    UNKNOWN = "unknown"
    IDLE_EMPTY = "idle_empty"
    IDLE_HELD = "idle_held"
    HIDDEN_STALL = "hidden_stall"
    PCIE_BOUND = "pcie_bound"
    MEMORY_BANDWIDTH_BOUND = "memory_bandwidth_bound"
    COMPUTE_BOUND = "compute_bound"
    LAUNCH_BOUND = "launch_bound"
    STORAGE_BOUND = "storage_bound"
    HOST_BOUND = "host_bound"
    PRODUCTIVE = "productive"


IDLE_STATES: Final = frozenset({State.IDLE_EMPTY, State.IDLE_HELD})
ACTIVE_STATES: Final = frozenset(State) - IDLE_STATES - {State.UNKNOWN}


class UnknownReason(StrEnum):
    """Why a device's state is unknown."""

    NO_READING = "no_reading"
    """No reading for longer than the maximum gap."""
    NO_UTILIZATION = "no_utilization"
    """Neither utilization nor a profiling counter was read, the only evidence of work."""
    PARTIAL_COUNTERS = "partial_counters"
    """At no limit by the signals read, which would not show a kernel."""
    DRAWS_POWER = "draws_power"
    """Idle by its counters, but drawing power as under load."""
    NO_HOLDER = "no_holder"
    """Busy without a process or memory in use, as a GPU reads while waking up."""


class Condition(StrEnum):
    """Condition that may hold in any state."""

    POWER_THROTTLED = "power_throttled"
    THERMAL_THROTTLED = "thermal_throttled"
    HARDWARE_SLOWDOWN = "hardware_slowdown"
    PCIE_LINK_DEGRADED = "pcie_link_degraded"
    NUMA_MISPLACED = "numa_misplaced"
    NEAR_OUT_OF_MEMORY = "near_out_of_memory"
    NO_TENSOR_CORES = "no_tensor_cores"
    RANK_IMBALANCE = "rank_imbalance"
    NETWORK_BOUND = "network_bound"


THROTTLES: Final = frozenset(
    {Condition.POWER_THROTTLED, Condition.THERMAL_THROTTLED, Condition.HARDWARE_SLOWDOWN}
)


class Observation(StrEnum):
    """Fact that takes several readings to establish, whether it turns out true or false."""

    LOAD_CYCLES = "load_cycles"
    """Readings were close enough together to detect load cycles."""
    RANKS = "ranks"
    """The GPUs of a job were compared with each other."""


class Cause(StrEnum):
    """Cause of the unused part of a second."""

    IDLE = "idle"
    STALLED = "stalled"
    HOST = "host"
    STORAGE = "storage"
    PCIE = "pcie"
    LAUNCH = "launch"
    THROTTLED = "throttled"
    HEADROOM = "headroom"


def wasted_in(unused: Mapping[Any, float]) -> float:
    """Sum what was idle, stalled or held up, in the unit of the unused parts, which are by cause.

    Headroom is left by work: not wasted, yet smaller GPUs may do.
    """
    return sum(part for cause, part in unused.items() if cause != Cause.HEADROOM)


def wasted_mostly(unused: Mapping[Any, float]) -> Cause | None:
    """Return the cause of most of what was wasted; `None` if nothing was."""
    parts = {Cause(cause): part for cause, part in unused.items() if cause != Cause.HEADROOM}
    cause = max(parts, key=parts.__getitem__, default=None)
    return cause if cause and parts[cause] else None


class Tier(StrEnum):
    """Telemetry tier, which limits what can be concluded; best first."""

    PROFILING = "profiling"
    POWER = "power"
    BASIC = "basic"
    NONE = "none"


class Resource(StrEnum):
    """Resource that a device may run short of."""

    COMPUTE = "compute"
    MEMORY = "memory"
    MEMORY_BANDWIDTH = "memory_bandwidth"
    PCIE = "pcie"
    NVLINK = "nvlink"
    MEDIA = "media"
    """Engines for video and images, by the busiest; omitted while they are idle."""
