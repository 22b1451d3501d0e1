"""The program that takes a profile, run to its end: what came of it, as of any call."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from rightsizer.runtime.capture.called import Called, Outcome
from rightsizer.runtime.program import Ending, Limits, environment, program_of, run_program

__all__ = ["Limits", "environment", "program_of", "run_command"]

_OUTCOMES: Final = {
    Ending.ABSENT: Outcome.FAILED,
    Ending.TOO_MUCH: Outcome.FAILED,
    Ending.TIMED_OUT: Outcome.TIMED_OUT,
    Ending.STOPPED: Outcome.INTERRUPTED,
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
    usual = Outcome.CALLED if run.status == 0 else Outcome.FAILED
    return Called(
        _OUTCOMES.get(run.ending, usual),
        run.detail,
        run.said,
        is_recorded=run.ending is not Ending.ABSENT,
    )
