"""Planning of reservations: slots kept free, and which reservation blocks a ticket."""

from collections.abc import Sequence
from dataclasses import replace
from math import ceil
from typing import Final

from rightsizer.broker.choice import PlacementChoice, PlacementRefusal
from rightsizer.broker.lease import BrokerEvent, EventKind, Reservation, Ticket
from rightsizer.broker.scheduling_state import NodeObservation, SchedulingState
from rightsizer.broker.slot import SlotObstacle
from rightsizer.broker.state import Booking
from rightsizer.model.units import Nanoseconds, format_duration, nanoseconds, seconds

_MINUTE, _HOUR = 60, 3600


def planned_slots(
    wish: Reservation, bookings: Sequence[Booking], standing: SchedulingState
) -> tuple[str, ...]:
    """Seats that will be free from its begin to its end by the limits known; empty: too few.

    Leases without a known end and processes without a lease are taken to stay.
    """
    others = frozenset(
        uuid
        for other in bookings
        if other.id != wish.id and other.is_within(wish.starts, wish.ends)
        for uuid in other.uuids
    )
    found = standing.seats_at(wish.request, wish.starts, others)
    return () if found is None else tuple(sorted(found))


def too_few(wish: Reservation, bookings: Sequence[Booking], standing: SchedulingState) -> str:
    """Why `planned` has found too few: how many are known to be free, and what is in the way."""
    asked = wish.request.gpus
    fewer = (replace(wish, request=replace(wish.request, gpus=n)) for n in range(asked - 1, 0, -1))
    known = max((len(planned_slots(each, bookings, standing)) for each in fewer), default=0)
    return (
        f"{known or 'none'} of {asked} asked for {'are' if known > 1 else 'is'} known to be free "
        "then: leases that may still run, work without a lease or other reservations are on the "
        f"rest; begin later{' or ask for fewer' if known else ''}"
    )


def replanned_reservations(
    bookings: Sequence[Booking], standing: SchedulingState
) -> tuple[tuple[Booking, ...], tuple[BrokerEvent, ...]]:
    """Reservations that have not begun, moved to other seats where theirs will not be free.

    Where there are none, whoever reserved is told, once; the seats stay kept as well as may be.
    Of those that have begun it is noted which seats are out of reach.
    """
    kept, events = list(bookings), []
    for at, booking in enumerate(bookings):
        if booking.reservation.starts <= standing.now:
            kept[at] = replace(booking, unavailable=_unavailable(booking, standing.look))
            continue
        if _are_free_in_time(booking, standing):
            kept[at] = replace(booking, is_at_risk=False)
            continue
        uuids = planned_slots(booking.reservation, kept, standing)
        if uuids:
            weights = weights_of(uuids, standing.look)
            kept[at] = replace(booking, uuids=uuids, weights=weights, is_at_risk=False)
        elif not booking.is_at_risk:
            kept[at] = replace(booking, is_at_risk=True)
            events.append(_at_risk(booking, standing.now))
    return tuple(kept), tuple(events)


def weights_of(uuids: Sequence[str], look: NodeObservation) -> tuple[float, ...]:
    """What part of a GPU each of some seats is."""
    parts = {seat.uuid: seat.device.capacity_ratio for seat in look.seats}
    return tuple(parts.get(uuid, 1.0) for uuid in uuids)


def too_early(
    tickets: Sequence[Ticket], bookings: Sequence[Booking], now: Nanoseconds
) -> tuple[tuple[Ticket, str], ...]:
    """Tickets whose reservation has not begun, each with a clause that says when it will."""
    begins = {each.id: each.reservation.starts for each in bookings}
    return tuple(
        (
            ticket,
            f"its reservation begins in {approximate_duration(begins[ticket.reservation] - now)}",
        )
        for ticket in tickets
        if ticket.reservation is not None and begins.get(ticket.reservation, now) > now
    )


def approximate_duration(ahead: Nanoseconds) -> str:
    """Time to come in whole hours or minutes: whoever waits is told again as this changes."""
    ahead_seconds = seconds(ahead)
    if ahead_seconds <= _MINUTE:
        return "less than a minute"
    unit = _HOUR if ahead_seconds > _HOUR else _MINUTE
    return format_duration(ceil(ahead_seconds / unit) * unit)


def _are_free_in_time(booking: Booking, standing: SchedulingState) -> bool:
    rest = frozenset(seat.uuid for seat in standing.look.seats if seat.uuid not in booking.uuids)
    wish = booking.reservation
    return standing.seats_at(wish.request, wish.starts, rest) is not None


def _unavailable(booking: Booking, look: NodeObservation) -> tuple[str, ...]:
    in_reach = {seat.uuid for seat in look.seats if seat.trouble is None and not seat.holders}
    return tuple(uuid for uuid in booking.uuids if uuid not in in_reach)


def _at_risk(booking: Booking, now: Nanoseconds) -> BrokerEvent:
    return BrokerEvent(
        EventKind.AT_RISK,
        now,
        booking.id,
        booking.reservation.user,
        f"the GPUs of reservation {booking.id} will not be free in time: work without a limit, or "
        "past it, or without a lease is on them; nobody ends it but its owner",
    )


_TRIED: Final = 8
"""Reservations whose begin is tried as a limit; who waits behind more of them is told of one."""


def reservation_clause(ticket: Ticket, refusal: PlacementRefusal, standing: SchedulingState) -> str:
    """What a person has to know of reservations to get GPUs now; empty where none is in the way.

    Args:
        ticket: Who cannot be served.
        refusal: As the standing has refused it.
        standing: The node.
    """
    reserved = {
        each.seat.uuid for each in refusal.occupied if each.obstacle is SlotObstacle.RESERVED
    }
    bookings = [
        each
        for each in standing.bookings
        if each.id != ticket.reservation and reserved.intersection(each.uuids)
    ]
    if not bookings:
        return ""
    found = _short_enough(ticket, bookings, standing)
    booking = found or min(bookings, key=lambda each: (each.reservation.starts, each.id))
    starts, ends = booking.reservation.starts, booking.reservation.ends
    count = len(reserved.intersection(booking.uuids))
    is_begun = starts <= standing.now
    edge = ends if is_begun else starts
    when = f"{'ends' if is_begun else 'begins'} in {approximate_duration(edge - standing.now)}"
    clause = (
        f"{count} {'is' if count == 1 else 'are'} kept for reservation {booking.id} of "
        f"{booking.reservation.user}, which {when}"
    )
    if found is None:
        return clause
    return f"{clause}; with --time-limit {_written(starts - standing.now)} or less it would do"


def _short_enough(
    ticket: Ticket, bookings: Sequence[Booking], standing: SchedulingState
) -> Booking | None:
    """The latest that a lease could be over before and be granted now; `None`: there is none."""
    later = sorted(
        (
            each
            for each in bookings
            if each.reservation.starts - standing.now >= nanoseconds(_MINUTE)
        ),
        key=lambda each: (-each.reservation.starts, each.id),
    )
    for booking in later[:_TRIED]:
        limit = _whole_seconds(booking.reservation.starts - standing.now)
        if isinstance(standing.choice(replace(ticket, limit_seconds=limit)), PlacementChoice):
            return booking
    return None


def _whole_seconds(ahead: Nanoseconds) -> int:
    """In whole hours, or minutes, and no longer: whoever waits is told again as this changes."""
    whole = int(seconds(ahead))
    unit = _HOUR if whole >= _HOUR else _MINUTE
    return whole // unit * unit


def _written(ahead: Nanoseconds) -> str:
    """As the command line takes it."""
    whole = _whole_seconds(ahead)
    return f"{whole // _HOUR}h" if whole >= _HOUR else f"{whole // _MINUTE}m"
