"""One transition of the broker: the state that follows, and what happened."""

from dataclasses import dataclass, replace

from rightsizer.domain.units import format_duration, seconds
from rightsizer.placement.broker_event import BrokerEvent, EventKind
from rightsizer.placement.broker_state import Booking, BrokerState
from rightsizer.placement.ending import Ending, ending_by
from rightsizer.placement.lease import Client, EndReason, Ticket
from rightsizer.placement.lease_record import LeaseRecord
from rightsizer.placement.queue import Grant
from rightsizer.placement.standing import Start
from rightsizer.placement.watching import ended

__all__ = [
    "Step",
    "ended_ticket",
    "granted",
    "refused",
    "repeated",
    "reserved",
    "without_booking",
    "without_lease",
    "without_ticket",
]


@dataclass(frozen=True, slots=True)
class Step:
    """A new state and what happened."""

    state: BrokerState
    events: tuple[BrokerEvent, ...] = ()
    """In the order in which they happened."""
    grants: tuple[Grant, ...] = ()
    """Of `serve`: for each ticket that was granted, the lease's record and the choice."""
    waiting: tuple[tuple[Ticket, str], ...] = ()
    """Of `serve`: who waits, in the order of the queue, and a clause that says what for."""
    promised: Start | None = None
    """Of `serve`: when the first that waits can start at the latest, by the limits known."""

    @property
    def is_refused(self) -> bool:
        """Whether what was asked for was not done; the last event says why."""
        return bool(self.events) and self.events[-1].kind is EventKind.REFUSED


def refused(state: BrokerState, item_id: str, by: Client | None, why: str) -> Step:
    """Nothing but the reason."""
    user = "" if by is None else by.user
    return Step(state, (BrokerEvent(EventKind.REFUSED, state.as_of, item_id, user, why),))


def repeated(wish: Ticket, state: BrokerState) -> Step | None:
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
        return Step(state, (granted(state, record),))
    return Step(state, (_event(EventKind.QUEUED, state, wish, "waits for its turn"),))


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


def without_ticket(state: BrokerState, ticket: Ticket, by: Client | None = None) -> Step:
    """The state after a ticket was withdrawn, by somebody or because its client is gone."""
    kept = (each for each in state.tickets if each.id != ticket.id)
    event = ended_ticket(state, ticket, EndReason.WITHDRAWN)
    what = f"ticket {ticket.id} was withdrawn"
    ending = ending_by(by, ticket.client, ticket.id, state.as_of, what)
    return Step(_noted(state.with_tickets(kept), ending), (event,))


def without_lease(
    state: BrokerState, record: LeaseRecord, reason: EndReason, by: Client | None = None
) -> Step:
    """The state after a lease ended, by somebody or by itself."""
    kept = (each for each in state.leases if each.id != record.id)
    what = f"lease {record.id} was ended"
    ending = ending_by(by, record.lease.client, record.id, state.as_of, what)
    event = ended(record, state.as_of, reason)
    return Step(_noted(state.with_leases(kept), ending), (event,))


def without_booking(state: BrokerState, booking: Booking, kind: EventKind, what: str) -> Step:
    """The state after a reservation; tickets that drew on it wait on as those of others do."""
    wish = booking.reservation
    message = f"reservation {wish.id} {what}"
    kept = state.with_bookings(each for each in state.bookings if each.id != wish.id)
    kept = kept.with_tickets(
        replace(each, reservation=None) if each.reservation == wish.id else each
        for each in kept.tickets
    )
    return Step(kept, (BrokerEvent(kind, state.as_of, wish.id, wish.user, message),))


def _noted(state: BrokerState, ending: Ending | None) -> BrokerState:
    if ending is None:
        return state
    return state.with_endings((*(e for e in state.endings if e.id != ending.id), ending))


def _event(kind: EventKind, state: BrokerState, ticket: Ticket, message: str) -> BrokerEvent:
    return BrokerEvent(kind, state.as_of, ticket.id, ticket.client.user, message)
