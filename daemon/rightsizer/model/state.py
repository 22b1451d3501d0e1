"""The words for where time went: states, conditions, causes of waste, tiers of telemetry."""

from enum import StrEnum
from typing import Final


class State(StrEnum):
    """Exactly one for each second of each device."""

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
    """Why a device's state is unknown for a while."""

    NO_READING = "no_reading"
    """Nothing was read for longer than the longest usual gap."""
    NO_UTILIZATION = "no_utilization"
    """Neither utilization nor a profiling counter was read, which alone tell of work."""
    PARTIAL_COUNTERS = "partial_counters"
    """At rest by what was read, which is not what a kernel would show in."""
    DRAWS_POWER = "draws_power"
    """At rest by its counters, and drawing power as if at work."""
    NO_HOLDER = "no_holder"
    """Busy, and neither a process nor memory in use: as a GPU reads that was just woken."""


class Condition(StrEnum):
    """May hold beside any state."""

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
    """What takes several readings to be told, be it that it is so or that it is not."""

    LOAD_CYCLES = "load_cycles"
    """Readings were close enough together for the cycles of a load."""
    RANKS = "ranks"
    """The GPUs of a job were compared with one another."""


class Cause(StrEnum):
    """Where the unused part of a second went."""

    IDLE = "idle"
    STALLED = "stalled"
    HOST = "host"
    STORAGE = "storage"
    PCIE = "pcie"
    LAUNCH = "launch"
    THROTTLED = "throttled"
    HEADROOM = "headroom"


class Tier(StrEnum):
    """What the telemetry allows to be claimed, best first."""

    PROFILING = "profiling"
    POWER = "power"
    BASIC = "basic"
    NONE = "none"


class Resource(StrEnum):
    """What a device can run short of."""

    COMPUTE = "compute"
    MEMORY = "memory"
    MEMORY_BANDWIDTH = "memory_bandwidth"
    PCIE = "pcie"
    NVLINK = "nvlink"
    MEDIA = "media"
    """The engines for video and pictures, by the busiest; left out where they rest."""
