"""Queue pass in strict order, with backfill that delays no ticket."""

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from rightsizer.broker.choice import PlacementChoice
from rightsizer.broker.lease import GpuRequest, Lease, LeaseRecord, Ticket
from rightsizer.broker.reservations import reservation_clause
from rightsizer.broker.scheduling_state import EarliestStart, SchedulingState
from rightsizer.broker.settings import BrokerSettings
from rightsizer.model.values import Nanoseconds, nanoseconds


class _Head(Struct, frozen=True):
    """First waiting ticket, which no other may delay."""

    ticket: Ticket
    soonest: EarliestStart
    start: EarliestStart | None
    patient_until: Nanoseconds
    """Accepted delay if its start is unknown."""

    def allows(self, end: Nanoseconds | None) -> bool:
        """Whether a lease with this end does not delay the head too much."""
        latest = self.soonest.at
        if self.kept is None:
            latest = max(latest, self.patient_until)
        return end is not None and end <= latest

    @property
    def kept(self) -> frozenset[str] | None:
        """Slots to leave to the head; `None` is unknown."""
        if self.start is None or self.start.at != self.soonest.at:
            return None
        return self.start.uuids


def serve_queue(
    ordered: Sequence[Ticket], scheduling: SchedulingState, settings: BrokerSettings
) -> "QueuePass":
    """Grant waiting tickets where possible.

    The tickets are in serving order, without those of reservations that have not begun.
    """
    run = QueuePass(scheduling, settings)
    for ticket in ordered:
        run.serve(ticket)
    return run


class QueuePass:
    """Pass over the queue, with its results."""

    def __init__(self, scheduling: SchedulingState, settings: BrokerSettings) -> None:
        self._scheduling = scheduling
        self._settings = settings
        self.grants: list[LeaseRecord] = []
        self.waiting: list[tuple[Ticket, str]] = []
        """Waiting tickets in order, each with its reason as a clause."""
        self._head: _Head | None = None
        self._looked_behind = 0
        self._no_room: set[tuple[GpuRequest, frozenset[str]]] = set()
        """Requests that cannot be granted any more in this pass, since grants only take slots."""

    @property
    def promised(self) -> EarliestStart | None:
        """Latest start of the first waiting ticket, by the known limits."""
        return None if self._head is None else self._head.start

    def serve(self, ticket: Ticket) -> None:
        """Grant a ticket, or record why it waits."""
        user = ticket.client.user
        held = sum(record.lease.client.user == user for record in self._scheduling.records)
        if held >= self._settings.maximum_leases_per_user:
            why: str | None = f"{user} holds {held} leases, as many as allowed"
        elif self._head is None or self._scheduling.is_entitled(ticket):
            why = self._serve_first(ticket)
        elif not self._settings.backfill:
            why = f"{self._head.ticket.id} is before it"
        elif self._looked_behind >= self._settings.backfill_depth:
            why = f"{self._looked_behind} tickets behind the first were looked at"
        else:
            self._looked_behind += 1
            why = self._serve_ahead(ticket, self._head)
        if why is not None:
            self.waiting.append((ticket, why))

    def _serve_first(self, ticket: Ticket) -> str | None:
        choice = self._scheduling.choice(ticket)
        if isinstance(choice, PlacementChoice):
            self._grant(ticket, choice)
            return None
        soonest = self._scheduling.earliest(ticket, is_optimistic=True)
        # A request that only broken GPUs could serve does not block the queue.
        is_ordinary = not self._scheduling.is_entitled(ticket)
        if soonest is not None and self._head is None and is_ordinary:
            start = self._scheduling.earliest(ticket, is_optimistic=False)
            patience = nanoseconds(self._settings.unknown_patience_seconds)
            self._head = _Head(ticket, soonest, start, self._scheduling.now + patience)
        kept = reservation_clause(ticket, choice, self._scheduling)
        why = choice.reasons[0].rstrip(".") if choice.reasons else "there is no room"
        return ", ".join(filter(None, (why, kept)))

    def _serve_ahead(self, ticket: Ticket, head: _Head) -> str | None:
        limit = ticket.limit_seconds
        end = None if limit is None else self._scheduling.now + nanoseconds(limit)
        kept: frozenset[str] | None = frozenset() if head.allows(end) else head.kept
        if kept is None:
            return f"it might delay {head.ticket.id}, by an unknown time"
        key = (ticket.request, kept | self._scheduling.booked(ticket))
        if key not in self._no_room and self._scheduling.has_room(ticket, kept):
            choice = self._scheduling.choice(ticket, kept)
            if isinstance(choice, PlacementChoice):
                self._grant(ticket, choice)
                return None
        self._no_room.add(key)
        return f"{head.ticket.id} is before it, and the rest is too little for it"

    def _grant(self, ticket: Ticket, choice: PlacementChoice) -> None:
        record = record_of(ticket, choice.uuids, self._scheduling)
        self.grants.append(record)
        records = (*self._scheduling.records, record)
        self._scheduling = replace(self._scheduling, records=records)


def record_of(ticket: Ticket, uuids: Sequence[str], scheduling: SchedulingState) -> LeaseRecord:
    """Turn a ticket into a lease on some slots.

    An exclusive lease gets all memory of each slot. The lease ends with its reservation if that
    is earlier, unless the reservation replaces lost slots.
    """
    by_uuid = {slot.uuid: slot for slot in scheduling.node.slots}
    slots = [by_uuid[uuid] for uuid in uuids]
    request = ticket.request
    now = scheduling.now
    limit = ticket.limit_seconds
    is_shared = request.may_share and request.memory_bytes is not None
    wanted = request.memory_bytes or 0.0
    ends = [] if limit is None else [now + nanoseconds(limit)]
    ends += [
        booking.reservation.ends
        for booking in scheduling.bookings
        if booking.id == ticket.reservation and booking.replaces is None
    ]
    totals = tuple(slot.device.memory_total_bytes for slot in slots)
    lease = Lease(
        id=ticket.id,
        client=ticket.client,
        request=request,
        uuids=tuple(uuids),
        memory_bytes=tuple(wanted if is_shared else max(wanted, total or 0.0) for total in totals),
        is_shared=is_shared,
        asked=ticket.asked,
        granted=now,
        ends=min(ends, default=None),
        priority=ticket.priority,
        reservation=ticket.reservation,
    )
    weights = tuple(slot.device.capacity_ratio for slot in slots)
    return LeaseRecord(lease, weights, totals, last_active=now)
