"""Repository of captures and of files that were read, and the cache of one agent over it."""

from collections.abc import Collection, Iterable, Mapping
from enum import StrEnum

from rightsizer.io.clock import Clock
from rightsizer.io.database import Database
from rightsizer.io.record_table import RecordCache, RecordTable
from rightsizer.model.frozen import astuple, dataclass
from rightsizer.model.units import Nanoseconds, seconds


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
    """The receiver refused, or failed."""
    TIMED_OUT = "timed_out"
    INTERRUPTED = "interrupted"
    """The agent ended meanwhile."""

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
    """Captures and files that were read, in the tables that `CAPTURE_SCHEMA` makes."""

    def __init__(self, database: Database) -> None:
        super().__init__(database, "capture", "started", CaptureRecord)

    def files(self) -> Mapping[str, ReadFile]:
        """What was read, by its path.

        Raises:
            HistoryError: it cannot be read.
        """
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
        """Drop what is there no more.

        Raises:
            HistoryError: it could not be dropped.
        """
        self._drop("DELETE FROM read_file WHERE path = ?", paths)


class CaptureCache(RecordCache[CaptureRecord]):
    """Captures with their ages, by the clock that never steps where this process saw them begin."""

    def __init__(self, repository: CaptureRepository, clock: Clock) -> None:
        """A cache that has seen nothing itself."""
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
        """Drop captures.

        Raises:
            HistoryError: they could not be dropped.
        """
        super().forget(ids)
        for each in ids:
            self._begun.pop(each, None)

    def ago_seconds(self, record: CaptureRecord) -> float:
        """How long ago it began; by the wall clock, whichever way that was set, for others'."""
        begun = self._begun.get(record.id)
        if begun is None:
            return seconds(abs(self._clock.wall_time() - record.started))
        return seconds(self._clock.time() - begun)
