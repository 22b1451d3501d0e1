"""Transitions of the broker's state (grant, end, notice, reboot) and their events."""

from collections.abc import Callable, Iterator
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from rightsizer.broker.lease import (
    BrokerEvent,
    EndReason,
    EventKind,
    Lease,
    LeaseEnding,
    LeaseObservation,
    LeaseOwner,
    LeaseRecord,
    Ticket,
    ending_by,
)
from rightsizer.broker.scheduling_state import EarliestStart
from rightsizer.broker.settings import BrokerSettings
from rightsizer.broker.state import Booking, BrokerState
from rightsizer.model.values import (
    GIB,
    NANOSECONDS_PER_SECOND,
    Nanoseconds,
    format_duration,
    nanoseconds,
    seconds,
)

_ENDS: Final = {
    EndReason.GIVEN_BACK: "it was given back",
    EndReason.DIED: "none of its processes is left",
    EndReason.TIME_UP: "its time was up",
    EndReason.REBOOTED: "the machine was started again",
    EndReason.WITHDRAWN: "it was withdrawn",
}


class BrokerTransition(Struct, frozen=True):
    """New state, and the events that led to it."""

    state: BrokerState
    events: tuple[BrokerEvent, ...] = ()
    grants: tuple[LeaseRecord, ...] = ()
    """Set by `serve`: granted leases."""
    waiting: tuple[tuple[Ticket, str], ...] = ()
    """Set by `serve`: waiting tickets in queue order, each with its reason to wait as a clause."""
    promised: EarliestStart | None = None
    """Set by `serve`: latest start of the first waiting ticket, by the known limits."""

    @property
    def is_refused(self) -> bool:
        """Whether the request was rejected; the last event has the reason."""
        return bool(self.events) and self.events[-1].kind is EventKind.REFUSED

    def then(self, act: Callable[..., "BrokerTransition"], *arguments: Any) -> "BrokerTransition":
        """Chain a further transition, with the events of both."""
        step = act(self.state, *arguments)
        return replace(step, events=(*self.events, *step.events))


def is_dead(
    record: LeaseRecord, observation: LeaseObservation, now: Nanoseconds, settings: BrokerSettings
) -> bool:
    """Whether a lease without processes has ended; one never seen has a grace period."""
    if observation.is_alive is not False:
        return False
    waited = now - record.lease.granted
    return record.first_seen is not None or waited >= nanoseconds(settings.start_grace_seconds)


def with_notices(
    record: LeaseRecord, now: Nanoseconds, settings: BrokerSettings
) -> tuple[LeaseRecord, tuple[BrokerEvent, ...]]:
    """Lease with new notices to its holder; a notice may be repeated after it ceased to hold."""
    if record.is_over_memory:
        record = replace(record, last_over_memory=now)
    notices = dict(_notices(record, now, settings))
    last = record.last_over_memory
    events = tuple(
        _lease_event(kind, now, record.lease, message)
        for kind, message in notices.items()
        if kind not in record.notified
    )
    notified = frozenset(notices)
    if last is not None and now - last < nanoseconds(settings.over_memory_grace_seconds):
        # Too soon for another notice.
        notified |= record.notified & {EventKind.OVER_MEMORY}
    return replace(record, notified=notified), events


def _notices(
    record: LeaseRecord, now: Nanoseconds, settings: BrokerSettings
) -> Iterator[tuple[EventKind, str]]:
    if record.is_overdue(now):
        text = (
            f"the time of lease {record.id} is up; it is not ended, and counts against "
            f"{record.lease.client.user} as long as it runs; give it back when you can"
        )
        yield EventKind.TIME_UP, text
    idle = now - record.last_active
    if record.first_seen is not None and idle >= nanoseconds(settings.idle_grace_seconds):
        lasted = format_duration(idle // NANOSECONDS_PER_SECOND)
        text = f"nothing has run on the GPUs of lease {record.id} for {lasted}; give it back"
        yield EventKind.IDLE, text
    if record.is_over_memory:
        used = max(value for value in record.measured_bytes if value is not None) / GIB
        aside = max(record.lease.memory_bytes) / GIB
        text = (
            f"lease {record.id} holds {used:.1f} GiB of a GPU that others share, and {aside:.1f} "
            "GiB were set aside for it; use less, or ask for more"
        )
        yield EventKind.OVER_MEMORY, text


def _lease_event(kind: EventKind, now: Nanoseconds, lease: Lease, message: str) -> BrokerEvent:
    return BrokerEvent(kind, now, lease.id, lease.client.user, message, lease)


def refused(state: BrokerState, item_id: str, by: LeaseOwner | None, why: str) -> BrokerTransition:
    """Unchanged state with the reason for the rejection."""
    event = BrokerEvent(EventKind.REFUSED, state.as_of, item_id, by.user if by else "", why)
    return BrokerTransition(state, (event,))


def repeated(wanted: Ticket, state: BrokerState) -> BrokerTransition | None:
    """Answer to a repeated request; `None` for a new id."""
    record = state.lease(wanted.id)
    ticket = state.ticket(wanted.id)
    existing = record.lease if record is not None else ticket
    if existing is None:
        if (ending := state.ending(wanted.id)) is None or ending.uid != wanted.client.uid:
            return None
        return refused(state, wanted.id, wanted.client, ending.message)
    if existing.client.uid != wanted.client.uid:
        why = f"{wanted.id} belongs to another user; take a new id"
        return refused(state, wanted.id, wanted.client, why)
    if record is not None:
        return BrokerTransition(state, (granted(state, record),))
    message = "waits for its turn"
    user = wanted.client.user
    event = BrokerEvent(EventKind.QUEUED, state.as_of, wanted.id, user, message)
    return BrokerTransition(state, (event,))


def granted(state: BrokerState, record: LeaseRecord) -> BrokerEvent:
    """Event of a grant."""
    lease = record.lease
    waited = format_duration(seconds(lease.granted - lease.asked))
    how = "a part of " if lease.is_shared else ""
    what = f"{how}{len(lease.uuids)} GPU{'s' if len(lease.uuids) > 1 else ''}"
    message = f"lease {lease.id} has {what} for {lease.client.user} after waiting {waited}"
    return _lease_event(EventKind.GRANTED, state.as_of, lease, message)


def reserved(state: BrokerState, booking: Booking) -> BrokerEvent:
    """Event of a reservation."""
    wanted = booking.reservation
    count = len(booking.uuids)
    profile = wanted.request.mig_profile
    what = f"GPU{'s' if count > 1 else ''}"
    if profile is not None:
        what = f"MIG instance{'s' if count > 1 else ''} {profile}"
    message = (
        f"{count} {what} {'is' if count == 1 else 'are'} kept for {wanted.user} as reservation "
        f"{wanted.id}, in {format_duration(seconds(max(0, wanted.starts - state.as_of)))}, "
        f"for {format_duration(seconds(wanted.ends - wanted.starts))}"
    )
    return BrokerEvent(EventKind.RESERVED, state.as_of, wanted.id, wanted.user, message)


def _ended_ticket(ticket: Ticket, now: Nanoseconds, reason: EndReason) -> BrokerEvent:
    message = f"ticket {ticket.id} is over: {_ENDS[reason]}"
    user = ticket.client.user
    return BrokerEvent(EventKind.ENDED, now, ticket.id, user, message, reason=reason)


def _ended_lease(record: LeaseRecord, now: Nanoseconds, reason: EndReason) -> BrokerEvent:
    """Event of an ended lease; an overdue one ends as TIME_UP, however its processes exited."""
    lease = record.lease
    after = ""
    if reason is not EndReason.REBOOTED:
        reason = EndReason.TIME_UP if record.is_overdue(now) else reason
        after = f" after {format_duration(seconds(now - lease.granted))}"
    message = f"lease {lease.id} is over{after}: {_ENDS[reason]}"
    return replace(_lease_event(EventKind.ENDED, now, lease, message), reason=reason)


def without_ticket(
    state: BrokerState, ticket: Ticket, by: LeaseOwner | None = None
) -> BrokerTransition:
    """State without a ticket that a client withdrew, or whose client exited."""
    event = _ended_ticket(ticket, state.as_of, EndReason.WITHDRAWN)
    what = f"ticket {ticket.id} was withdrawn"
    ending = ending_by(by, ticket.client, ticket.id, state.as_of, what)
    state = state.with_tickets(other for other in state.tickets if other.id != ticket.id)
    return BrokerTransition(_with_ending(state, ending), (event,))


def without_lease(
    state: BrokerState, record: LeaseRecord, reason: EndReason, by: LeaseOwner | None = None
) -> BrokerTransition:
    """State without a lease that was ended by a client or by itself."""
    what = f"lease {record.id} was ended"
    ending = ending_by(by, record.lease.client, record.id, state.as_of, what)
    event = _ended_lease(record, state.as_of, reason)
    state = state.with_leases(lease for lease in state.leases if lease.id != record.id)
    return BrokerTransition(_with_ending(state, ending), (event,))


def without_booking(
    state: BrokerState, booking: Booking, kind: EventKind, what: str
) -> BrokerTransition:
    """State without a reservation, whose tickets keep waiting as ordinary ones."""
    name = booking.id
    user = booking.reservation.user
    event = BrokerEvent(kind, state.as_of, name, user, f"reservation {name} {what}")
    state = state.with_bookings(other for other in state.bookings if other.id != name)
    state = state.with_tickets(
        replace(ticket, reservation=None) if ticket.reservation == name else ticket
        for ticket in state.tickets
    )
    return BrokerTransition(state, (event,))


def _with_ending(state: BrokerState, ending: LeaseEnding | None) -> BrokerState:
    if ending is None:
        return state
    return state.with_endings((*(e for e in state.endings if e.id != ending.id), ending))


def rebooted(
    state: BrokerState,
    now: Nanoseconds,
    boot: str,
    shift: Nanoseconds | None,
    half_life_seconds: float,
) -> BrokerTransition:
    """State on another boot; see `Broker.after_restart`."""
    usage = replace(state.usage, as_of=now)
    if shift is not None and state.as_of + shift < now:
        usage = replace(usage, as_of=state.as_of + shift).charged(now, {}, half_life_seconds)
    events = (
        *(_ended_lease(lease, now, EndReason.REBOOTED) for lease in state.leases),
        *(_ended_ticket(ticket, now, EndReason.REBOOTED) for ticket in state.tickets),
    )
    step = BrokerTransition(BrokerState(boot, now, usage=usage), events)
    if shift is not None:
        bookings = (_shifted(booking, shift) for booking in state.bookings)
        return replace(step, state=step.state.with_bookings(bookings))
    lost = "cannot be kept over a reboot whose clock is not known; reserve again"
    for booking in state.bookings:
        step = step.then(without_booking, booking, EventKind.CANCELED, lost)
    return step


def _shifted(booking: Booking, shift: Nanoseconds) -> Booking:
    old = booking.reservation
    moved = replace(old, starts=old.starts + shift, ends=old.ends + shift)
    return replace(booking, reservation=moved)
