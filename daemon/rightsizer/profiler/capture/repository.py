"""Repository of captures: records and read files in the database, folders on disk."""

import os
import secrets
import shutil
import stat
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Final

from msgspec import Struct
from msgspec.structs import astuple

from rightsizer.io.clock import Clock
from rightsizer.io.database import Database
from rightsizer.io.record_table import RecordCache, RecordTable
from rightsizer.model.values import Nanoseconds, RightsizerError, percent_text, seconds
from rightsizer.profiler.capture.settings import CaptureStorageSettings

_SHARED: Final = stat.S_ISGID | stat.S_IRWXU | stat.S_IRWXG | stat.S_IROTH | stat.S_IXOTH
"""Mode bits that a capture's folder inherits from the drop folder; never world-writable."""


class CaptureOutcome(StrEnum):
    """State of a capture, or how it ended."""

    RUNNING = "running"
    CALLED = "called"
    """The receiver accepted the request; the profile has yet to arrive."""
    LANDED = "landed"
    """Its profile was read."""
    EMPTY = "empty"
    """No profile arrived, or none that can be read."""
    FAILED = "failed"
    TIMED_OUT = "timed_out"
    INTERRUPTED = "interrupted"

    @property
    def is_final(self) -> bool:
        """Whether the capture is over."""
        return self not in (CaptureOutcome.RUNNING, CaptureOutcome.CALLED)

    @property
    def has_profile(self) -> bool:
        """Whether it led to a profile, or still may."""
        return self in (CaptureOutcome.RUNNING, CaptureOutcome.CALLED, CaptureOutcome.LANDED)


class CaptureRecord(Struct, frozen=True):
    """A capture."""

    id: str
    workload: str
    """Key of the workload."""
    finding: str
    """Id of the finding."""
    reason: str
    devices: tuple[str, ...]
    """GPUs that the workload held, by uuid, in node order."""
    started: Nanoseconds
    """Wall time."""
    outcome: CaptureOutcome
    detail: str = ""
    ended: Nanoseconds | None = None
    """Wall time at which the call ended."""
    process: int | None = None
    """Process id of the called program, which leads its own process group."""
    process_started: int | None = None
    """In kernel ticks since boot; identifies the process together with its id."""


class ReadFile(Struct, frozen=True):
    """A file of the drop folder that was read or found unreadable."""

    path: str
    """Relative to the drop folder."""
    size_bytes: int
    modified: Nanoseconds
    fault: str = ""
    """Why it cannot be read; empty if it was."""


class CaptureRepository(RecordTable[CaptureRecord]):
    """Captures and read files in the tables of `captures.sql`."""

    def __init__(self, database: Database) -> None:
        super().__init__(database, "capture", "started", CaptureRecord)

    def files(self) -> Mapping[str, ReadFile]:
        """Return the read files by path; raises `HistoryError` if unreadable."""
        with self._database.transaction() as connection:
            rows = connection.execute("SELECT path, size, modified, fault FROM read_file")
            return {row[0]: ReadFile(*row) for row in rows}

    def put_files(self, files: Iterable[ReadFile]) -> None:
        """Store read files, replacing earlier entries of the same paths.

        Raises:
            HistoryError: it could not be written.
        """
        if rows := list(map(astuple, files)):
            with self._database.transaction() as connection:
                connection.executemany("INSERT OR REPLACE INTO read_file VALUES (?, ?, ?, ?)", rows)

    def forget_files(self, paths: Iterable[str]) -> None:
        """Delete entries of files that are gone; raises `HistoryError` on failure."""
        self._drop("DELETE FROM read_file WHERE path = ?", paths)


class CaptureCache(RecordCache[CaptureRecord]):
    """Captures with ages on the steady clock, for those that began in this process."""

    def __init__(self, repository: CaptureRepository, clock: Clock) -> None:
        super().__init__(repository)
        self._clock = clock
        self._begun: dict[str, Nanoseconds] = {}

    def begin(self, record: CaptureRecord) -> None:
        """Store a capture before it is made.

        Raises:
            HistoryError: it could not be written; it is not remembered.
        """
        super().begin(record)
        self._begun[record.id] = self._clock.time()

    def forget(self, ids: Collection[str]) -> None:
        """Delete captures; raises `HistoryError` on failure."""
        super().forget(ids)
        for identifier in ids:
            self._begun.pop(identifier, None)

    def ago_seconds(self, record: CaptureRecord) -> float:
        """Return the age; for captures of other processes by the wall clock, in absolute value."""
        if (begun := self._begun.get(record.id)) is None:
            return seconds(abs(self._clock.wall_time() - record.started))
        return seconds(self._clock.time() - begun)


def new_id(now: Nanoseconds) -> str:
    """Create an id for a capture and its folder."""
    when = datetime.fromtimestamp(seconds(now), UTC)
    return f"capture-{when:%Y%m%dT%H%M%SZ}-{secrets.token_hex(3)}"


class CaptureStorage:
    """Disk space of captures; never touches other files of the drop folder."""

    def __init__(self, folder: Path, settings: CaptureStorageSettings) -> None:
        self._folder = folder
        self._settings = settings

    def make(self, capture_id: str) -> Path:
        """Create the folder of a capture; raises `RightsizerError` on failure."""
        path = self._folder / capture_id
        try:
            path.mkdir(mode=0o750)
            path.chmod(self._folder.stat().st_mode & _SHARED | stat.S_IRWXU)
        except OSError as error:
            raise RightsizerError(
                f"profiles.drop_folder.path: no folder can be made in '{self._folder}': "
                f"{(error.strerror or str(error)).lower()}; let the agent's user write into it"
            ) from None
        return path

    def size_bytes(self, capture_id: str) -> int:
        """Return the size of a capture's files; 0 without any."""
        total = 0
        with suppress(OSError):  # Files deleted meanwhile count as 0.
            for _, _, names, place in os.fwalk(self._folder / capture_id, follow_symlinks=False):
                for name in names:
                    with suppress(OSError):
                        total += os.stat(name, dir_fd=place, follow_symlinks=False).st_size
        return total

    def why_too_much(self, capture_id: str) -> str | None:
        """Return why a capture exceeds the quota by itself, or `None`."""
        quota_bytes = self._settings.quota_bytes
        if self.size_bytes(capture_id) <= quota_bytes:
            return None
        return (
            f"wrote more than {quota_bytes} bytes, and was ended; record a shorter time, or raise "
            "profiles.capture.room.quota"
        )

    def why_none(self, kept: Iterable[CaptureRecord]) -> str | None:
        """Return why there is no space for another capture, or `None`."""
        taken = sum(self.size_bytes(capture.id) for capture in kept)
        if taken >= self._settings.quota_bytes:
            return f"captures take {taken} bytes, and profiles.capture.room.quota allows no more"
        try:
            disk = os.statvfs(self._folder)
        except OSError as error:
            return f"the drop folder cannot be looked at: {(error.strerror or str(error)).lower()}"
        free = disk.f_bavail / disk.f_blocks if disk.f_blocks else 0.0
        if free < self._settings.minimum_free_ratio:
            return f"the drop folder's file system is nearly full: {percent_text(free)} are free"
        return None

    def prune(
        self, records: Iterable[CaptureRecord], now: Nanoseconds, *, by_age: bool
    ) -> tuple[str, ...]:
        """Delete captures beyond age or quota, oldest first; return their ids.

        Captures still awaiting a profile are kept; `by_age` needs a trusted clock.
        """
        records = tuple(records)
        sizes = {capture.id: self.size_bytes(capture.id) for capture in records}
        total = sum(sizes.values())
        deleted = []
        for record in records:
            is_old = by_age and seconds(now - record.started) > self._settings.kept_for
            if not record.outcome.is_final or not (is_old or total > self._settings.quota_bytes):
                continue
            if self._delete(record.id):
                deleted.append(record.id)
                total -= sizes[record.id]
        return tuple(deleted)

    def _delete(self, capture_id: str) -> bool:
        path = self._folder / capture_id
        with suppress(OSError):
            status = path.lstat()
            if stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid():
                shutil.rmtree(path, ignore_errors=True)
                return not path.exists()
        return False
