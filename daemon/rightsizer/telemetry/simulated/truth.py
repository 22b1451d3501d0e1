"""What is really the case on a device, for tests and evaluations to compare with."""

from collections.abc import Sequence
from typing import Final

from rightsizer.domain.clock_event import ClockEvent
from rightsizer.domain.state import Condition, State
from rightsizer.domain.workload import Allocator
from rightsizer.telemetry.simulated.crew import Member
from rightsizer.telemetry.simulated.physics import (
    BoardState,
    Surroundings,
)

__all__ = ["truth_of"]

_ACTIVE: Final = 0.005
_SLOWED: Final = 0.9
"""Of the highest clock; a smaller loss is nobody's concern."""
_NEAR_OUT_OF_MEMORY: Final = 0.95


def truth_of(
    state: BoardState, around: Surroundings, members: Sequence[Member]
) -> tuple[State, frozenset[Condition]]:
    """The state and the conditions of a device."""
    conditions: set[Condition] = set()
    if around.pcie_width < around.board.pcie_width or (
        state.load.gpu_busy > _ACTIVE and around.pcie_generation < around.board.pcie_generation
    ):
        conditions.add(Condition.PCIE_LINK_DEGRADED)
    if state.electrical.sm_clock_hertz < _SLOWED * around.sm_clock_maximum_hertz:
        if state.electrical.clock_event_reasons & ClockEvent.SW_POWER_CAP:
            conditions.add(Condition.POWER_THROTTLED)
        if state.electrical.clock_event_reasons & ClockEvent.SW_THERMAL_SLOWDOWN:
            conditions.add(Condition.THERMAL_THROTTLED)
        if state.electrical.clock_event_reasons & ClockEvent.HW_SLOWDOWN:
            conditions.add(Condition.HARDWARE_SLOWDOWN)
    if not members:
        return State.IDLE_EMPTY, frozenset(conditions)
    grows = any(member.task.workload.allocator is not Allocator.PREALLOCATING for member in members)
    if grows and state.memory_used_bytes >= _NEAR_OUT_OF_MEMORY * state.memory_total_bytes:
        conditions.add(Condition.NEAR_OUT_OF_MEMORY)
    main = max(members, key=lambda member: (member.load.gpu_busy, member.load.engines))
    if main.load.gpu_busy < _ACTIVE and main.load.engines < _ACTIVE:
        return State.IDLE_HELD, frozenset(conditions)
    return main.phase.state, frozenset(conditions | main.phase.conditions)
