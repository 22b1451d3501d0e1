"""Scheduling state: slots, their leases and reservations, now and at a later time."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum

from rightsizer.broker.availability import judge_slot
from rightsizer.broker.choice import PlacementChoice, PlacementRefusal, choose
from rightsizer.broker.lease import GpuRequest, Lease, LeaseRecord, Ticket
from rightsizer.broker.settings import GpuPlacementSettings
from rightsizer.broker.slot import LeaseSlot
from rightsizer.broker.state import Booking
from rightsizer.model.state import State
from rightsizer.model.topology import Topology
from rightsizer.model.units import Nanoseconds, nanoseconds


class ReleaseOutlook(Enum):
    """What becomes of leases and processes whose end nobody knows."""

    SOONEST = "soonest"
    KNOWN = "known"


@dataclass(frozen=True, slots=True)
class NodeObservation:
    """The node as it was seen at one moment."""

    seats: tuple[LeaseSlot, ...]
    """Every GPU and MIG instance, in any order; holders whose processes belong to a lease are left
    out."""
    topology: Topology = field(default_factory=Topology)


@dataclass(frozen=True, slots=True)
class EarliestStart:
    """When a ticket can be served, by the limits known, and with which seats."""

    at: Nanoseconds
    uuids: frozenset[str]


@dataclass(frozen=True, slots=True)
class SchedulingState:
    """The node at one moment, as the broker has it."""

    now: Nanoseconds
    look: NodeObservation
    """Which the leases' measured memory is of too."""
    records: tuple[LeaseRecord, ...]
    bookings: tuple[Booking, ...]
    settings: GpuPlacementSettings
    settling: Nanoseconds = 0
    """How long a lease must have been on a seat before another may join it."""

    def choice(
        self, ticket: Ticket, kept: frozenset[str] = frozenset()
    ) -> PlacementChoice | PlacementRefusal:
        """The seats that a ticket would be given now.

        One that draws on a reservation gets the seats that are kept for it, or where those cannot
        be given, others.

        Args:
            ticket: Whose turn it is.
            kept: Seats that it must leave to others.
        """
        own = next((each for each in self.bookings if each.id == ticket.reservation), None)
        if own is not None:
            there = [seat for seat in self.look.seats if seat.uuid in own.uuids]
            found = self._choose(there, self.records, ticket.request, frozenset())
            if isinstance(found, PlacementChoice):
                return found
        reserved = kept | self.booked(ticket)
        return self._choose(self.look.seats, self.records, ticket.request, reserved)

    def is_entitled(self, ticket: Ticket) -> bool:
        """Whether a ticket goes before others by its reservation.

        It does as far as the reservation's GPUs reach for it and for what was lent on it before;
        beyond that it is a ticket as others are.
        """
        own = next((each for each in self.bookings if each.id == ticket.reservation), None)
        if own is None:
            return False
        lent = (each.lease for each in self.records if each.lease.reservation == own.id)
        return ticket.request.gpus + sum(len(each.uuids) for each in lent) <= len(own.uuids)

    def has_room(self, ticket: Ticket, kept: frozenset[str]) -> bool:
        """Whether there are seats enough for a ticket now, however they are joined.

        Far cheaper than `choice`, which tells why not. As there, one that draws on a reservation
        is not kept from its seats.
        """
        reserved = kept | self.booked(ticket)
        return self._is_room(self.look.seats, self.records, ticket.request, reserved)

    def earliest(self, ticket: Ticket, outlook: ReleaseOutlook) -> EarliestStart | None:
        """When a ticket could be served at the earliest; `None`: at no time that is known."""
        for at in self._turns():
            found = self._choice_at(ticket.request, at, outlook, self.booked(ticket, at))
            if found is not None:
                return EarliestStart(at, found)
        return None

    def seats_at(
        self, request: GpuRequest, at: Nanoseconds, kept: frozenset[str]
    ) -> frozenset[str] | None:
        """Seats that will be free at a later moment by the limits known; `None`: too few."""
        return self._choice_at(request, at, ReleaseOutlook.KNOWN, kept)

    def booked(self, ticket: Ticket, at: Nanoseconds | None = None) -> frozenset[str]:
        """Seats that are kept for others while a lease from some moment on would last.

        Args:
            ticket: Who asks; what it draws on itself is not kept from it.
            at: When the lease would begin; `None`: now.
        """
        start = self.now if at is None else at
        limit = ticket.limit_seconds
        until = None if limit is None else start + nanoseconds(limit)
        return frozenset(
            uuid
            for booking in self.bookings
            if booking.id != ticket.reservation and booking.is_within(start, until)
            for uuid in booking.uuids
        )

    def with_lease(self, record: LeaseRecord) -> "SchedulingState":
        """The node after a grant."""
        return replace(self, records=(*self.records, record))

    def _choice_at(
        self, request: GpuRequest, at: Nanoseconds, outlook: ReleaseOutlook, kept: frozenset[str]
    ) -> frozenset[str] | None:
        records = tuple(record for record in self.records if self._lasts(record, at, outlook))
        staying = {uuid for record in records for uuid in record.lease.uuids}
        had = {uuid for record in self.records for uuid in record.lease.uuids}
        seats = [
            seat
            if seat.uuid in staying or not _becomes_free(seat, outlook, is_leased=seat.uuid in had)
            else _emptied(seat)
            for seat in self.look.seats
        ]
        if not self._is_room(seats, records, request, kept):
            return None
        found = self._choose(seats, records, request, kept)
        return frozenset(found.uuids) if isinstance(found, PlacementChoice) else None

    def _is_room(
        self,
        seats: Sequence[LeaseSlot],
        records: tuple[LeaseRecord, ...],
        request: GpuRequest,
        reserved: frozenset[str],
    ) -> bool:
        leased = _leased(records)
        free = 0
        for seat in seats:
            committed, leases = self._as_committed(seat, records), leased.get(seat.uuid, ())
            is_reserved = seat.uuid in reserved
            free += judge_slot(
                committed, request, self.settings.free, leases, is_reserved=is_reserved
            ).is_free
            if free >= request.gpus:
                return True
        return False

    def _choose(
        self,
        seats: Sequence[LeaseSlot],
        records: tuple[LeaseRecord, ...],
        request: GpuRequest,
        reserved: frozenset[str],
    ) -> PlacementChoice | PlacementRefusal:
        return choose(
            sorted(
                (self._as_committed(seat, records) for seat in seats),
                key=lambda seat: (seat.device.index, seat.uuid),
            ),
            self.look.topology,
            request,
            self.settings,
            leased=_leased(records),
            reserved=reserved,
        )

    def _as_committed(self, seat: LeaseSlot, records: Sequence[LeaseRecord]) -> LeaseSlot:
        """A leased seat whose memory in use is all that is promised and all that outsiders hold.

        `free` adds what was set aside to what is used where outsiders are known, and takes the
        larger one where none is; here is more to go by, for the leases' memory was measured.
        """
        on_it = [record for record in records if seat.uuid in record.lease.uuids]
        if not on_it:
            return seat
        is_settled = all(self.now - each.lease.granted >= self.settling for each in on_it)
        demand = seat.demand if is_settled else {}
        if seat.memory_used_bytes is None:
            return replace(seat, demand=demand)
        outside = max(0.0, seat.memory_used_bytes - _memory_of(self.records, seat.uuid))
        promised = sum(record.set_aside_on(seat.uuid) for record in on_it)
        used = outside if seat.holders else promised + outside
        return replace(seat, memory_used_bytes=used, demand=demand)

    def _lasts(self, record: LeaseRecord, at: Nanoseconds, outlook: ReleaseOutlook) -> bool:
        ends = record.lease.ends
        if ends is None or ends <= self.now:
            return outlook is ReleaseOutlook.KNOWN
        return ends > at

    def _turns(self) -> list[Nanoseconds]:
        """Moments at which something becomes free."""
        ends = {record.lease.ends for record in self.records}
        later = {each for each in ends if each is not None and each > self.now}
        later |= {booking.reservation.ends for booking in self.bookings}
        return [self.now, *sorted(each for each in later if each > self.now)]


def _becomes_free(seat: LeaseSlot, outlook: ReleaseOutlook, *, is_leased: bool) -> bool:
    """Whether a seat that no lease has any more is free then."""
    return outlook is ReleaseOutlook.SOONEST or (is_leased and not seat.holders)


def _emptied(seat: LeaseSlot) -> LeaseSlot:
    return replace(seat, state=State.IDLE_EMPTY, holders=(), memory_used_bytes=0.0, demand={})


def _leased(records: Sequence[LeaseRecord]) -> Mapping[str, tuple[Lease, ...]]:
    """Leases by seat, with what nobody else can have in place of what was set aside."""
    found: dict[str, tuple[Lease, ...]] = {}
    for record in sorted(records, key=lambda each: each.id):
        lease = replace(record.lease, memory_bytes=record.set_aside_bytes)
        for uuid in lease.uuids:
            found[uuid] = (*found.get(uuid, ()), lease)
    return found


def _memory_of(records: Sequence[LeaseRecord], uuid: str) -> float:
    return sum(record.measured_on(uuid) for record in records)
