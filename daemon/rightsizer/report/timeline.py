"""The timeline of a recording as CSV: one line for each stretch in which nothing changed."""

import contextlib
import csv
import errno
import os
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from rightsizer.model.entry import Entry
from rightsizer.model.errors import RightsizerError
from rightsizer.model.units import Nanoseconds

_HEADER: Final = ("device", "start", "end", "state", "second_cause", "score", "conditions")
_NANO: Final = Decimal(10) ** -9
_JITTER: Final[Nanoseconds] = 1_000_000
"""Between the wall and the steady clock of a live node, which are not read at once."""


class _Stretch:
    """Entries of one device that say the same, one after the other."""

    def __init__(self, entry: Entry) -> None:
        self.key = _key(entry)
        self.first, self.end = entry, entry.end
        self._weighted = entry.score * entry.duration

    def takes(self, entry: Entry) -> bool:
        """Whether the entry goes on where this stretch ends, and says the same."""
        return abs(entry.start - self.end) <= _JITTER and _key(entry) == self.key

    def add(self, entry: Entry) -> None:
        self.end = entry.end
        self._weighted += entry.score * entry.duration

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
    """Writes entries to a file that appears only when it is whole.

    `start` and `end` are seconds since the epoch, as exact as the recording's; conditions are
    separated by spaces; the score is the mean over the stretch.
    """

    def __init__(self, path: Path) -> None:
        """Begin beside the file.

        Raises:
            RightsizerError: the file cannot be written.
        """
        self._path = path
        with self._explained():
            if path.is_dir():  # Perhaps the folder `.`, beside which no name can be made.
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
            self._partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
            self._file = self._partial.open("w", encoding="utf-8", newline="")
        self._writer = csv.writer(self._file, lineterminator="\n")
        self._writer.writerow(_HEADER)
        self._open: dict[str, _Stretch] = {}

    def write(self, entry: Entry) -> None:
        """Take one entry; those of a device come in time order.

        Raises:
            RightsizerError: the disk is full.
        """
        stretch = self._open.get(entry.uuid)
        if stretch is not None and stretch.takes(entry):
            stretch.add(entry)
            return
        if stretch is not None:
            with self._explained():
                self._writer.writerow(stretch.row())
        self._open[entry.uuid] = _Stretch(entry)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Put the file in its place, or leave nothing where something went wrong."""
        try:
            if kind is None:
                with self._explained():
                    self._finish()
        finally:
            # What a full disk did not take is of no use to anybody.
            with contextlib.suppress(OSError):
                self._file.close()
            self._partial.unlink(missing_ok=True)

    def _finish(self) -> None:
        for stretch in self._open.values():
            self._writer.writerow(stretch.row())
        self._file.close()
        self._partial.replace(self._path)

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise RightsizerError(
                f"timeline '{self._path}' cannot be written: {error.strerror}; name a file in a "
                "folder that exists, is writable and has room"
            ) from None


def _key(entry: Entry) -> tuple[object, ...]:
    return entry.state, entry.second_cause, entry.conditions


def _seconds(time: Nanoseconds) -> str:
    """A time in seconds without a float's rounding."""
    text = f"{Decimal(time) * _NANO:f}"
    return text.rstrip("0").rstrip(".")
