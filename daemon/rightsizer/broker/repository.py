"""SQLite repository of the broker's state; leases outlive the agent."""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, Final, Self, TypeVar

import structlog

from rightsizer.broker.lease import (
    EventKind,
    GpuRequest,
    Interconnect,
    Lease,
    LeaseEnding,
    LeaseOwner,
    LeaseProcesses,
    LeaseRecord,
    Reservation,
    Ticket,
)
from rightsizer.broker.state import Booking, BrokerState, ShareUsage
from rightsizer.io.clock import Clock
from rightsizer.io.database import Database
from rightsizer.io.files import Called
from rightsizer.model.errors import HistoryError
from rightsizer.model.units import Nanoseconds, nanoseconds

_Form = Mapping[str, Any]
_Made = TypeVar("_Made")


def text_of(item: Ticket | LeaseRecord | Booking | LeaseEnding | ShareUsage) -> str:
    """One line of JSON. What a lease holds at the moment is left out: it is measured anew."""
    if isinstance(item, LeaseRecord):
        item = replace(item, measured_bytes=())
    return json.dumps(asdict(item), default=sorted, sort_keys=True)


def ticket_from(form: _Form) -> Ticket:
    """A ticket.

    Raises:
        ValueError, KeyError, TypeError, AttributeError: it is none.
    """
    return _made(Ticket, form, client=_client(form), request=_request(form))


def record_from(form: _Form) -> LeaseRecord:
    """A lease, as `ticket_from` reads tickets."""
    told = frozenset(EventKind(each) for each in form["told"])
    tuples = {name: tuple(form[name]) for name in ("weights", "totals", "peak_bytes")}
    return _made(
        LeaseRecord,
        form,
        lease=_lease(form["lease"]),
        told=told,
        measured_bytes=(),
        kin=_kin(form.get("kin", {})),
        **tuples,
    )


def booking_from(form: _Form) -> Booking:
    """A reservation with its seats, as `ticket_from` reads tickets."""
    wish = form["reservation"]
    reservation = _made(Reservation, wish, request=_request(wish))
    tuples = {name: tuple(form.get(name, ())) for name in ("weights", "unavailable")}
    return _made(Booking, form, reservation=reservation, uuids=tuple(form["uuids"]), **tuples)


def ending_from(form: _Form) -> LeaseEnding:
    """Who ended something, as `ticket_from` reads tickets."""
    return LeaseEnding(str(form["id"]), int(form["uid"]), int(form["at"]), str(form["message"]))


def usage_from(form: _Form) -> ShareUsage:
    """Usage by user, as `ticket_from` reads tickets."""
    return ShareUsage(
        int(form["as_of"]), {str(k): float(v) for k, v in form["gpu_seconds"].items()}
    )


def _lease(form: _Form) -> Lease:
    return _made(
        Lease,
        form,
        client=_client(form),
        request=_request(form),
        uuids=tuple(form["uuids"]),
        memory_bytes=tuple(form["memory_bytes"]),
    )


def _kin(form: _Form) -> LeaseProcesses:
    processes = ((int(pid), int(started)) for pid, started in form.get("processes", ()))
    return LeaseProcesses(tuple(processes), tuple(map(int, form.get("sessions", ()))))


def _client(form: _Form) -> LeaseOwner:
    client = form["client"]
    return _made(LeaseOwner, client, groups=tuple(client.get("groups", ())))


def _request(form: _Form) -> GpuRequest:
    request = form["request"]
    return _made(GpuRequest, request, interconnect=Interconnect(request["interconnect"]))


def _made(kind: type[_Made], form: _Form, **parts: Any) -> _Made:
    known = {each.name for each in fields(kind)}  # type: ignore[arg-type]  # All are dataclasses.
    return kind(**{name: value for name, value in form.items() if name in known} | parts)


BROKER_FILE: Final = Called("broker's state", "broker.path", "agent")
_SCHEMA: Final = """
CREATE TABLE item (kind TEXT, id TEXT, form TEXT NOT NULL, PRIMARY KEY (kind, id)) WITHOUT ROWID;
CREATE TABLE fact (name TEXT PRIMARY KEY, form TEXT NOT NULL) WITHOUT ROWID
"""
_TICKET, _LEASE, _BOOKING, _ENDING = "ticket", "lease", "reservation", "ending"
_Item = Ticket | LeaseRecord | Booking | LeaseEnding
_Key = tuple[str, str]
_Read = TypeVar("_Read")


@dataclass(frozen=True, slots=True)
class SavedClock:
    """One moment by the clock of a boot and by the wall, which tells the clocks of boots apart."""

    boot: str
    at: Nanoseconds
    """CLOCK_BOOTTIME."""
    wall: Nanoseconds

    def shift_to(self, other: "SavedClock") -> Nanoseconds:
        """What times of this boot's clock have to be moved by for another boot's."""
        return (self.wall - self.at) - (other.wall - other.at)


class BrokerRepository:
    """The state as JSON rows; writes those that changed."""

    def __init__(self, path: Path) -> None:
        """Open the file, and create it where it does not exist.

        Raises:
            HistoryError: another process writes it, a newer program wrote it, or the place
                cannot be written.
        """
        self._database = Database(path, (_SCHEMA,), called=BROKER_FILE)
        self._items: dict[_Key, _Item] = {}
        self._texts: dict[_Key, str] = {}
        """What the rows hold, once that is known."""
        self._is_known = False
        self.unread: tuple[str, ...] = ()
        """Ids of rows that were not understood when they were loaded: what their processes carry
        has to stand in (`BrokerState.joined_by`); they are gone with the next save."""
        self.clock: SavedClock | None = None
        """When the state was last saved; `None` before it ever was."""

    @property
    def set_aside(self) -> Path | None:
        """Where the last broken file went; `None` where none was."""
        return self._database.set_aside

    def load(self) -> BrokerState | None:
        """The state that was saved; `None` where there is none.

        Raises:
            HistoryError: the file cannot be read; where it is broken, a new one was begun and
                loading again finds nothing.
        """
        with self._database.transaction() as connection:
            rows = connection.execute(
                "SELECT kind, id, form FROM item ORDER BY kind, id"
            ).fetchall()
            facts = dict(connection.execute("SELECT name, form FROM fact").fetchall())
        self.clock = _understood(facts.get("clock"), lambda form: SavedClock(**form))
        self._is_known = False
        if self.clock is None:
            return None
        found: dict[_Key, _Item] = {}
        for kind, item_id, text in rows:
            item = _understood(text, _READERS.get(kind, _unknown))
            if item is not None:
                found[kind, item_id] = item
        self._items = found
        self._texts = {(kind, name): text for kind, name, text in rows}
        self._is_known = True
        self.unread = tuple(name for kind, name, _ in rows if (kind, name) not in found)
        usage = _understood(facts.get("usage"), usage_from) or ShareUsage(self.clock.at)
        state = BrokerState(self.clock.boot, self.clock.at, usage=usage)
        return (
            state.with_tickets(each for each in found.values() if isinstance(each, Ticket))
            .with_leases(each for each in found.values() if isinstance(each, LeaseRecord))
            .with_bookings(each for each in found.values() if isinstance(each, Booking))
            .with_endings(each for each in found.values() if isinstance(each, LeaseEnding))
        )

    def save(self, state: BrokerState, wall: Nanoseconds) -> None:
        """Write what changed; where the file turns out to be broken, all of it into a new one.

        Args:
            state: The whole.
            wall: What the real-time clock says at the state's `as_of`.

        Raises:
            HistoryError: it could not be written; what was there stays, so that nobody may be
                told of what this state would bring.
        """
        breaks = self._database.breaks
        try:
            self._write(state, wall)
        except HistoryError:
            if self._database.breaks == breaks:
                raise
            self._is_known = False
            self._write(state, wall)

    def close(self) -> None:
        """Fold the log into the file and let others write."""
        self._database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _write(self, state: BrokerState, wall: Nanoseconds) -> None:
        items = dict(_items_of(state))
        before = self._texts if self._is_known else {}
        texts = {
            key: before[key] if key in before and self._items.get(key) is item else text_of(item)
            for key, item in items.items()
        }
        changed = [(*key, text) for key, text in texts.items() if before.get(key) != text]
        clock = SavedClock(state.boot, state.as_of, wall)
        facts = [("clock", json.dumps(asdict(clock))), ("usage", text_of(state.usage))]
        with self._database.transaction() as connection:
            if not self._is_known:
                connection.execute("DELETE FROM item")
            connection.executemany(
                "DELETE FROM item WHERE kind = ? AND id = ?", before.keys() - texts.keys()
            )
            connection.executemany("INSERT OR REPLACE INTO item VALUES (?, ?, ?)", changed)
            connection.executemany("INSERT OR REPLACE INTO fact VALUES (?, ?)", facts)
        self._items, self._texts, self._is_known, self.clock = items, texts, True, clock


def must_save(before: BrokerState, after: BrokerState) -> bool:
    """Whether a crash now would lose more than a minute of usage and of idle time."""
    return (
        before.boot != after.boot
        or before.tickets != after.tickets
        or before.bookings != after.bookings
        or [_durable(each) for each in before.leases] != [_durable(each) for each in after.leases]
    )


def has_new_kin(before: BrokerState, after: BrokerState) -> bool:
    """Whether processes of leases have come or gone, which may wait for some seconds."""
    return {each.id: each.kin for each in before.leases} != {
        each.id: each.kin for each in after.leases
    }


def _durable(record: LeaseRecord) -> tuple[Any, ...]:
    return record.lease, record.first_seen, record.set_aside_bytes, record.told


def _items_of(state: BrokerState) -> Iterable[tuple[_Key, _Item]]:
    for ticket in state.tickets:
        yield (_TICKET, ticket.id), ticket
    for record in state.leases:
        yield (_LEASE, record.id), record
    for booking in state.bookings:
        yield (_BOOKING, booking.id), booking
    for ending in state.endings:
        yield (_ENDING, ending.id), ending


def _unknown(_: Mapping[str, Any]) -> _Item:
    raise ValueError("a kind that a newer program wrote")


_READERS: Final[Mapping[str, Callable[[Mapping[str, Any]], _Item]]] = {
    _TICKET: ticket_from,
    _LEASE: record_from,
    _BOOKING: booking_from,
    _ENDING: ending_from,
}


def _understood(text: str | None, read: Callable[[Mapping[str, Any]], _Read]) -> _Read | None:
    if text is None:
        return None
    try:
        return read(json.loads(text))
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


_EVERY: Final = nanoseconds(60.0)
_KIN_EVERY: Final = nanoseconds(5.0)
"""A lease whose processes come and go each second must not write the disk as often."""


class StateWriter:
    """Writes states of a desk, under its lock."""

    def __init__(self, store: BrokerRepository, clock: Clock) -> None:
        """Nothing was written yet."""
        self._store, self._clock = store, clock
        self._saved: Nanoseconds = 0
        self._are_kin_unsaved = False
        self._log = structlog.get_logger(component="broker")

    def save(self, state: BrokerState) -> None:
        """Write a state.

        Raises:
            HistoryError: it cannot be saved.
        """
        now = self._clock.time()
        self._store.save(state, self._clock.wall_time() - (now - state.as_of))
        self._saved, self._are_kin_unsaved = now, False

    def follow(self, before: BrokerState, after: BrokerState) -> None:
        """Write a state where it matters now, or none was written for long.

        Raises:
            HistoryError: it matters and cannot be saved.
        """
        if must_save(before, after):
            self.save(after)
            return
        self._are_kin_unsaved |= has_new_kin(before, after)
        now = self._clock.time()
        if now - self._saved < (_KIN_EVERY if self._are_kin_unsaved else _EVERY):
            return
        try:
            self.save(after)
        except HistoryError as error:
            # What a crash would lose is a little of who used how much, and who came last.
            self._saved = now
            self._log.warning("broker_not_saved", error=str(error))
