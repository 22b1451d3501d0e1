"""What a format of recordings is."""

from collections.abc import Iterator, Sequence
from typing import Protocol

from rightsizer.telemetry.recorded.row import Notes, Row
from rightsizer.telemetry.recorded.text import TextFile

__all__ = ["Format"]


class Format(Protocol):
    """One way to write readings down."""

    @property
    def name(self) -> str:
        """What it is called in messages."""

    def recognizes(self, head: Sequence[str]) -> bool:
        """Whether the first lines of a file, stripped and none of them blank, look like it."""

    def rows(self, text: TextFile, notes: Notes) -> Iterator[Row]:
        """The rows of a file in its own order; each call is a pass of its own.

        Raises:
            RecordingError: the file is of this format but lacks what a recording needs.
        """
