"""How far a look at an estate has come, in one line of a terminal."""

import time
from collections.abc import Callable
from typing import Final, Self, TextIO

__all__ = ["Progress"]

_EVERY_SECONDS: Final = 0.2
_BAR: Final = 30


class Progress:
    """A line that is written over, and gone in the end."""

    def __init__(self, terminal: TextIO, clock: Callable[[], float] = time.monotonic) -> None:
        self._terminal, self._clock = terminal, clock
        self._due = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._terminal.write("\r\x1b[K")
        self._terminal.flush()

    def __call__(self, stage: str, done: int, total: int) -> None:
        """Show how far a stage is.

        Args:
            stage: What is going on, in a word or two.
            done: Parts that are done.
            total: All its parts.
        """
        now = self._clock()
        if now < self._due and done < total:
            return
        self._due = now + _EVERY_SECONDS
        filled = _BAR * done // total if total else 0
        bar = "#" * filled + "." * (_BAR - filled)
        self._terminal.write(f"\r\x1b[K{stage:<10} [{bar}] {done}/{total}")
        self._terminal.flush()
