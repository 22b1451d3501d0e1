"""Queue: tickets served now, in strict order, with backfill that delays no one."""

from collections.abc import Sequence
from dataclasses import dataclass

from rightsizer.broker.choice import PlacementChoice, PlacementRefusal
from rightsizer.broker.lease import GpuRequest, Lease, LeaseRecord, Ticket
from rightsizer.broker.reservations import reservation_clause
from rightsizer.broker.scheduling_state import EarliestStart, ReleaseOutlook, SchedulingState
from rightsizer.broker.settings import BrokerSettings
from rightsizer.broker.slot import LeaseSlot
from rightsizer.model.units import Nanoseconds, nanoseconds


@dataclass(frozen=True, slots=True)
class Grant:
    """A ticket that is served, and what was chosen for it."""

    ticket: Ticket
    record: LeaseRecord
    choice: PlacementChoice
    is_ahead: bool = False
    """Whether others that came before it still wait."""


@dataclass(frozen=True, slots=True)
class QueueResult:
    """What came of one look at the queue."""

    grants: tuple[Grant, ...]
    waiting: tuple[tuple[Ticket, str], ...]
    """Those that wait, in their order, each with a clause that says what for."""
    promised: EarliestStart | None = None
    """When the first that waits can start at the latest, by the limits known; `None` where nobody
    knows, or nobody waits."""


@dataclass(frozen=True, slots=True)
class _Head:
    """The first ticket that must wait, which nobody may delay."""

    ticket: Ticket
    soonest: EarliestStart
    known: EarliestStart | None

    patient_until: Nanoseconds
    """Until when it may be kept waiting where nobody knows when it can start."""

    def allows(self, end: Nanoseconds | None) -> bool:
        """Whether a lease that ends then is gone before the head could start, or soon enough."""
        latest = self.soonest.at
        if self.kept is None:
            latest = max(latest, self.patient_until)
        return end is not None and end <= latest

    @property
    def kept(self) -> frozenset[str] | None:
        """Seats to leave to the head; `None` where nobody knows which it will get."""
        if self.known is None or self.known.at != self.soonest.at:
            return None
        return self.known.uuids


def serve_queue(
    ordered: Sequence[Ticket], standing: SchedulingState, settings: BrokerSettings
) -> QueueResult:
    """Grant what can be granted now.

    Args:
        ordered: Tickets in the order in which they are served; those whose reservation has not
            begun left out.
        standing: The node.
        settings: Limits of users, and whether and how far to look behind the first that waits.
    """
    run = _QueuePass(standing, settings)
    for ticket in ordered:
        run.serve(ticket)
    promised = None if run.head is None else run.head.known
    return QueueResult(tuple(run.grants), tuple(run.waiting), promised)


class _QueuePass:
    """One pass over the queue."""

    def __init__(self, standing: SchedulingState, settings: BrokerSettings) -> None:
        self._standing, self._settings = standing, settings
        self.grants: list[Grant] = []
        self.waiting: list[tuple[Ticket, str]] = []
        self.head: _Head | None = None
        self._looked_behind = 0
        self._no_room: set[tuple[GpuRequest, frozenset[str]]] = set()
        """What cannot be given any more: a grant only takes more away."""

    def serve(self, ticket: Ticket) -> None:
        """Grant a ticket, or note what it waits for."""
        held = sum(each.lease.client.user == ticket.client.user for each in self._standing.records)
        if held >= self._settings.maximum_leases_per_user:
            self._wait(ticket, f"{ticket.client.user} holds {held} leases, as many as allowed")
        elif self.head is None or self._standing.is_entitled(ticket):
            self._serve_first(ticket)
        elif not self._settings.backfill:
            self._wait(ticket, f"{self.head.ticket.id} is before it")
        elif self._looked_behind >= self._settings.backfill_depth:
            self._wait(ticket, f"{self._looked_behind} tickets behind the first were looked at")
        else:
            self._looked_behind += 1
            self._serve_ahead(ticket, self.head)

    def _serve_first(self, ticket: Ticket) -> None:
        found = self._standing.choice(ticket)
        if isinstance(found, PlacementChoice):
            self._grant(ticket, found, is_ahead=False)
            return
        soonest = self._standing.earliest(ticket, ReleaseOutlook.SOONEST)
        # What not even an empty node could give, as long as a GPU of it is broken, holds up nobody.
        is_ordinary = not self._standing.is_entitled(ticket)
        if soonest is not None and self.head is None and is_ordinary:
            known = self._standing.earliest(ticket, ReleaseOutlook.KNOWN)
            patience = nanoseconds(self._settings.unknown_patience_seconds)
            self.head = _Head(ticket, soonest, known, self._standing.now + patience)
        kept = reservation_clause(ticket, found, self._standing)
        self._wait(ticket, ", ".join(filter(None, (_clause(found), kept))))

    def _serve_ahead(self, ticket: Ticket, head: _Head) -> None:
        limit = ticket.limit_seconds
        end = None if limit is None else self._standing.now + nanoseconds(limit)
        kept: frozenset[str] | None = frozenset() if head.allows(end) else head.kept
        if kept is None:
            self._wait(ticket, f"it might delay {head.ticket.id}, and nobody knows by how much")
            return
        key = (ticket.request, kept | self._standing.booked(ticket))
        if key in self._no_room or not self._standing.has_room(ticket, kept):
            found = None
        else:
            found = self._standing.choice(ticket, kept)
        if isinstance(found, PlacementChoice):
            self._grant(ticket, found, is_ahead=True)
        else:
            self._no_room.add(key)
            self._wait(ticket, f"{head.ticket.id} is before it, and the rest is too little for it")

    def _grant(self, ticket: Ticket, choice: PlacementChoice, *, is_ahead: bool) -> None:
        record = record_of(ticket, choice.uuids, self._standing)
        self.grants.append(Grant(ticket, record, choice, is_ahead=is_ahead))
        self._standing = self._standing.with_lease(record)

    def _wait(self, ticket: Ticket, why: str) -> None:
        self.waiting.append((ticket, why))


def _clause(refusal: PlacementRefusal) -> str:
    return refusal.reasons[0].rstrip(".") if refusal.reasons else "there is no room"


def record_of(ticket: Ticket, uuids: Sequence[str], standing: SchedulingState) -> LeaseRecord:
    """The lease that a ticket becomes on some seats.

    One that may not share has all of each seat; its end is that of the reservation that it draws
    on, where that comes first.
    """
    by_uuid = {seat.uuid: seat for seat in standing.look.seats}
    seats = [by_uuid[uuid] for uuid in uuids]
    request, now = ticket.request, standing.now
    is_shared = request.may_share and request.memory_bytes is not None
    limit = ticket.limit_seconds
    ends = [] if limit is None else [now + nanoseconds(limit)]
    ends += [each.reservation.ends for each in standing.bookings if each.id == ticket.reservation]
    lease = Lease(
        id=ticket.id,
        client=ticket.client,
        request=request,
        uuids=tuple(uuids),
        memory_bytes=tuple(_set_aside(seat, ticket, is_shared=is_shared) for seat in seats),
        is_shared=is_shared,
        asked=ticket.asked,
        granted=now,
        ends=min(ends, default=None),
        priority=ticket.priority,
        reservation=ticket.reservation,
    )
    weights = tuple(seat.device.capacity_ratio for seat in seats)
    totals = tuple(seat.memory_total_bytes for seat in seats)
    return LeaseRecord(lease, weights, totals, last_active=now)


def _set_aside(seat: LeaseSlot, ticket: Ticket, *, is_shared: bool) -> float:
    wanted = ticket.request.memory_bytes or 0.0
    return wanted if is_shared else max(wanted, seat.memory_total_bytes or 0.0)
