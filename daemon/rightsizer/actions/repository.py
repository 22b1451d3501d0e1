"""Repository of the audit log: SQLite, in memory, and the cache of one agent over either."""

import json
import threading
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any, Final, Protocol

from rightsizer.actions.proposals import ActionVerdict, PastAction
from rightsizer.io.clock import Clock
from rightsizer.io.database import Database
from rightsizer.model.advice import AdviceState
from rightsizer.model.units import Nanoseconds, seconds


class ActionOutcome(StrEnum):
    """What became of an action."""

    STARTED = "started"
    """It is under way, or the agent was killed before it knew."""
    DONE = "done"
    FAILED = "failed"
    TIMED_OUT = "timed_out"
    INTERRUPTED = "interrupted"
    """The agent ended meanwhile."""
    UNKNOWN = "unknown"
    """The agent was killed meanwhile, or the answer was lost; it is not repeated."""
    DRY_RUN = "dry_run"
    """It would have been done."""
    REFUSED = "refused"
    WITHDRAWN = "withdrawn"
    """Its approval was taken back before it was done."""

    @property
    def is_deed(self) -> bool:
        """Whether something was begun."""
        return self not in _UNDONE

    @property
    def has_worked(self) -> bool | None:
        """Whether what was begun did what it was to do, `None` where nobody knows (yet)."""
        if self in (ActionOutcome.STARTED, ActionOutcome.UNKNOWN, ActionOutcome.INTERRUPTED):
            return None
        return self is ActionOutcome.DONE


_UNDONE: Final = frozenset({ActionOutcome.DRY_RUN, ActionOutcome.REFUSED, ActionOutcome.WITHDRAWN})


@dataclass(frozen=True, slots=True)
class ActionRecord:
    """One entry."""

    id: str
    action: str
    """The action's name."""
    way: str
    """`command` or `webhook`."""
    advice: str
    """The id."""
    opened: Nanoseconds
    """When that advice was opened."""
    at: Nanoseconds
    """Wall time when it was begun, or was not."""
    outcome: ActionOutcome
    verdict: ActionVerdict
    actor: str
    """Who decided it: whoever claimed the advice, or the agent itself."""
    workload: str | None = None
    """Its key."""
    devices: tuple[str, ...] = ()
    reason: str = ""
    summary: str = ""
    """What the advice said."""
    confidence: float = 0.0
    risk: str = ""
    evidence: Mapping[str, object] = field(default_factory=dict, hash=False)
    """What it rested on then."""
    why: str = ""
    """Why it was not done, or what went wrong."""
    steady: Nanoseconds = 0
    """The steady clock when it was begun."""
    boot: str = ""
    """Which run of the machine that clock counts from."""
    ended: Nanoseconds | None = None
    status: int | None = None
    """The exit status of a program, below 0 the signal that ended it, or that of HTTP."""
    said: str = ""
    """The beginning of what a program said."""
    process: int | None = None
    process_started: int | None = None
    """In the kernel's ticks since it booted; with the number it names one process."""
    result: AdviceState | None = None
    """What became of the advice since."""
    result_why: str = ""
    result_at: Nanoseconds | None = None
    approved: Nanoseconds | None = None
    """Of what was put up for approval: wall time of the claim that approved it."""
    approver: str = ""
    """Who that was, with what the kernel or the server knows of him."""


class ActionRepository(Protocol):
    """Keeps entries; safe for threads."""

    @property
    def is_kept(self) -> bool:
        """Whether an entry outlasts a kill."""

    def records(self) -> Sequence[ActionRecord]:
        """All that are kept, oldest first."""

    def put(self, record: ActionRecord) -> None:
        """Keep one, in place of what it was before; on the disk when this returns."""

    def forget(self, ids: Iterable[str]) -> None:
        """Drop entries."""


class InMemoryActionRepository:
    """A book that lasts as long as its process."""

    is_kept = False

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._records: dict[str, ActionRecord] = {}

    def records(self) -> Sequence[ActionRecord]:
        """All that are kept, oldest first."""
        with self._lock:
            return sorted(self._records.values(), key=lambda each: (each.at, each.id))

    def put(self, record: ActionRecord) -> None:
        """Keep one."""
        with self._lock:
            self._records[record.id] = record

    def forget(self, ids: Iterable[str]) -> None:
        """Drop entries; an unknown one does no harm."""
        with self._lock:
            for each in ids:
                self._records.pop(each, None)


class SqliteActionRepository:
    """A book that survives a kill, in the table that `ACTION_SCHEMA` makes."""

    is_kept = True

    def __init__(self, database: Database) -> None:
        self._database = database

    def records(self) -> Sequence[ActionRecord]:
        """All that are kept, oldest first; a row that cannot be understood is passed over.

        Raises:
            HistoryError: they cannot be read.
        """
        with self._database.transaction() as connection:
            rows = connection.execute("SELECT data FROM action ORDER BY at, id").fetchall()
        found = (_record_from(text) for (text,) in rows)
        return [record for record in found if record is not None]

    def put(self, record: ActionRecord) -> None:
        """Keep one.

        Raises:
            HistoryError: it could not be written.
        """
        text = json.dumps(asdict(record), separators=(",", ":"), default=str)
        with self._database.transaction() as connection:
            connection.execute(
                "INSERT INTO action VALUES (?, ?, ?) "
                "ON CONFLICT (id) DO UPDATE SET data = excluded.data",
                (record.id, record.at, text),
            )

    def forget(self, ids: Iterable[str]) -> None:
        """Drop entries.

        Raises:
            HistoryError: they could not be dropped.
        """
        rows = [(each,) for each in ids]
        if rows:
            with self._database.transaction() as connection:
                connection.executemany("DELETE FROM action WHERE id = ?", rows)


def _record_from(text: str) -> ActionRecord | None:
    try:
        form: dict[str, Any] = json.loads(text)
        form["outcome"] = ActionOutcome(form["outcome"])
        form["verdict"] = ActionVerdict(form["verdict"])
        form["devices"] = tuple(form["devices"])
        form["result"] = None if form["result"] is None else AdviceState(form["result"])
        return ActionRecord(**form)
    except (ValueError, TypeError, KeyError):
        return None


class ActionCache:
    """Over a book that may break or be full: what this process did, or read of, it never forgets.

    Ages go by the clock that never steps where it has not started anew since. Else they go by the
    wall clock as it was when this process first saw the entry; setting the clock makes nothing
    older.
    """

    def __init__(self, book: ActionRepository, clock: Clock, boot: str) -> None:
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

    def deeds(self, records: Sequence[ActionRecord]) -> list[PastAction]:
        """Those entries that were begun, with their ages."""
        return [
            PastAction(
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


def action_repository(database: Database | None) -> ActionRepository:
    """The audit log in a history's database, or in memory."""
    return SqliteActionRepository(database) if database else InMemoryActionRepository()
