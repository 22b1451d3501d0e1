"""Repository of captures and read files.

SQLite, in memory, and the cache of one agent over either.
"""

import json
import threading
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Protocol

from rightsizer.io.clock import Clock
from rightsizer.io.database import Database
from rightsizer.model.units import Nanoseconds, seconds
from rightsizer.profiler.capture.request import CaptureOutcome


@dataclass(frozen=True, slots=True)
class CaptureRecord:
    """One capture."""

    id: str
    workload: str
    """Its key."""
    finding: str
    """Its id."""
    reason: str
    devices: tuple[str, ...]
    """The GPUs that the workload held, by uuid, in the node's order."""
    started: Nanoseconds
    """Wall time."""
    outcome: CaptureOutcome
    detail: str = ""
    ended: Nanoseconds | None = None
    """Wall time when the call was over."""
    process: int | None = None
    """Of the program that was called, which leads a group of its own."""
    process_started: int | None = None
    """In the kernel's ticks since it booted; with the number it names one process."""


@dataclass(frozen=True, slots=True)
class ReadFile:
    """A file of the drop folder that was read, or found not to be readable."""

    path: str
    """Below the folder."""
    size_bytes: int
    modified: Nanoseconds
    fault: str = ""
    """Why it cannot be read; empty where it was."""


class CaptureRepository(Protocol):
    """Keeps captures and what was read; safe for threads."""

    @property
    def is_kept(self) -> bool:
        """Whether a capture is remembered over a restart."""

    def captures(self) -> Sequence[CaptureRecord]:
        """All that are kept, oldest first."""

    def put(self, record: CaptureRecord) -> None:
        """Keep one, in place of what it was before."""

    def forget(self, ids: Iterable[str]) -> None:
        """Drop captures."""

    def files(self) -> Mapping[str, ReadFile]:
        """What was read, by its path."""

    def put_files(self, files: Iterable[ReadFile]) -> None:
        """Keep what was read, in place of what was known of these paths."""

    def forget_files(self, paths: Iterable[str]) -> None:
        """Drop what is there no more."""


class InMemoryCaptureRepository:
    """A book that lasts as long as its process."""

    is_kept = False

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._captures: dict[str, CaptureRecord] = {}
        self._files: dict[str, ReadFile] = {}

    def captures(self) -> Sequence[CaptureRecord]:
        """All that are kept, oldest first."""
        with self._lock:
            return sorted(self._captures.values(), key=_order)

    def put(self, record: CaptureRecord) -> None:
        """Keep one."""
        with self._lock:
            self._captures[record.id] = record

    def forget(self, ids: Iterable[str]) -> None:
        """Drop captures; an unknown one does no harm."""
        with self._lock:
            for each in ids:
                self._captures.pop(each, None)

    def files(self) -> Mapping[str, ReadFile]:
        """What was read, by its path."""
        with self._lock:
            return dict(self._files)

    def put_files(self, files: Iterable[ReadFile]) -> None:
        """Keep what was read."""
        with self._lock:
            self._files.update((each.path, each) for each in files)

    def forget_files(self, paths: Iterable[str]) -> None:
        """Drop what is there no more."""
        with self._lock:
            for each in paths:
                self._files.pop(each, None)


class SqliteCaptureRepository:
    """A book that survives a restart, in the tables that `CAPTURE_SCHEMA` makes."""

    is_kept = True

    def __init__(self, database: Database) -> None:
        self._database = database

    def captures(self) -> Sequence[CaptureRecord]:
        """All that are kept, oldest first; a row that cannot be understood is passed over.

        Raises:
            HistoryError: they cannot be read.
        """
        with self._database.transaction() as connection:
            rows = connection.execute("SELECT data FROM capture ORDER BY started, id").fetchall()
        found = (_record_from(text) for (text,) in rows)
        return [record for record in found if record is not None]

    def put(self, record: CaptureRecord) -> None:
        """Keep one.

        Raises:
            HistoryError: it could not be written.
        """
        with self._database.transaction() as connection:
            connection.execute(
                "INSERT INTO capture VALUES (?, ?, ?) "
                "ON CONFLICT (id) DO UPDATE SET data = excluded.data",
                (record.id, record.started, json.dumps(asdict(record), separators=(",", ":"))),
            )

    def forget(self, ids: Iterable[str]) -> None:
        """Drop captures.

        Raises:
            HistoryError: they could not be dropped.
        """
        self._drop("DELETE FROM capture WHERE id = ?", ids)

    def files(self) -> Mapping[str, ReadFile]:
        """What was read, by its path.

        Raises:
            HistoryError: it cannot be read.
        """
        with self._database.transaction() as connection:
            rows = connection.execute("SELECT path, size, modified, fault FROM read_file")
            return {row[0]: ReadFile(*row) for row in rows}

    def put_files(self, files: Iterable[ReadFile]) -> None:
        """Keep what was read.

        Raises:
            HistoryError: it could not be written.
        """
        rows = [(each.path, each.size_bytes, each.modified, each.fault) for each in files]
        if rows:
            with self._database.transaction() as connection:
                connection.executemany("INSERT OR REPLACE INTO read_file VALUES (?, ?, ?, ?)", rows)

    def forget_files(self, paths: Iterable[str]) -> None:
        """Drop what is there no more.

        Raises:
            HistoryError: it could not be dropped.
        """
        self._drop("DELETE FROM read_file WHERE path = ?", paths)

    def _drop(self, statement: str, keys: Iterable[str]) -> None:
        rows = [(each,) for each in keys]
        if rows:
            with self._database.transaction() as connection:
                connection.executemany(statement, rows)


def _order(record: CaptureRecord) -> tuple[Nanoseconds, str]:
    return record.started, record.id


def _record_from(text: str) -> CaptureRecord | None:
    try:
        form: dict[str, Any] = json.loads(text)
        form["outcome"] = CaptureOutcome(form["outcome"])
        form["devices"] = tuple(form["devices"])
        return CaptureRecord(**form)
    except (ValueError, TypeError, KeyError):
        return None


class CaptureCache:
    """Over a book that may break or be full: what this process did, it never forgets.

    Ages go by the clock that never steps where this process saw a capture begin.
    """

    def __init__(self, book: CaptureRepository, clock: Clock) -> None:
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


def capture_repository(database: Database | None) -> CaptureRepository:
    """Captures and read files in a history's database, or in memory."""
    return SqliteCaptureRepository(database) if database else InMemoryCaptureRepository()
