"""The captures as one agent knows them: what the book says, and what it saw with its own eyes."""

import threading
from collections.abc import Collection, Mapping, Sequence

from rightsizer.domain.units import Nanoseconds, seconds
from rightsizer.edge.clock import Clock
from rightsizer.runtime.capture.book import CaptureBook, CaptureRecord

__all__ = ["CaptureMemory"]


class CaptureMemory:
    """Over a book that may break or be full: what this process did, it never forgets.

    Ages go by the clock that never steps where this process saw a capture begin.
    """

    def __init__(self, book: CaptureBook, clock: Clock) -> None:
        """A memory that has seen nothing itself."""
        self._book, self._clock = book, clock
        self._lock = threading.Lock()
        self._begun: dict[str, Nanoseconds] = {}
        self._own: dict[str, CaptureRecord] = {}

    def records(self) -> Sequence[CaptureRecord]:
        """All captures, oldest first, for whoever asks; nothing is written.

        Raises:
            HistoryError: the book cannot be read.
        """
        kept = {each.id: each for each in self._book.captures()}
        with self._lock:
            return _ordered({**kept, **self._own})

    def mended(self) -> Sequence[CaptureRecord]:
        """All captures, oldest first; those that the book has lost are written anew.

        Raises:
            HistoryError: the book cannot be read or written.
        """
        with self._lock:
            kept = {each.id: each for each in self._book.captures()}
            for record in self._own.values():
                # The process is the book's alone: whoever calls notes it there.
                if record.id not in kept or kept[record.id].outcome is not record.outcome:
                    self._book.put(record)
            return _ordered({**kept, **self._own})

    def begin(self, record: CaptureRecord) -> None:
        """Remember a capture before it is made.

        Raises:
            HistoryError: it could not be written; it is not remembered.
        """
        with self._lock:
            self._book.put(record)
            self._begun[record.id] = self._clock.time()
            self._own[record.id] = record

    def keep(self, record: CaptureRecord) -> None:
        """Remember what became of one; from any thread.

        Raises:
            HistoryError: it could not be written; it is, with the next look at all of them.
        """
        with self._lock:
            self._own[record.id] = record
            self._book.put(record)

    def forget(self, ids: Collection[str]) -> None:
        """Drop captures.

        Raises:
            HistoryError: they could not be dropped.
        """
        with self._lock:
            for each in ids:
                self._begun.pop(each, None)
                self._own.pop(each, None)
            self._book.forget(ids)

    def ago_seconds(self, record: CaptureRecord) -> float:
        """How long ago it began; by the wall clock, whichever way that was set, for others'."""
        begun = self._begun.get(record.id)
        if begun is None:
            return seconds(abs(self._clock.wall_time() - record.started))
        return seconds(self._clock.time() - begun)


def _ordered(records: Mapping[str, CaptureRecord]) -> list[CaptureRecord]:
    return sorted(records.values(), key=lambda each: (each.started, each.id))
