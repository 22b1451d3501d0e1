"""Transitions of the broker's state: grant, end, notice, reboot, and their events."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from rightsizer.broker.lease import (
    BrokerEvent,
    EndReason,
    EventKind,
    LeaseEnding,
    LeaseObservation,
    LeaseOwner,
    LeaseRecord,
    Ticket,
    ending_by,
)
from rightsizer.broker.queue import Grant
from rightsizer.broker.scheduling_state import EarliestStart
from rightsizer.broker.settings import BrokerSettings
from rightsizer.broker.state import Booking, BrokerState
from rightsizer.model.units import (
    NANOSECONDS_PER_SECOND,
    Nanoseconds,
    format_duration,
    nanoseconds,
    seconds,
)

_GIBIBYTE: Final = 1 << 30


def is_dead(
    record: LeaseRecord, sighting: LeaseObservation, now: Nanoseconds, settings: BrokerSettings
) -> bool:
    """Whether a lease is over because nothing of it lives: not by what nobody could see.

    One that never lived has time to begin.
    """
    if sighting.is_alive is not False:
        return False
    waited = now - record.lease.granted
    return record.first_seen is not None or waited >= nanoseconds(settings.start_grace_seconds)


def ended(record: LeaseRecord, now: Nanoseconds, reason: EndReason) -> BrokerEvent:
    """A lease's end. One whose time was up has ended by that, however it left."""
    lease = record.lease
    after = ""
    if reason is not EndReason.REBOOTED:
        reason = EndReason.TIME_UP if record.is_overdue(now) else reason
        after = f" after {format_duration(seconds(now - lease.granted))}"
    return BrokerEvent(
        EventKind.ENDED,
        now,
        lease.id,
        lease.client.user,
        f"lease {lease.id} is over{after}: {_ENDS[reason]}",
        lease,
        reason,
    )


def with_notices(
    record: LeaseRecord, now: Nanoseconds, settings: BrokerSettings
) -> tuple[LeaseRecord, tuple[BrokerEvent, ...]]:
    """A lease and what its holder is told anew; what ceases to hold may be told again later."""
    events: list[BrokerEvent] = []
    if record.is_over_memory:
        record = replace(record, last_over_memory=now)
    for kind, message in _notices(record, now, settings).items():
        if message and kind not in record.told:
            lease = record.lease
            events.append(BrokerEvent(kind, now, lease.id, lease.client.user, message, lease))
        holds = bool(message) or _may_come_back(kind, record, now, settings)
        if holds != (kind in record.told):
            record = record.knows(kind, holds=holds)
    return record, tuple(events)


_ENDS: Final[Mapping[EndReason, str]] = {
    EndReason.GIVEN_BACK: "it was given back",
    EndReason.DIED: "none of its processes is left",
    EndReason.TIME_UP: "its time was up",
    EndReason.REBOOTED: "the machine was started anew",
    EndReason.WITHDRAWN: "it was withdrawn",
}


def _notices(
    record: LeaseRecord, now: Nanoseconds, settings: BrokerSettings
) -> dict[EventKind, str]:
    """By what can be told, the sentence, or nothing where it does not hold."""
    return {
        EventKind.TIME_UP: _time_up(record, now),
        EventKind.IDLE: _idle(record, now, settings),
        EventKind.OVER_MEMORY: _over_memory(record),
    }


def _may_come_back(
    kind: EventKind, record: LeaseRecord, now: Nanoseconds, settings: BrokerSettings
) -> bool:
    """Whether what a holder was told has ceased to hold for too short a time to be told again."""
    last = record.last_over_memory
    if kind is not EventKind.OVER_MEMORY or kind not in record.told or last is None:
        return False
    return now - last < nanoseconds(settings.over_memory_grace_seconds)


def _time_up(record: LeaseRecord, now: Nanoseconds) -> str:
    if not record.is_overdue(now):
        return ""
    return (
        f"the time of lease {record.id} is up; it is not ended, and counts against "
        f"{record.lease.client.user} as long as it runs; give it back when you can"
    )


def _idle(record: LeaseRecord, now: Nanoseconds, settings: BrokerSettings) -> str:
    idle = now - record.last_active
    if record.first_seen is None or idle < nanoseconds(settings.idle_grace_seconds):
        return ""
    lasted = format_duration(idle // NANOSECONDS_PER_SECOND)
    return f"nothing has run on the GPUs of lease {record.id} for {lasted}; give it back"


def _over_memory(record: LeaseRecord) -> str:
    if not record.is_over_memory:
        return ""
    used = max(value for value in record.measured_bytes if value is not None) / _GIBIBYTE
    aside = max(record.lease.memory_bytes) / _GIBIBYTE
    return (
        f"lease {record.id} holds {used:.1f} GiB of a GPU that others share, and {aside:.1f} GiB "
        "were set aside for it; use less, or ask for more"
    )


@dataclass(frozen=True, slots=True)
class BrokerTransition:
    """A new state and what happened."""

    state: BrokerState
    events: tuple[BrokerEvent, ...] = ()
    """In the order in which they happened."""
    grants: tuple[Grant, ...] = ()
    """Of `serve`: for each ticket that was granted, the lease's record and the choice."""
    waiting: tuple[tuple[Ticket, str], ...] = ()
    """Of `serve`: who waits, in the order of the queue, and a clause that says what for."""
    promised: EarliestStart | None = None
    """Of `serve`: when the first that waits can start at the latest, by the limits known."""

    @property
    def is_refused(self) -> bool:
        """Whether what was asked for was not done; the last event says why."""
        return bool(self.events) and self.events[-1].kind is EventKind.REFUSED


def refused(state: BrokerState, item_id: str, by: LeaseOwner | None, why: str) -> BrokerTransition:
    """Nothing but the reason."""
    user = "" if by is None else by.user
    return BrokerTransition(
        state, (BrokerEvent(EventKind.REFUSED, state.as_of, item_id, user, why),)
    )


def repeated(wish: Ticket, state: BrokerState) -> BrokerTransition | None:
    """The answer to a client that asks again for what it has or had; `None` for a new id."""
    record, ticket = state.lease(wish.id), state.ticket(wish.id)
    known = record.lease if record is not None else ticket
    if known is None:
        ending = state.ending(wish.id)
        if ending is None or ending.uid != wish.client.uid:
            return None
        return refused(state, wish.id, wish.client, ending.message)
    if known.client.uid != wish.client.uid:
        return refused(state, wish.id, wish.client, f"{wish.id} is somebody else's; take a new id")
    if record is not None:
        return BrokerTransition(state, (granted(state, record),))
    return BrokerTransition(state, (_event(EventKind.QUEUED, state, wish, "waits for its turn"),))


def granted(state: BrokerState, record: LeaseRecord) -> BrokerEvent:
    """What a client is answered."""
    lease = record.lease
    waited = format_duration(seconds(lease.granted - lease.asked))
    how = "a part of " if lease.is_shared else ""
    what = f"{how}{len(lease.uuids)} GPU{'s' if len(lease.uuids) > 1 else ''}"
    message = f"lease {lease.id} has {what} for {lease.client.user} after waiting {waited}"
    return BrokerEvent(EventKind.GRANTED, state.as_of, lease.id, lease.client.user, message, lease)


def reserved(state: BrokerState, booking: Booking) -> BrokerEvent:
    """What whoever reserves is answered."""
    wish = booking.reservation
    lasts = format_duration(seconds(wish.ends - wish.starts))
    begins = format_duration(seconds(max(0, wish.starts - state.as_of)))
    message = (
        f"{_counted(booking)} kept for {wish.user} as reservation {wish.id}, "
        f"in {begins}, for {lasts}"
    )
    return BrokerEvent(EventKind.RESERVED, state.as_of, wish.id, wish.user, message)


def _counted(booking: Booking) -> str:
    count, profile = len(booking.uuids), booking.reservation.request.mig_profile
    what = "GPU" if profile is None else "MIG instance"
    kind = "" if profile is None else f" {profile}"
    return f"1 {what}{kind} is" if count == 1 else f"{count} {what}s{kind} are"


def ended_ticket(state: BrokerState, ticket: Ticket, reason: EndReason) -> BrokerEvent:
    """A ticket's end without a lease."""
    how = "the machine was started anew" if reason is EndReason.REBOOTED else "it was withdrawn"
    event = _event(EventKind.ENDED, state, ticket, f"ticket {ticket.id} is over: {how}")
    return replace(event, reason=reason)


def without_ticket(
    state: BrokerState, ticket: Ticket, by: LeaseOwner | None = None
) -> BrokerTransition:
    """The state after a ticket was withdrawn, by somebody or because its client is gone."""
    kept = (each for each in state.tickets if each.id != ticket.id)
    event = ended_ticket(state, ticket, EndReason.WITHDRAWN)
    what = f"ticket {ticket.id} was withdrawn"
    ending = ending_by(by, ticket.client, ticket.id, state.as_of, what)
    return BrokerTransition(_noted(state.with_tickets(kept), ending), (event,))


def without_lease(
    state: BrokerState, record: LeaseRecord, reason: EndReason, by: LeaseOwner | None = None
) -> BrokerTransition:
    """The state after a lease ended, by somebody or by itself."""
    kept = (each for each in state.leases if each.id != record.id)
    what = f"lease {record.id} was ended"
    ending = ending_by(by, record.lease.client, record.id, state.as_of, what)
    event = ended(record, state.as_of, reason)
    return BrokerTransition(_noted(state.with_leases(kept), ending), (event,))


def without_booking(
    state: BrokerState, booking: Booking, kind: EventKind, what: str
) -> BrokerTransition:
    """The state after a reservation; tickets that drew on it wait on as those of others do."""
    wish = booking.reservation
    message = f"reservation {wish.id} {what}"
    kept = state.with_bookings(each for each in state.bookings if each.id != wish.id)
    kept = kept.with_tickets(
        replace(each, reservation=None) if each.reservation == wish.id else each
        for each in kept.tickets
    )
    return BrokerTransition(kept, (BrokerEvent(kind, state.as_of, wish.id, wish.user, message),))


def _noted(state: BrokerState, ending: LeaseEnding | None) -> BrokerState:
    if ending is None:
        return state
    return state.with_endings((*(e for e in state.endings if e.id != ending.id), ending))


def _event(kind: EventKind, state: BrokerState, ticket: Ticket, message: str) -> BrokerEvent:
    return BrokerEvent(kind, state.as_of, ticket.id, ticket.client.user, message)


def rebooted(
    state: BrokerState,
    now: Nanoseconds,
    boot: str,
    shift: Nanoseconds | None,
    half_life_seconds: float,
) -> BrokerTransition:
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
        return BrokerTransition(kept, tuple(events))
    lost = "cannot be kept over a reboot whose clock is not known; reserve anew"
    for each in state.bookings:
        events += without_booking(new, each, EventKind.CANCELED, lost).events
    return BrokerTransition(new, tuple(events))


def _shifted(booking: Booking, shift: Nanoseconds) -> Booking:
    wish = booking.reservation
    moved = replace(wish, starts=wish.starts + shift, ends=wish.ends + shift)
    return replace(booking, reservation=moved)
