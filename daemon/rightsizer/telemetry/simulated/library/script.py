"""The faults of a scenario as a caller of the library meets them."""

from collections.abc import Callable
from typing import Final

from rightsizer.domain.units import Nanoseconds
from rightsizer.telemetry.simulated.library.calls import Code
from rightsizer.telemetry.simulated.node import Node, Unit

__all__ = ["Script"]

_NEVER_REACH_THE_DRIVER: Final = frozenset({"nvmlErrorString"})


class Script:
    """What a node's scenario has go wrong now."""

    def __init__(self, node: Node, now: Callable[[], Nanoseconds]) -> None:
        """The faults of a node, by a wall clock."""
        self._node = node
        self._now = now

    def hangs(self, function: str, uuid: str) -> bool:
        """Whether a call does not come back."""
        if not uuid:
            return False
        course = self._node.course(self._node.unit(uuid))
        return any(hang.function in {"", function} for hang in course.hangs(self._now()))

    def code(self, function: str, uuid: str) -> int:
        """What a call answers instead of working, 0 where it works."""
        now = self._now()
        unload = self._node.unload(now)
        if unload is not None and function not in _NEVER_REACH_THE_DRIVER:
            return unload.code
        return self._code_of(self._node.unit(uuid), function, now) if uuid else Code.SUCCESS

    def _code_of(self, unit: Unit, function: str, now: Nanoseconds) -> int:
        course = self._node.course(unit)
        if course.is_lost(now):
            return Code.GPU_IS_LOST
        if course.is_absent(now) or not self._is_cut_so(unit, now):
            return Code.INVALID_ARGUMENT
        answers = (each for each in course.answers(now) if each.function in {"", function})
        return next((answer.code for answer in answers), Code.SUCCESS)

    def _is_cut_so(self, unit: Unit, now: Nanoseconds) -> bool:
        return not unit.is_instance or self._node.course(unit).holds(unit.spot, now)
