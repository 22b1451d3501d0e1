"""Which states a tier of telemetry may claim; what it cannot tell apart is one to it."""

from collections.abc import Mapping
from typing import Final

from rightsizer.model.signal import Signal
from rightsizer.model.state import IDLE_STATES, State, Tier

__all__ = ["AT_WORK", "as_claimed", "at_rest_or_at_work"]

AT_WORK: Final = "at_work"
_BY_COUNTERS: Final = frozenset(
    {State.MEMORY_BANDWIDTH_BOUND, State.COMPUTE_BOUND, State.LAUNCH_BOUND, State.PRODUCTIVE}
)
"""Told apart by profiling counters alone."""
_LINK: Final = (Signal.PCIE_RECEIVE, Signal.PCIE_TRANSMIT)


def as_claimed(state: State, tier: Tier, signals: Mapping[Signal, float]) -> str:
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


def at_rest_or_at_work(state: State) -> str:
    """What every rule tells apart: empty, held, stalled, at work."""
    if state in IDLE_STATES or state in (State.UNKNOWN, State.HIDDEN_STALL):
        return str(state)
    return AT_WORK
