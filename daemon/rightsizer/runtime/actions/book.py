"""The audit log: what was done, what would have been, what was refused; kept over a restart."""

import json
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any, Final, Protocol

from rightsizer.advice.action import ActionVerdict
from rightsizer.domain.advice import AdviceState
from rightsizer.domain.units import Nanoseconds
from rightsizer.edge.database import Database

__all__ = [
    "ActionBook",
    "ActionOutcome",
    "ActionRecord",
    "MemoryActionBook",
    "SqliteActionBook",
]


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


class ActionBook(Protocol):
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


class MemoryActionBook:
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


class SqliteActionBook:
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
        found = (_understood(text) for (text,) in rows)
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


def _understood(text: str) -> ActionRecord | None:
    try:
        form: dict[str, Any] = json.loads(text)
        form["outcome"] = ActionOutcome(form["outcome"])
        form["verdict"] = ActionVerdict(form["verdict"])
        form["devices"] = tuple(form["devices"])
        form["result"] = None if form["result"] is None else AdviceState(form["result"])
        return ActionRecord(**form)
    except (ValueError, TypeError, KeyError):
        return None
