"""What was captured and what was read, kept over a restart."""

import json
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Protocol

from rightsizer.domain.units import Nanoseconds
from rightsizer.edge.database import Database
from rightsizer.runtime.capture.called import CaptureOutcome

__all__ = [
    "CaptureBook",
    "CaptureRecord",
    "MemoryCaptureBook",
    "ReadFile",
    "SqliteCaptureBook",
]


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


class CaptureBook(Protocol):
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


class MemoryCaptureBook:
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


class SqliteCaptureBook:
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
        found = (_understood(text) for (text,) in rows)
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


def _understood(text: str) -> CaptureRecord | None:
    try:
        form: dict[str, Any] = json.loads(text)
        form["outcome"] = CaptureOutcome(form["outcome"])
        form["devices"] = tuple(form["devices"])
        return CaptureRecord(**form)
    except (ValueError, TypeError, KeyError):
        return None
