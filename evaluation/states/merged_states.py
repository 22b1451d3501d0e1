"""States that a tier of telemetry distinguishes; others are merged."""

from collections.abc import Mapping
from typing import Final

from rightsizer.model.signal import Signal
from rightsizer.model.state import IDLE_STATES, State, Tier

AT_WORK: Final = "at_work"
_BY_COUNTERS: Final = frozenset(
    {State.MEMORY_BANDWIDTH_BOUND, State.COMPUTE_BOUND, State.LAUNCH_BOUND, State.PRODUCTIVE}
)
"""Told apart by profiling counters alone."""
_LINK: Final = (Signal.PCIE_RECEIVE, Signal.PCIE_TRANSMIT)


def merged_state(state: State, tier: Tier, signals: Mapping[Signal, float]) -> str:
    """A state as a tier may name it.

    Args:
        state: True or found.
        tier: What the stretch was read with.
        signals: What was read; a link that no one reads limits nothing.
    """
    if tier is Tier.PROFILING:
        return str(state)
    if state in _BY_COUNTERS:
        return AT_WORK
    if state is State.PCIE_BOUND and not any(signal in signals for signal in _LINK):
        return AT_WORK
    if state is State.HIDDEN_STALL and tier is Tier.BASIC:
        return AT_WORK
    return str(state)


def coarse_state(state: State) -> str:
    """State reduced to the four that every rule distinguishes: empty, held, stalled, at work."""
    if state in IDLE_STATES or state in (State.UNKNOWN, State.HIDDEN_STALL):
        return str(state)
    return AT_WORK
