"""Progress of a long command on a terminal."""

import time
from collections.abc import Callable
from typing import Final, Self, TextIO

_EVERY_SECONDS: Final = 0.2
_BAR: Final = 30


class ProgressLine:
    """A line that is overwritten, and erased in the end."""

    def __init__(self, terminal: TextIO, clock: Callable[[], float] = time.monotonic) -> None:
        self._terminal, self._clock = terminal, clock
        self._due = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._terminal.write("\r\x1b[K")
        self._terminal.flush()

    def __call__(self, stage: str, done: int, total: int) -> None:
        """Show how many parts of a stage are done."""
        now = self._clock()
        if now < self._due and done < total:
            return
        self._due = now + _EVERY_SECONDS
        filled = _BAR * done // total if total else 0
        bar = "#" * filled + "." * (_BAR - filled)
        self._terminal.write(f"\r\x1b[K{stage:<10} [{bar}] {done}/{total}")
        self._terminal.flush()
