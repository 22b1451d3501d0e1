"""Scheduling state: slots, leases and reservations, now and at a later time."""

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from rightsizer.broker.choice import PlacementChoice, PlacementRefusal, choose
from rightsizer.broker.lease import GpuRequest, Lease, LeaseRecord, Ticket
from rightsizer.broker.settings import GpuPlacementSettings
from rightsizer.broker.slot import LeaseSlot, judge_slot
from rightsizer.broker.state import Booking, leases_by_slot
from rightsizer.model.values import Nanoseconds, State, Topology, nanoseconds


class NodeObservation(Struct, frozen=True):
    """Node at one moment."""

    slots: tuple[LeaseSlot, ...]
    """All GPUs and MIG instances, in any order, without holders whose processes belong to a
    lease."""
    topology: Topology = Topology()


class EarliestStart(Struct, frozen=True):
    """Time when a ticket can be served by the known limits, and its slots."""

    at: Nanoseconds
    uuids: frozenset[str]


class SchedulingState(Struct, frozen=True):
    """Node at one moment with its leases and reservations."""

    now: Nanoseconds
    node: NodeObservation
    """Same moment as the leases' measured memory."""
    records: tuple[LeaseRecord, ...]
    bookings: tuple[Booking, ...]
    settings: GpuPlacementSettings
    settling: Nanoseconds = 0
    """Minimum time of a lease on a slot before another may join."""

    def choice(
        self, ticket: Ticket, kept: frozenset[str] = frozenset()
    ) -> PlacementChoice | PlacementRefusal:
        """Slots that a ticket would get now, leaving `kept` to others.

        A ticket with a reservation gets its slots, or others if those are unavailable.
        """
        if (booking := self._reservation_of(ticket)) is not None:
            reserved = [slot for slot in self.node.slots if slot.uuid in booking.uuids]
            choice = self._choose(reserved, self.records, ticket.request, frozenset())
            if isinstance(choice, PlacementChoice):
                return choice
        kept |= self.booked(ticket)
        return self._choose(self.node.slots, self.records, ticket.request, kept)

    def is_entitled(self, ticket: Ticket) -> bool:
        """Whether a ticket has precedence by its reservation.

        It does as long as the reservation has enough GPUs for it and its existing leases.
        """
        if (booking := self._reservation_of(ticket)) is None:
            return False
        leased = (record.lease for record in self.records if record.lease.reservation == booking.id)
        return ticket.request.gpus + sum(len(lease.uuids) for lease in leased) <= len(booking.uuids)

    def has_room(self, ticket: Ticket, kept: frozenset[str]) -> bool:
        """Whether there are enough slots for a ticket now, regardless of their links.

        Much cheaper than `choice`, with the same treatment of reservations.
        """
        kept |= self.booked(ticket)
        return self._has_room(self.node.slots, self.records, ticket.request, kept)

    def earliest(self, ticket: Ticket, *, is_optimistic: bool) -> EarliestStart | None:
        """Earliest time when a ticket could be served; `None` if unknown.

        `is_optimistic` assumes that leases and processes without a known end end at once.
        """
        ends = {record.lease.ends for record in self.records}
        ends |= {booking.reservation.ends for booking in self.bookings}
        for at in (self.now, *sorted(end for end in ends if end and end > self.now)):
            kept = self.booked(ticket, at)
            slots = self.slots_at(ticket.request, at, kept, is_optimistic=is_optimistic)
            if slots is not None:
                return EarliestStart(at, slots)
        return None

    def booked(self, ticket: Ticket, at: Nanoseconds | None = None) -> frozenset[str]:
        """Slots reserved for others during a lease of a ticket that starts at a time."""
        start = self.now if at is None else at
        limit = ticket.limit_seconds
        until = None if limit is None else start + nanoseconds(limit)
        return frozenset(
            uuid
            for booking in self.bookings
            if booking.id != ticket.reservation and booking.is_within(start, until)
            for uuid in booking.uuids
        )

    def _reservation_of(self, ticket: Ticket) -> Booking | None:
        return next(
            (booking for booking in self.bookings if booking.id == ticket.reservation), None
        )

    def slots_at(
        self,
        request: GpuRequest,
        at: Nanoseconds,
        kept: frozenset[str],
        *,
        is_optimistic: bool = False,
    ) -> frozenset[str] | None:
        """Slots that will be free at a later time by the known limits; `None` if too few.

        `is_optimistic` as in `earliest`.
        """
        records = tuple(
            record
            for record in self.records
            if (
                not is_optimistic
                if record.lease.ends is None or record.lease.ends <= self.now
                else record.lease.ends > at
            )
        )
        staying = {uuid for record in records for uuid in record.lease.uuids}
        had = {uuid for record in self.records for uuid in record.lease.uuids}
        slots = [
            replace(slot, state=State.IDLE_EMPTY, holders=(), memory_used_bytes=0.0, demand={})
            if slot.uuid not in staying
            and (is_optimistic or (slot.uuid in had and not slot.holders))
            else slot
            for slot in self.node.slots
        ]
        if not self._has_room(slots, records, request, kept):
            return None
        choice = self._choose(slots, records, request, kept)
        return frozenset(choice.uuids) if isinstance(choice, PlacementChoice) else None

    def _has_room(
        self,
        slots: Sequence[LeaseSlot],
        records: tuple[LeaseRecord, ...],
        request: GpuRequest,
        reserved: frozenset[str],
    ) -> bool:
        leased = leases_by_slot(map(_committed_lease, records))
        free = 0
        for slot in slots:
            free += judge_slot(
                self._as_committed(slot, records),
                request,
                self.settings.free,
                leased.get(slot.uuid, ()),
                is_reserved=slot.uuid in reserved,
            ).is_free
            if free >= request.gpus:
                return True
        return False

    def _choose(
        self,
        slots: Sequence[LeaseSlot],
        records: tuple[LeaseRecord, ...],
        request: GpuRequest,
        reserved: frozenset[str],
    ) -> PlacementChoice | PlacementRefusal:
        return choose(
            [self._as_committed(slot, records) for slot in slots],
            self.node.topology,
            request,
            self.settings,
            leased=leases_by_slot(map(_committed_lease, sorted(records, key=lambda r: r.id))),
            reserved=reserved,
        )

    def _as_committed(self, slot: LeaseSlot, records: Sequence[LeaseRecord]) -> LeaseSlot:
        """Leased slot with memory in use set to what is reserved plus that of outsiders.

        `judge_slot` adds reserved to used memory if there are holders, and takes the maximum if
        there are none; here the memory of leases was measured.
        """
        if not (on_it := [record for record in records if slot.uuid in record.lease.uuids]):
            return slot
        is_settled = all(self.now - lease.lease.granted >= self.settling for lease in on_it)
        demand = slot.demand if is_settled else {}
        if slot.memory_used_bytes is None:
            return replace(slot, demand=demand)
        measured = sum(record.measured_on(slot.uuid) for record in self.records)
        used = max(0.0, slot.memory_used_bytes - measured)
        if not slot.holders:
            used += sum(record.set_aside_on(slot.uuid) for record in on_it)
        return replace(slot, memory_used_bytes=used, demand=demand)


def _committed_lease(record: LeaseRecord) -> Lease:
    return replace(record.lease, memory_bytes=record.set_aside_bytes)
