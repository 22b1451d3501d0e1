"""JSON encoder of leases, tickets and reservations; wall-clock times."""

from typing import Any

from rightsizer.broker.lease import LeaseRecord, Ticket
from rightsizer.broker.lease_manager import BrokerOverview
from rightsizer.broker.scheduling_state import NodeObservation
from rightsizer.broker.state import Booking, BrokerState
from rightsizer.model.units import Nanoseconds, seconds

Form = dict[str, Any]
_FIRST_PAUSE_SECONDS = 0.2
_LEAST_PAUSE_SECONDS = 1.0
_FIRST_WAIT_SECONDS = 1.0
"""For so long a ticket that nobody has looked at is asked after more often."""
_PAUSE_SECONDS_A_PLACE = 0.2
_LONGEST_PAUSE_SECONDS = 10.0


def answer_form(
    standing: BrokerOverview,
    item_id: str,
    now: Nanoseconds,
    offset: Nanoseconds,
    messages: tuple[str, ...] = (),
) -> Form | None:
    """How a ticket or a lease stands, for its owner; `None` where there is none.

    Args:
        standing: As it is now.
        item_id: Of the ticket, and of the lease that it becomes.
        now: CLOCK_BOOTTIME.
        offset: What wall time is ahead of CLOCK_BOOTTIME.
        messages: What the holder was told.
    """
    record, ticket = standing.state.lease(item_id), standing.state.ticket(item_id)
    if record is None and ticket is None:
        return None
    place = None if record is not None else standing.place_of(item_id)
    waited_seconds = 0.0 if ticket is None else seconds(now - ticket.asked)
    return {
        "id": item_id,
        "is_granted": record is not None,
        "place": place,
        "waiting": len(standing.state.tickets),
        "why": None if record is not None else standing.why_waiting(item_id),
        "ask_again_seconds": _pause_seconds(place, waited_seconds),
        "lease": None if record is None else _held(record, standing.look, offset),
        "messages": list(messages),
    }


def broker_form(standing: BrokerOverview, offset: Nanoseconds) -> Form:
    """Everything that is lent, waited for and kept free.

    Args:
        standing: As it is now.
        offset: What wall time is ahead of CLOCK_BOOTTIME.
    """
    state = standing.state
    promised = standing.promised
    return {
        "trouble": standing.trouble,
        "promised": None if promised is None else _wall(promised.at, offset),
        "leases": [_lease(each, standing.look, offset) for each in state.leases],
        "queue": [_ticket(each, why, offset) for each, why in _queue(standing)],
        "reservations": [booking_form(each, offset) for each in state.bookings],
    }


def booking_form(booking: Booking, offset: Nanoseconds) -> Form:
    """One reservation."""
    wish = booking.reservation
    return {
        "id": booking.id,
        "user": wish.user,
        "uuids": list(booking.uuids),
        "starts": _wall(wish.starts, offset),
        "ends": _wall(wish.ends, offset),
        "is_at_risk": booking.is_at_risk,
    }


def _queue(standing: BrokerOverview) -> list[tuple[Ticket, str | None]]:
    """Tickets in their order; those that nobody has looked at last."""
    state: BrokerState = standing.state
    served = [ticket for ticket, _ in standing.waiting if state.ticket(ticket.id) is not None]
    known = {ticket.id for ticket in served}
    new = sorted(
        (each for each in state.tickets if each.id not in known), key=lambda each: each.asked
    )
    return [(each, standing.why_waiting(each.id)) for each in (*served, *new)]


def _pause_seconds(place: int | None, waited_seconds: float) -> float:
    """The further behind, the less often it is worth asking."""
    if place is None:
        is_new = waited_seconds < _FIRST_WAIT_SECONDS
        return _FIRST_PAUSE_SECONDS if is_new else _LEAST_PAUSE_SECONDS
    return min(_LONGEST_PAUSE_SECONDS, max(_LEAST_PAUSE_SECONDS, place * _PAUSE_SECONDS_A_PLACE))


def _held(record: LeaseRecord, look: NodeObservation | None, offset: Nanoseconds) -> Form:
    """A lease for whoever holds it: with all that it takes to make use of it."""
    lease = record.lease
    seats = [] if look is None else [each for each in look.seats if each.uuid in lease.uuids]
    is_known = len(seats) == len(lease.uuids)
    near = [each.cpus for each in seats]
    nodes = [each.numa_node for each in seats]
    return {
        **_lease(record, look, offset),
        "memory_bytes": list(lease.memory_bytes),
        "memory_total_bytes": list(record.totals),
        "ends_boottime_ns": lease.ends,
        "cpus": sorted({cpu for each in near for cpu in each}) if is_known and all(near) else [],
        "numa_nodes": sorted({each for each in nodes if each is not None})
        if is_known and None not in nodes
        else [],
    }


def _lease(record: LeaseRecord, look: NodeObservation | None, offset: Nanoseconds) -> Form:
    lease = record.lease
    labels = {} if look is None else {each.uuid: each.label for each in look.seats}
    return {
        "id": lease.id,
        "user": lease.client.user,
        "pid": lease.client.pid,
        "uuids": list(lease.uuids),
        "labels": [labels.get(uuid, uuid) for uuid in lease.uuids],
        "is_shared": lease.is_shared,
        "asked": _wall(lease.asked, offset),
        "granted": _wall(lease.granted, offset),
        "ends": None if lease.ends is None else _wall(lease.ends, offset),
        "priority": lease.priority,
        "reservation": lease.reservation,
        "told": sorted(map(str, record.told)),
    }


def _ticket(ticket: Ticket, why: str | None, offset: Nanoseconds) -> Form:
    request = ticket.request
    return {
        "id": ticket.id,
        "user": ticket.client.user,
        "gpus": request.gpus,
        "memory_bytes": request.memory_bytes,
        "may_share": request.may_share,
        "interconnect": str(request.interconnect),
        "mig_profile": request.mig_profile,
        "asked": _wall(ticket.asked, offset),
        "priority": ticket.priority,
        "limit_seconds": ticket.limit_seconds,
        "reservation": ticket.reservation,
        "why": why,
    }


def _wall(at: Nanoseconds, offset: Nanoseconds) -> float:
    return seconds(at + offset)
