"""Timeline of a recording as CSV: one line for each interval without a change."""

import csv
from codecs import getwriter
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import IO, Final

from rightsizer.io.files import whole_file
from rightsizer.model.values import Entry, Nanoseconds

_HEADER: Final = ("device", "start", "end", "state", "second_cause", "score", "conditions")
_NANO: Final = Decimal(10) ** -9
_JITTER: Final[Nanoseconds] = 1_000_000
"""Jitter between wall and steady clock of a live node, which are read one after the other."""


class _Segment:
    """Consecutive equal entries of one device."""

    def __init__(self, entry: Entry) -> None:
        self.first = entry
        self.end = entry.end
        self._weighted = entry.score * entry.duration

    def add(self, entry: Entry) -> bool:
        """Append an entry if it adjoins and equals this interval; return whether it did."""
        if abs(entry.start - self.end) > _JITTER or _key(entry) != _key(self.first):
            return False
        self.end = entry.end
        self._weighted += entry.score * entry.duration
        return True

    def row(self) -> tuple[str, ...]:
        first = self.first
        score = self._weighted / max(1, self.end - first.start)
        return (
            first.uuid,
            _seconds(first.start),
            _seconds(self.end),
            str(first.state),
            str(first.second_cause or ""),
            f"{score:.3f}",
            " ".join(sorted(first.conditions)),
        )


class Timeline:
    """Writer of entries.

    `start` and `end` are seconds since the epoch with the recording's precision, conditions are
    separated by spaces, and the score is the mean over the interval.
    """

    def __init__(self, stream: IO[bytes]) -> None:
        self._writer = csv.writer(getwriter("utf-8")(stream), lineterminator="\n")
        self._writer.writerow(_HEADER)
        self._open: dict[str, _Segment] = {}

    @classmethod
    @contextmanager
    def open(cls, path: Path) -> "Iterator[Timeline]":
        """Open a timeline in a file that appears only when complete.

        Raises:
            RightsizerError: the file cannot be written, or the disk is full.
        """
        with whole_file(path, "timeline") as file:
            timeline = cls(file)
            yield timeline
            timeline.finish()

    def write(self, entry: Entry) -> None:
        """Add an entry; those of a device come in time order."""
        if (stretch := self._open.get(entry.uuid)) is None or not stretch.add(entry):
            if stretch is not None:
                self._writer.writerow(stretch.row())
            self._open[entry.uuid] = _Segment(entry)

    def finish(self) -> None:
        """Write the last interval of each device."""
        self._writer.writerows(stretch.row() for stretch in self._open.values())


def _key(entry: Entry) -> tuple[object, ...]:
    return entry.state, entry.second_cause, entry.conditions


def _seconds(time: Nanoseconds) -> str:
    """Format seconds without a float's rounding."""
    text = f"{Decimal(time) * _NANO:f}"
    return text.rstrip("0").rstrip(".")
