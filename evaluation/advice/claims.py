"""Predicates of a tick for the reasons of advice, by the simulator's truth."""

from collections.abc import Callable
from typing import Final

from msgspec import Struct

from rightsizer.model.finding import Reason
from rightsizer.model.state import IDLE_STATES, Condition, State, Tier
from rightsizer.model.workload import WorkloadClass

_BELOW_PROFILING: Final = frozenset({Tier.POWER, Tier.BASIC})
_BASIC: Final = frozenset({Tier.BASIC})
_NOWHERE: Final[frozenset[Tier]] = frozenset()

_RANKS: Final = frozenset({Reason.RANK_IMBALANCE, Reason.HIDDEN_STALL})

Holds = Callable[[State, frozenset[Condition]], bool]


class Claim(Struct, frozen=True):
    """Predicate of a tick for some reasons."""

    rule: str
    """Whose claim it is: its spans and its threshold decide when it is due."""
    reasons: frozenset[Reason]
    """That are right while it holds."""
    holds: Holds
    blind: frozenset[Tier] = _NOWHERE
    """Tiers on which no one can know it, so that the rule has to abstain."""
    instead: frozenset[Reason] = frozenset()
    """That tell of it as well, or more exactly, and have a truth of their own."""
    is_of_all: bool = False
    """Whether it takes all devices of a workload; otherwise one is enough."""
    is_of_active: bool = False
    """Whether its share is one of the active time, of which there must be ten minutes."""
    excused: frozenset[WorkloadClass] = frozenset()
    """Classes of which it is no trouble."""


def _limit(rule: str, reason: Reason, state: State, blind: frozenset[Tier] = _NOWHERE) -> Claim:
    """Limit of a working GPU; a job that waits for one rank counts at that rank."""
    return Claim(rule, frozenset({reason}), _in_state(state), blind, _RANKS, is_of_active=True)


def _in_state(*states: State) -> Holds:
    return lambda now, _: now in states


def _under(*conditions: Condition) -> Holds:
    return lambda _, now: not now.isdisjoint(conditions)


CLAIMS: Final[tuple[Claim, ...]] = (
    Claim(
        "idle",
        # An allocation without a process is the more exact word for an empty GPU that is held.
        frozenset({Reason.IDLE_EMPTY, Reason.IDLE_HELD, Reason.ALLOCATED_WITHOUT_PROCESS}),
        _in_state(*IDLE_STATES),
        # A service that sleeps every night is better scaled by the clock than by hand.
        instead=frozenset({Reason.DIURNAL_AUTOSCALE}),
        is_of_all=True,
        excused=frozenset({WorkloadClass.STANDBY}),
    ),
    Claim(
        "hidden_stall",
        frozenset({Reason.HIDDEN_STALL}),
        _in_state(State.HIDDEN_STALL),
        _BASIC,
        # Names the rank that the others wait for.
        instead=frozenset({Reason.RANK_IMBALANCE}),
    ),
    Claim(
        "rank_imbalance",
        frozenset({Reason.RANK_IMBALANCE}),
        _under(Condition.RANK_IMBALANCE),
        # Names the same rank where the others spin.
        instead=frozenset({Reason.HIDDEN_STALL}),
    ),
    _limit("host_bound", Reason.HOST_BOUND, State.HOST_BOUND),
    _limit("storage_bound", Reason.STORAGE_BOUND, State.STORAGE_BOUND),
    _limit("pcie_bound", Reason.PCIE_BOUND, State.PCIE_BOUND),
    _limit("launch_bound", Reason.LAUNCH_BOUND, State.LAUNCH_BOUND, _BELOW_PROFILING),
    Claim(
        "memory_bandwidth_bound",
        frozenset({Reason.MEMORY_BANDWIDTH_BOUND}),
        _in_state(State.MEMORY_BANDWIDTH_BOUND),
        _BELOW_PROFILING,
        # The one who decodes in batches is well used at that limit.
        excused=frozenset(WorkloadClass) - {WorkloadClass.SERVING},
    ),
    Claim("network_bound", frozenset({Reason.NETWORK_BOUND}), _under(Condition.NETWORK_BOUND)),
    Claim(
        "tensor_cores_unused",
        frozenset({Reason.TENSOR_CORES_UNUSED}),
        _under(Condition.NO_TENSOR_CORES),
        _BELOW_PROFILING,
        is_of_active=True,
    ),
    Claim("numa_misplaced", frozenset({Reason.NUMA_MISPLACED}), _under(Condition.NUMA_MISPLACED)),
    Claim(
        "pcie_link_degraded",
        frozenset({Reason.PCIE_LINK_DEGRADED}),
        _under(Condition.PCIE_LINK_DEGRADED),
        is_of_active=True,
    ),
    Claim(
        "power_throttled", frozenset({Reason.POWER_THROTTLED}), _under(Condition.POWER_THROTTLED)
    ),
    Claim(
        "thermal_throttled",
        frozenset({Reason.THERMAL_THROTTLED}),
        _under(Condition.THERMAL_THROTTLED, Condition.HARDWARE_SLOWDOWN),
        # The hardware's own brake may be told as a fault of the hardware.
        instead=frozenset({Reason.HARDWARE_UNHEALTHY}),
    ),
    Claim(
        "near_out_of_memory",
        frozenset({Reason.GPU_MEMORY_UNDERPROVISIONED}),
        _under(Condition.NEAR_OUT_OF_MEMORY),
        # Says when it will be full, where the first says that it is.
        instead=frozenset({Reason.EXHAUSTION_FORECAST}),
    ),
)
