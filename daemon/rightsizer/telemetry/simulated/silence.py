"""Why a GPU of the model gives no readings: what the live source would say of it."""

from typing import Final

from rightsizer.domain.reading import Missing
from rightsizer.domain.snapshot import Down
from rightsizer.domain.units import Nanoseconds
from rightsizer.telemetry.simulated.fault import Answer
from rightsizer.telemetry.simulated.library.calls import Code
from rightsizer.telemetry.simulated.node import Node, Unit

__all__ = ["silence_of"]

_AWAY: Final = Down(Missing.LOST, "the driver is not loaded")
_LOST: Final = Down(Missing.LOST, "the GPU has fallen off the bus")
_ABSENT: Final = Down(Missing.LOST, "the driver no longer lists the GPU")
_HANGS: Final = Down(Missing.TIMED_OUT, "the driver does not answer")


def silence_of(node: Node, unit: Unit, time: Nanoseconds) -> Down | None:
    """Why a GPU or one of its instances is silent; `None` where it is read.

    A function that hangs holds up all others of its GPU; one that refuses costs its own signals
    alone.
    """
    if not node.has_faults:
        return None
    course = node.course(unit)
    if node.unload(time) is not None:
        return _AWAY
    if course.is_lost(time):
        return _LOST
    if course.is_absent(time):
        return _ABSENT
    if course.hangs(time):
        return _HANGS
    whole = next((answer for answer in course.answers(time) if not answer.function), None)
    return None if whole is None else _refused(whole)


def _refused(answer: Answer) -> Down:
    code = Code(answer.code)
    reason = Missing.LOST if code is Code.GPU_IS_LOST else Missing.FAILED
    return Down(reason, f"the driver answers {code.name.lower()}")
