"""The audit log as one agent knows it: what the book says, and what it saw with its own eyes."""

import threading
from collections.abc import Collection, Mapping, Sequence

from rightsizer.advice.action import Deed
from rightsizer.domain.units import Nanoseconds, seconds
from rightsizer.edge.clock import Clock
from rightsizer.runtime.actions.book import ActionBook, ActionRecord

__all__ = ["ActionMemory"]


class ActionMemory:
    """Over a book that may break or be full: what this process did, or read of, it never forgets.

    Ages go by the clock that never steps where it has not started anew since. Else they go by the
    wall clock as it was when this process first saw the entry; setting the clock makes nothing
    older.
    """

    def __init__(self, book: ActionBook, clock: Clock, boot: str) -> None:
        """A memory that has seen nothing itself.

        Args:
            book: Keeps entries.
            clock: The agent's.
            boot: Names this run of the machine, or of whatever the steady clock counts from.
        """
        self._book, self._clock, self._boot = book, clock, boot
        self._lock = threading.Lock()
        self._own: dict[str, ActionRecord] = {}
        self._unwritten: set[str] = set()
        self._seen: dict[str, tuple[Nanoseconds, Nanoseconds]] = {}
        """Of entries of another run: how old at first sight, and when that was."""

    @property
    def is_kept(self) -> bool:
        """Whether an entry outlasts a kill."""
        return self._book.is_kept

    def records(self) -> Sequence[ActionRecord]:
        """All entries, oldest first, for whoever asks; nothing is written.

        Raises:
            HistoryError: the book cannot be read.
        """
        kept = {each.id: each for each in self._book.records()}
        with self._lock:
            return _ordered({**kept, **self._own})

    def mended(self) -> Sequence[ActionRecord]:
        """All entries, oldest first; those that the book has lost are written anew.

        Raises:
            HistoryError: the book cannot be read or written.
        """
        with self._lock:
            kept = {each.id: each for each in self._book.records()}
            # What was begun is never forgotten, even where the book breaks under it.
            for key, each in kept.items():
                if each.outcome.is_deed:
                    self._own.setdefault(key, each)
            for key, each in self._own.items():
                if key not in kept or key in self._unwritten:
                    self._book.put(each)
                    self._unwritten.discard(key)
            return _ordered({**kept, **self._own})

    def begin(self, record: ActionRecord) -> None:
        """Remember what is not done before it is; it is on the disk when this returns.

        Raises:
            HistoryError: it could not be written; it is not remembered.
        """
        with self._lock:
            self._book.put(record)
            self._own[record.id] = record

    def keep(self, record: ActionRecord) -> None:
        """Remember what became of one; from any thread.

        Raises:
            HistoryError: it could not be written; it is, with the next look at all of them.
        """
        with self._lock:
            self._own[record.id] = record
            self._unwritten.add(record.id)
            self._book.put(record)
            self._unwritten.discard(record.id)

    def forget(self, ids: Collection[str]) -> None:
        """Drop entries.

        Raises:
            HistoryError: they could not be dropped.
        """
        with self._lock:
            for each in ids:
                self._own.pop(each, None)
                self._seen.pop(each, None)
            self._book.forget(ids)

    def deeds(self, records: Sequence[ActionRecord]) -> list[Deed]:
        """Those entries that were begun, with their ages."""
        return [
            Deed(
                action=each.action,
                advice=each.advice,
                opened=each.opened,
                workload=each.workload,
                devices=each.devices,
                at=each.at,
                ago_seconds=self.ago_seconds(each),
                has_worked=each.outcome.has_worked,
                result=each.result,
            )
            for each in records
            if each.outcome.is_deed
        ]

    def ago_seconds(self, record: ActionRecord) -> float:
        """How long ago it was."""
        now = self._clock.time()
        if record.boot == self._boot and now >= record.steady:
            return seconds(now - record.steady)
        by_wall = abs(self._clock.wall_time() - record.at)
        with self._lock:
            age, seen = self._seen.setdefault(record.id, (by_wall, now))
        return seconds(min(by_wall, age + now - seen))


def _ordered(records: Mapping[str, ActionRecord]) -> list[ActionRecord]:
    return sorted(records.values(), key=lambda each: (each.at, each.id))
