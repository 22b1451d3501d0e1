"""What of a broker's state a reboot leaves."""

from dataclasses import replace

from rightsizer.domain.units import Nanoseconds
from rightsizer.placement.broker_event import BrokerEvent, EventKind
from rightsizer.placement.broker_state import Booking, BrokerState
from rightsizer.placement.broker_step import Step, ended_ticket, without_booking
from rightsizer.placement.lease import EndReason
from rightsizer.placement.watching import ended

__all__ = ["rebooted"]


def rebooted(
    state: BrokerState,
    now: Nanoseconds,
    boot: str,
    shift: Nanoseconds | None,
    half_life_seconds: float,
) -> Step:
    """The state on another boot: leases and tickets have ended, reservations and usage stay.

    Args:
        state: As it was saved.
        now: CLOCK_BOOTTIME of this boot.
        boot: Its id.
        shift: What the old clock's times have to be moved by for this one; `None`: nobody knows,
            so that reservations end and usage does not decay for the time between.
        half_life_seconds: Of usage.
    """
    usage = state.usage.moved(now)
    if shift is not None and state.as_of + shift < now:
        usage = state.usage.moved(state.as_of + shift).charged(now, {}, half_life_seconds)
    new = BrokerState(boot, now, usage=usage)
    events: list[BrokerEvent] = [
        *(ended(each, now, EndReason.REBOOTED) for each in state.leases),
        *(ended_ticket(new, each, EndReason.REBOOTED) for each in state.tickets),
    ]
    if shift is not None:
        kept = new.with_bookings(_shifted(each, shift) for each in state.bookings)
        return Step(kept, tuple(events))
    lost = "cannot be kept over a reboot whose clock is not known; reserve anew"
    for each in state.bookings:
        events += without_booking(new, each, EventKind.CANCELED, lost).events
    return Step(new, tuple(events))


def _shifted(booking: Booking, shift: Nanoseconds) -> Booking:
    wish = booking.reservation
    moved = replace(wish, starts=wish.starts + shift, ends=wish.ends + shift)
    return replace(booking, reservation=moved)
