"""The timeline of a recording as CSV: one line for each stretch in which nothing changed."""

import csv
from codecs import getwriter
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import IO, Final

from rightsizer.io.files import whole_file
from rightsizer.model.units import Nanoseconds
from rightsizer.model.window import Entry

_HEADER: Final = ("device", "start", "end", "state", "second_cause", "score", "conditions")
_NANO: Final = Decimal(10) ** -9
_JITTER: Final[Nanoseconds] = 1_000_000
"""Between the wall and the steady clock of a live node, which are not read at once."""


class _Stretch:
    """Entries of one device that say the same, one after the other."""

    def __init__(self, entry: Entry) -> None:
        self.first, self.end = entry, entry.end
        self._weighted = entry.score * entry.duration

    def add(self, entry: Entry) -> bool:
        """Take an entry that goes on where this stretch ends, and says the same."""
        if abs(entry.start - self.end) > _JITTER or _key(entry) != _key(self.first):
            return False
        self.end = entry.end
        self._weighted += entry.score * entry.duration
        return True

    def row(self) -> tuple[str, ...]:
        first = self.first
        score = self._weighted / max(1, self.end - first.start)
        return (
            *(first.uuid, _seconds(first.start), _seconds(self.end)),
            *(str(first.state), str(first.second_cause or ""), f"{score:.3f}"),
            " ".join(sorted(first.conditions)),
        )


class Timeline:
    """Writes entries.

    `start` and `end` are seconds since the epoch, as exact as the recording's; conditions are
    separated by spaces; the score is the mean over the stretch.
    """

    def __init__(self, stream: IO[bytes]) -> None:
        self._writer = csv.writer(getwriter("utf-8")(stream), lineterminator="\n")
        self._writer.writerow(_HEADER)
        self._open: dict[str, _Stretch] = {}

    @classmethod
    @contextmanager
    def open(cls, path: Path) -> "Iterator[Timeline]":
        """A timeline in a file that appears only when it is whole.

        Raises:
            RightsizerError: the file cannot be written, or the disk is full.
        """
        with whole_file(path, "timeline") as file:
            timeline = cls(file)
            yield timeline
            timeline.finish()

    def write(self, entry: Entry) -> None:
        """Take one entry; those of a device come in time order."""
        if (stretch := self._open.get(entry.uuid)) is None or not stretch.add(entry):
            if stretch is not None:
                self._writer.writerow(stretch.row())
            self._open[entry.uuid] = _Stretch(entry)

    def finish(self) -> None:
        """Write the last stretch of each device."""
        self._writer.writerows(stretch.row() for stretch in self._open.values())


def _key(entry: Entry) -> tuple[object, ...]:
    return entry.state, entry.second_cause, entry.conditions


def _seconds(time: Nanoseconds) -> str:
    """A time in seconds without a float's rounding."""
    text = f"{Decimal(time) * _NANO:f}"
    return text.rstrip("0").rstrip(".")
