"""Reservations: which seats are kept free for them, and whether they will be in time."""

from collections.abc import Sequence
from dataclasses import replace
from math import ceil

from rightsizer.domain.units import Nanoseconds, format_duration, seconds
from rightsizer.placement.broker_event import BrokerEvent, EventKind
from rightsizer.placement.broker_state import Booking
from rightsizer.placement.lease import Reservation, Ticket
from rightsizer.placement.standing import Look, Standing

__all__ = ["about", "planned", "replanned", "too_early", "too_few", "weights_of"]

_MINUTE, _HOUR = 60, 3600


def planned(wish: Reservation, bookings: Sequence[Booking], standing: Standing) -> tuple[str, ...]:
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


def too_few(wish: Reservation, bookings: Sequence[Booking], standing: Standing) -> str:
    """Why `planned` has found too few: how many are known to be free, and what is in the way."""
    asked = wish.request.gpus
    fewer = (replace(wish, request=replace(wish.request, gpus=n)) for n in range(asked - 1, 0, -1))
    known = max((len(planned(each, bookings, standing)) for each in fewer), default=0)
    return (
        f"{known or 'none'} of {asked} asked for {'are' if known > 1 else 'is'} known to be free "
        "then: leases that may still run, work without a lease or other reservations are on the "
        f"rest; begin later{' or ask for fewer' if known else ''}"
    )


def replanned(
    bookings: Sequence[Booking], standing: Standing
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
        uuids = planned(booking.reservation, kept, standing)
        if uuids:
            weights = weights_of(uuids, standing.look)
            kept[at] = replace(booking, uuids=uuids, weights=weights, is_at_risk=False)
        elif not booking.is_at_risk:
            kept[at] = replace(booking, is_at_risk=True)
            events.append(_at_risk(booking, standing.now))
    return tuple(kept), tuple(events)


def weights_of(uuids: Sequence[str], look: Look) -> tuple[float, ...]:
    """What part of a GPU each of some seats is."""
    parts = {seat.uuid: seat.device.capacity_ratio for seat in look.seats}
    return tuple(parts.get(uuid, 1.0) for uuid in uuids)


def too_early(
    tickets: Sequence[Ticket], bookings: Sequence[Booking], now: Nanoseconds
) -> tuple[tuple[Ticket, str], ...]:
    """Tickets whose reservation has not begun, each with a clause that says when it will."""
    begins = {each.id: each.reservation.starts for each in bookings}
    return tuple(
        (ticket, f"its reservation begins in {about(begins[ticket.reservation] - now)}")
        for ticket in tickets
        if ticket.reservation is not None and begins.get(ticket.reservation, now) > now
    )


def about(ahead: Nanoseconds) -> str:
    """Time to come in whole hours or minutes: whoever waits is told again as this changes."""
    ahead_seconds = seconds(ahead)
    if ahead_seconds <= _MINUTE:
        return "less than a minute"
    unit = _HOUR if ahead_seconds > _HOUR else _MINUTE
    return format_duration(ceil(ahead_seconds / unit) * unit)


def _are_free_in_time(booking: Booking, standing: Standing) -> bool:
    rest = frozenset(seat.uuid for seat in standing.look.seats if seat.uuid not in booking.uuids)
    wish = booking.reservation
    return standing.seats_at(wish.request, wish.starts, rest) is not None


def _unavailable(booking: Booking, look: Look) -> tuple[str, ...]:
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
