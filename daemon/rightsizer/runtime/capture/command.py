"""The program that takes a profile, run to its end: what came of it, as of any call."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from rightsizer.runtime.capture.called import Called, CaptureOutcome
from rightsizer.runtime.program import Ending, Limits, run_program

__all__ = ["run_command"]

_OUTCOMES: Final = {
    Ending.ABSENT: CaptureOutcome.FAILED,
    Ending.TOO_MUCH: CaptureOutcome.FAILED,
    Ending.TIMED_OUT: CaptureOutcome.TIMED_OUT,
    Ending.STOPPED: CaptureOutcome.INTERRUPTED,
}


def run_command(
    words: Sequence[str],
    folder: Path,
    limits: Limits,
    *,
    note: Callable[[int], None] = lambda _: None,
) -> Called:
    """Run a program, and end it with all that it has started and that stayed in its group.

    Args:
        words: The program and its arguments; no shell sees them.
        folder: Where it runs.
        limits: When it is ended.
        note: Is told the number of its process, and of its group, once it runs.
    """
    run = run_program(words, folder, limits, note=note)
    usual = CaptureOutcome.CALLED if run.status == 0 else CaptureOutcome.FAILED
    return Called(
        _OUTCOMES.get(run.ending, usual),
        run.detail,
        run.said,
        is_recorded=run.ending is not Ending.ABSENT,
    )
