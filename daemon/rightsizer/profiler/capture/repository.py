"""Repository of captures: records and read files in the database, folders on the disk."""

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

from rightsizer.io.clock import Clock
from rightsizer.io.database import Database
from rightsizer.io.record_table import RecordCache, RecordTable
from rightsizer.model.errors import RightsizerError
from rightsizer.model.frozen import astuple, dataclass
from rightsizer.model.units import Nanoseconds, percent_text, seconds
from rightsizer.profiler.capture.settings import CaptureStorageSettings

_SHARED: Final = stat.S_ISGID | stat.S_IRWXU | stat.S_IRWXG | stat.S_IROTH | stat.S_IXOTH
"""What a capture's folder has of the drop folder's mode: a group may write into it, never all."""


class CaptureOutcome(StrEnum):
    """Where a capture stands, or how it ended."""

    RUNNING = "running"
    CALLED = "called"
    """The receiver has taken it; the profile is still to land."""
    LANDED = "landed"
    """A profile of it was read."""
    EMPTY = "empty"
    """None came, or none that can be read."""
    FAILED = "failed"
    TIMED_OUT = "timed_out"
    INTERRUPTED = "interrupted"

    @property
    def is_final(self) -> bool:
        """Whether nothing more will become of it."""
        return self not in (CaptureOutcome.RUNNING, CaptureOutcome.CALLED)

    @property
    def is_fruitful(self) -> bool:
        """Whether a profile came of it, or still may."""
        return self in (CaptureOutcome.RUNNING, CaptureOutcome.CALLED, CaptureOutcome.LANDED)


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


class CaptureRepository(RecordTable[CaptureRecord]):
    """Captures and files that were read, in the tables of `captures.sql`."""

    def __init__(self, database: Database) -> None:
        super().__init__(database, "capture", "started", CaptureRecord)

    def files(self) -> Mapping[str, ReadFile]:
        """What was read, by its path; raises `HistoryError` where it cannot be read."""
        with self._database.transaction() as connection:
            rows = connection.execute("SELECT path, size, modified, fault FROM read_file")
            return {row[0]: ReadFile(*row) for row in rows}

    def put_files(self, files: Iterable[ReadFile]) -> None:
        """Keep what was read, in place of what was known of these paths.

        Raises:
            HistoryError: it could not be written.
        """
        if rows := list(map(astuple, files)):
            with self._database.transaction() as connection:
                connection.executemany("INSERT OR REPLACE INTO read_file VALUES (?, ?, ?, ?)", rows)

    def forget_files(self, paths: Iterable[str]) -> None:
        """Drop what is there no more; raises `HistoryError` where it could not be dropped."""
        self._drop("DELETE FROM read_file WHERE path = ?", paths)


class CaptureCache(RecordCache[CaptureRecord]):
    """Captures with their ages, by the clock that never steps where this process saw them begin."""

    def __init__(self, repository: CaptureRepository, clock: Clock) -> None:
        super().__init__(repository)
        self._clock = clock
        self._begun: dict[str, Nanoseconds] = {}

    def begin(self, record: CaptureRecord) -> None:
        """Remember a capture before it is made.

        Raises:
            HistoryError: it could not be written; it is not remembered.
        """
        super().begin(record)
        self._begun[record.id] = self._clock.time()

    def forget(self, ids: Collection[str]) -> None:
        """Drop captures; raises `HistoryError` where they could not be dropped."""
        super().forget(ids)
        for each in ids:
            self._begun.pop(each, None)

    def ago_seconds(self, record: CaptureRecord) -> float:
        """How long ago it began; by the wall clock, whichever way that was set, for others'."""
        if (begun := self._begun.get(record.id)) is None:
            return seconds(abs(self._clock.wall_time() - record.started))
        return seconds(self._clock.time() - begun)


def new_id(now: Nanoseconds) -> str:
    """What a capture, and its folder, is called."""
    when = datetime.fromtimestamp(seconds(now), UTC)
    return f"capture-{when:%Y%m%dT%H%M%SZ}-{secrets.token_hex(3)}"


class CaptureStorage:
    """Room for captures, and only for them: whatever else lies in the drop folder stays."""

    def __init__(self, folder: Path, settings: CaptureStorageSettings) -> None:
        self._folder, self._settings = folder, settings

    def make(self, capture_id: str) -> Path:
        """A folder for one capture; raises `RightsizerError` where it cannot be made."""
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
        """What a capture has written; 0 where there is nothing."""
        total = 0
        with suppress(OSError):  # Of what goes away meanwhile nothing is left to count.
            for _, _, names, place in os.fwalk(self._folder / capture_id, follow_symlinks=False):
                for name in names:
                    with suppress(OSError):
                        total += os.stat(name, dir_fd=place, follow_symlinks=False).st_size
        return total

    def why_too_much(self, capture_id: str) -> str | None:
        """What one capture alone has used up, `None` while it has not."""
        quota_bytes = self._settings.quota_bytes
        if self.size_bytes(capture_id) <= quota_bytes:
            return None
        return (
            f"wrote more than {quota_bytes} bytes, and was ended; record a shorter time, or raise "
            "profiles.capture.room.quota"
        )

    def why_none(self, kept: Iterable[CaptureRecord]) -> str | None:
        """Why there is no room for another capture, `None` where there is."""
        taken = sum(self.size_bytes(each.id) for each in kept)
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
        """Delete what is too old or too much, oldest first; the ids of the captures deleted.

        Those of which something is still expected stay; age counts where the clock can be trusted.
        """
        records = tuple(records)
        sizes = {each.id: self.size_bytes(each.id) for each in records}
        total = sum(sizes.values())
        deleted = []
        for each in records:
            is_old = by_age and seconds(now - each.started) > self._settings.kept_for
            if not each.outcome.is_final or not (is_old or total > self._settings.quota_bytes):
                continue
            if self._delete(each.id):
                deleted.append(each.id)
                total -= sizes[each.id]
        return tuple(deleted)

    def _delete(self, capture_id: str) -> bool:
        path = self._folder / capture_id
        with suppress(OSError):
            status = path.lstat()
            if stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid():
                shutil.rmtree(path, ignore_errors=True)
                return not path.exists()
        return False
