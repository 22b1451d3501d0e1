"""Progress of a long command in a terminal."""

import time
from collections.abc import Callable
from typing import Final, Self, TextIO

from rightsizer.model.units import format_duration

_EVERY_SECONDS: Final = 0.2
_BAR: Final = 30
_FIRST_SECONDS: Final = 1.0


class ProgressLine:
    """A line that is overwritten, and erased at the end."""

    def __init__(self, terminal: TextIO, clock: Callable[[], float] = time.monotonic) -> None:
        self._terminal = terminal
        self._clock = clock
        self._due = 0.0
        self._stage = ""
        self._begin = 0.0
        self._before = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._terminal.write("\r\x1b[K")
        self._terminal.flush()

    def __call__(self, stage: str, done: int, total: int) -> None:
        """Show the progress of a stage, its rate, and the remaining time."""
        now = self._clock()
        if stage != self._stage:
            self._stage = stage
            self._begin = now
            self._before = done
        elif now < self._due and done < total:
            return
        self._due = now + _EVERY_SECONDS
        filled = _BAR * done // total if total else 0
        bar = "#" * filled + "." * (_BAR - filled)
        rest = self._rest(now, done, total)
        self._terminal.write(f"\r\x1b[K{stage:<10} [{bar}] {done:,}/{total:,}{rest}")
        self._terminal.flush()

    def _rest(self, now: float, done: int, total: int) -> str:
        """Return rate and time left; empty in a stage's first second, which predicts little."""
        elapsed = now - self._begin
        if elapsed < _FIRST_SECONDS or done <= self._before:
            return ""
        rate = (done - self._before) / elapsed
        left = format_duration(max(1.0, round((total - done) / rate)))
        return f", {rate:,.{0 if rate >= 10 else 1}f}/s, {left} left"  # noqa: PLR2004 - two digits.
