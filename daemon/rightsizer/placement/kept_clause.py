"""Which reservation is in a ticket's way, and whether a shorter time limit would do."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from rightsizer.domain.units import Nanoseconds, nanoseconds, seconds
from rightsizer.placement.booking_plan import about
from rightsizer.placement.broker_state import Booking
from rightsizer.placement.choice import Choice, Refusal
from rightsizer.placement.lease import Ticket
from rightsizer.placement.standing import Standing
from rightsizer.placement.verdict import Obstacle

__all__ = ["kept_clause"]

_MINUTE, _HOUR = 60, 3600
_TRIED: Final = 8
"""Reservations whose begin is tried as a limit; who waits behind more of them is told of one."""


def kept_clause(ticket: Ticket, refusal: Refusal, standing: Standing) -> str:
    """What a person has to know of reservations to get GPUs now; empty where none is in the way.

    Args:
        ticket: Who cannot be served.
        refusal: As the standing has refused it.
        standing: The node.
    """
    reserved = {each.seat.uuid for each in refusal.occupied if each.obstacle is Obstacle.RESERVED}
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
    when = f"{'ends' if is_begun else 'begins'} in {about(edge - standing.now)}"
    clause = (
        f"{count} {'is' if count == 1 else 'are'} kept for reservation {booking.id} of "
        f"{booking.reservation.user}, which {when}"
    )
    if found is None:
        return clause
    return f"{clause}; with --time-limit {_written(starts - standing.now)} or less it would do"


def _short_enough(
    ticket: Ticket, bookings: Sequence[Booking], standing: Standing
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
        if isinstance(standing.choice(replace(ticket, limit_seconds=limit)), Choice):
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
