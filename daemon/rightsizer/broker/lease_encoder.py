"""JSON documents of leases, tickets and reservations, with wall-clock times."""

from msgspec.structs import asdict

from rightsizer.broker.lease import LeaseRecord, Ticket
from rightsizer.broker.lease_manager import BrokerOverview
from rightsizer.broker.scheduling_state import NodeObservation
from rightsizer.broker.state import Booking
from rightsizer.model.values import Nanoseconds, seconds

_FIRST_PAUSE_SECONDS = 0.2
_LEAST_PAUSE_SECONDS = 1.0
_FIRST_WAIT_SECONDS = 1.0
"""Time during which new tickets, not yet served, are polled more often."""
_PAUSE_SECONDS_A_PLACE = 0.2
_LONGEST_PAUSE_SECONDS = 10.0


def lease_answer_document(
    overview: BrokerOverview,
    item_id: str,
    now: Nanoseconds,
    offset: Nanoseconds,
    messages: tuple[str, ...] = (),
) -> dict[str, object] | None:
    """Return a ticket or lease for its owner; `None` if it does not exist.

    `now` is CLOCK_BOOTTIME, `offset` the wall time minus CLOCK_BOOTTIME, `messages` notices to the
    holder.
    """
    record = overview.state.lease(item_id)
    ticket = overview.state.ticket(item_id)
    if record is None and ticket is None:
        return None
    place = None if record is not None else overview.place_of(item_id)
    waited_seconds = 0.0 if ticket is None else seconds(now - ticket.asked)
    return {
        "id": item_id,
        "is_granted": record is not None,
        "place": place,
        "waiting": len(overview.state.tickets),
        "why": None if record is not None else overview.why_waiting(item_id),
        "ask_again_seconds": _pause_seconds(place, waited_seconds),
        "lease": None if record is None else _held(record, overview.node, offset),
        "messages": messages,
    }


def broker_document(overview: BrokerOverview, offset: Nanoseconds) -> dict[str, object]:
    """Return all leases, tickets and reservations; `offset` as in `lease_answer_document`."""
    state = overview.state
    promised = overview.promised
    return {
        "trouble": overview.trouble,
        "promised": None if promised is None else seconds(promised.at + offset),
        "leases": [_lease(lease, overview.node, offset) for lease in state.leases],
        "queue": [
            _ticket(ticket, overview.why_waiting(ticket.id), offset) for ticket in _queue(overview)
        ],
        "reservations": [booking_document(booking, offset) for booking in state.bookings],
    }


def booking_document(booking: Booking, offset: Nanoseconds) -> dict[str, object]:
    """Return a reservation."""
    reservation = booking.reservation
    return {
        "id": booking.id,
        "user": reservation.user,
        "uuids": booking.uuids,
        "starts": seconds(reservation.starts + offset),
        "ends": seconds(reservation.ends + offset),
        "is_at_risk": booking.is_at_risk,
        "replaces": booking.replaces,
    }


def _queue(overview: BrokerOverview) -> list[Ticket]:
    """Tickets in queue order, those not yet served last."""
    places = {ticket.id: place for place, (ticket, _) in enumerate(overview.waiting)}
    last = len(places)
    return sorted(
        overview.state.tickets, key=lambda ticket: (places.get(ticket.id, last), ticket.asked)
    )


def _pause_seconds(place: int | None, waited_seconds: float) -> float:
    if place is None:
        is_new = waited_seconds < _FIRST_WAIT_SECONDS
        return _FIRST_PAUSE_SECONDS if is_new else _LEAST_PAUSE_SECONDS
    return min(_LONGEST_PAUSE_SECONDS, max(_LEAST_PAUSE_SECONDS, place * _PAUSE_SECONDS_A_PLACE))


def _held(
    record: LeaseRecord, node: NodeObservation | None, offset: Nanoseconds
) -> dict[str, object]:
    lease = record.lease
    slots = [] if node is None else [slot for slot in node.slots if slot.uuid in lease.uuids]
    # CPUs and NUMA nodes are only reported if known for all slots.
    slots = slots if len(slots) == len(lease.uuids) else []
    near = [slot.cpus for slot in slots]
    nodes = {slot.numa_node for slot in slots}
    return {
        **_lease(record, node, offset),
        "memory_bytes": lease.memory_bytes,
        "memory_total_bytes": record.totals,
        "ends_boottime_ns": lease.ends,
        "cpus": sorted({cpu for cpus in near for cpu in cpus}) if all(near) else [],
        "numa_nodes": [] if None in nodes else sorted(numa for numa in nodes if numa is not None),
    }


def _lease(
    record: LeaseRecord, node: NodeObservation | None, offset: Nanoseconds
) -> dict[str, object]:
    lease = record.lease
    labels = {} if node is None else {slot.uuid: slot.label for slot in node.slots}
    return {
        "id": lease.id,
        "user": lease.client.user,
        "pid": lease.client.pid,
        "uuids": lease.uuids,
        "labels": [labels.get(uuid, uuid) for uuid in lease.uuids],
        "is_shared": lease.is_shared,
        "asked": seconds(lease.asked + offset),
        "granted": seconds(lease.granted + offset),
        "ends": None if lease.ends is None else seconds(lease.ends + offset),
        "priority": lease.priority,
        "reservation": lease.reservation,
        "told": sorted(record.notices),
        "lost": record.lost,
    }


def _ticket(ticket: Ticket, why: str | None, offset: Nanoseconds) -> dict[str, object]:
    return {
        "id": ticket.id,
        "user": ticket.client.user,
        **asdict(ticket.request),
        "asked": seconds(ticket.asked + offset),
        "priority": ticket.priority,
        "limit_seconds": ticket.limit_seconds,
        "reservation": ticket.reservation,
        "why": why,
    }
