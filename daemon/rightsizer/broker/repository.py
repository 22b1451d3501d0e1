"""SQLite repository of the broker's state; leases survive restarts of the agent."""

from pathlib import Path
from typing import Any, Final, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from rightsizer.broker.lease import LeaseEnding, LeaseRecord, Ticket
from rightsizer.broker.state import Booking, BrokerState, ShareUsage
from rightsizer.io.clock import Clock
from rightsizer.io.codec import decode, stored
from rightsizer.io.database import Database
from rightsizer.io.files import Called
from rightsizer.io.log import logger
from rightsizer.model.values import HistoryError, Nanoseconds, nanoseconds

BROKER_FILE: Final = Called("broker's state", "broker.path", "agent")
_SCHEMA: Final = """
CREATE TABLE item (kind TEXT, id TEXT, form TEXT NOT NULL, PRIMARY KEY (kind, id)) WITHOUT ROWID;
CREATE TABLE fact (name TEXT PRIMARY KEY, form TEXT NOT NULL) WITHOUT ROWID
"""
_Item = Ticket | LeaseRecord | Booking | LeaseEnding
_Key = tuple[str, str]
_Stored = TypeVar("_Stored")
_KINDS: Final[dict[str, type[_Item]]] = {
    "ticket": Ticket,
    "lease": LeaseRecord,
    "reservation": Booking,
    "ending": LeaseEnding,
}
_KIND_NAMES: Final = {kind: name for name, kind in _KINDS.items()}
_SAVE_INTERVAL: Final = nanoseconds(60.0)
_PROCESSES_SAVE_INTERVAL: Final = nanoseconds(5.0)
"""Limits writes for a lease with processes that start and exit every second."""


def encode_item(item: _Item) -> str:
    """Encode a row as JSON, without a lease's current memory, which is measured again."""
    if isinstance(item, LeaseRecord):
        item = replace(item, measured_bytes=())
    return stored(item)


def decode_item(kind: str, text: str) -> _Item:
    """Decode a row; raises `ValueError` or `KeyError` if invalid."""
    return decode(text, _KINDS[kind])


def _decode_fact(text: str | None, kind: type[_Stored]) -> _Stored | None:
    try:
        return None if text is None else decode(text, kind)
    except ValueError:
        return None


class SavedClock(Struct, frozen=True):
    """One moment by a boot's clock and by the wall clock, to relate the clocks of boots."""

    boot: str
    at: Nanoseconds
    """CLOCK_BOOTTIME."""
    wall: Nanoseconds

    def shift_to(self, other: "SavedClock") -> Nanoseconds:
        """Offset from this boot's clock to another boot's."""
        return (self.wall - self.at) - (other.wall - other.at)


class BrokerRepository:
    """State as JSON rows; writes only changed ones.

    Every method raises a HistoryError if the file cannot be read or written; the constructor only
    if it is locked by another process, of a newer version or closed to this user: a file on a full
    disk is read, and written later. A broken file is replaced, and the next load finds it empty.
    """

    def __init__(self, path: Path) -> None:
        self._database = Database(path, (_SCHEMA,), waits_for_disk=True, called=BROKER_FILE)
        self._rows: dict[_Key, tuple[_Item | None, str]] | None = None
        """Rows in the file; `None` if unknown."""
        self.unread: tuple[str, ...] = ()
        """Ids of rows that could not be decoded on load: `BrokerState.joined_by` recovers them from
        their processes, and the next save deletes them."""
        self.clock: SavedClock | None = None
        """Time of the last save."""

    @property
    def set_aside(self) -> Path | None:
        """Where the last broken file was moved."""
        return self._database.set_aside

    def load(self) -> BrokerState | None:
        """Load the saved state; `None` if there is none."""
        with self._database.transaction() as connection:
            query = "SELECT kind, id, form FROM item ORDER BY kind, id"
            rows = connection.execute(query).fetchall()
            facts = dict(connection.execute("SELECT name, form FROM fact").fetchall())
        self._rows = None
        self.clock = _decode_fact(facts.get("clock"), SavedClock)
        if self.clock is None:
            return None
        self._rows = {(kind, item_id): (_decoded(kind, text), text) for kind, item_id, text in rows}
        self.unread = tuple(item_id for (_, item_id), row in self._rows.items() if row[0] is None)
        items = [item for item, _ in self._rows.values()]
        usage = _decode_fact(facts.get("usage"), ShareUsage) or ShareUsage(self.clock.at)
        return (
            BrokerState(self.clock.boot, self.clock.at, usage=usage)
            .with_tickets(item for item in items if isinstance(item, Ticket))
            .with_leases(item for item in items if isinstance(item, LeaseRecord))
            .with_bookings(item for item in items if isinstance(item, Booking))
            .with_endings(item for item in items if isinstance(item, LeaseEnding))
        )

    def save(self, state: BrokerState, wall: Nanoseconds) -> None:
        """Write changes, or everything into a new file if the old one is broken.

        `wall` is the wall time at the state's `as_of`.
        """
        breaks = self._database.breaks
        try:
            self._write(state, wall)
        except HistoryError:
            if self._database.breaks == breaks:
                raise
            self._rows = None
            self._write(state, wall)

    def close(self) -> None:
        """Checkpoint the log and release the database."""
        self._database.close()

    def _write(self, state: BrokerState, wall: Nanoseconds) -> None:
        before = self._rows or {}
        rows: dict[_Key, tuple[_Item | None, str]] = {}
        items: tuple[_Item, ...] = (*state.tickets, *state.leases, *state.bookings, *state.endings)
        for item in items:
            key = _KIND_NAMES[type(item)], item.id
            old = before.get(key)
            rows[key] = old if old and old[0] is item else (item, encode_item(item))
        texts = {key: text for key, (_, text) in before.items()}
        changed = [(*key, text) for key, (_, text) in rows.items() if texts.get(key) != text]
        clock = SavedClock(state.boot, state.as_of, wall)
        facts = [
            ("clock", stored(clock)),
            ("usage", stored(state.usage)),
        ]
        with self._database.transaction() as connection:
            if self._rows is None:
                connection.execute("DELETE FROM item")
            gone = before.keys() - rows.keys()
            connection.executemany("DELETE FROM item WHERE kind = ? AND id = ?", gone)
            connection.executemany("INSERT OR REPLACE INTO item VALUES (?, ?, ?)", changed)
            connection.executemany("INSERT OR REPLACE INTO fact VALUES (?, ?)", facts)
        self._rows = rows
        self.clock = clock


def must_save(before: BrokerState, after: BrokerState) -> bool:
    """Whether a crash now would lose more than a minute of usage and idle time."""
    return _durable(before) != _durable(after)


def has_new_processes(before: BrokerState, after: BrokerState) -> bool:
    """Whether processes of leases started or exited, which may be saved some seconds later."""
    old, new = ({lease.id: lease.processes for lease in state.leases} for state in (before, after))
    return old != new


def _durable(state: BrokerState) -> tuple[Any, ...]:
    leases = [(r.lease, r.first_seen, r.set_aside_bytes, r.notified, r.loss) for r in state.leases]
    return state.boot, state.tickets, state.bookings, leases


def _decoded(kind: str, text: str) -> _Item | None:
    try:
        return decode_item(kind, text)
    except (ValueError, KeyError, TypeError):
        return None


class StateWriter:
    """Saves states of a lease manager, under its lock."""

    def __init__(self, repository: BrokerRepository, clock: Clock) -> None:
        self._repository = repository
        self._clock = clock
        self._saved: Nanoseconds = 0
        self._are_processes_unsaved = False
        self._log = logger("broker")

    def save(self, state: BrokerState) -> None:
        """Write a state; raises HistoryError on failure."""
        now = self._clock.time()
        self._repository.save(state, self._clock.wall_time() - (now - state.as_of))
        self._saved = now
        self._are_processes_unsaved = False

    def follow(self, before: BrokerState, after: BrokerState) -> None:
        """Write a state if it must be saved now, or the last save is long ago.

        Raises HistoryError only if it must be saved.
        """
        if must_save(before, after):
            self.save(after)
            return
        self._are_processes_unsaved |= has_new_processes(before, after)
        now = self._clock.time()
        interval = _PROCESSES_SAVE_INTERVAL if self._are_processes_unsaved else _SAVE_INTERVAL
        if now - self._saved >= interval:
            # A crash would lose only recent usage and processes.
            self.try_save(after)

    def try_save(self, state: BrokerState) -> None:
        """Write a state; log a failure, for `follow` to try again."""
        try:
            self.save(state)
        except HistoryError as error:
            self._saved = self._clock.time()
            self._log.warning("broker_not_saved", error=str(error))
