"""Broker as a pure state machine: from one state to the next, with events."""

from collections.abc import Mapping
from dataclasses import replace

from rightsizer.broker.admission import impossible, refused_end, refused_reservation, refused_ticket
from rightsizer.broker.lease import (
    BrokerEvent,
    EndReason,
    EventKind,
    LeaseObservation,
    LeaseOwner,
    LeaseRecord,
    Reservation,
    Ticket,
)
from rightsizer.broker.queue import serve_queue
from rightsizer.broker.reservations import (
    planned_slots,
    replanned_reservations,
    too_early,
    too_few,
    weights_of,
)
from rightsizer.broker.scheduling_state import NodeObservation, SchedulingState
from rightsizer.broker.settings import BrokerSettings, GpuPlacementSettings
from rightsizer.broker.state import Booking, BrokerState, ranked
from rightsizer.broker.transitions import (
    BrokerTransition,
    granted,
    is_dead,
    rebooted,
    refused,
    repeated,
    reserved,
    with_notices,
    without_booking,
    without_lease,
    without_ticket,
)
from rightsizer.model.units import Nanoseconds, nanoseconds


class Broker:
    """The transitions. Holds settings only; a reload makes a new one for the same state.

    `now` is CLOCK_BOOTTIME everywhere; one before the state's own `as_of` counts as that.
    """

    def __init__(self, settings: BrokerSettings, placement: GpuPlacementSettings) -> None:
        self._settings, self._placement = settings, placement

    def ask(
        self,
        state: BrokerState,
        now: Nanoseconds,
        wish: Ticket,
        look: NodeObservation | None = None,
    ) -> BrokerTransition:
        """Put a ticket into the queue: QUEUED, or REFUSED with why.

        Asking again with an id of one's own is answered as the first time, with GRANTED where the
        ticket has become a lease meanwhile: whoever lost an answer asks again. What somebody else
        has ended is not to be had under its id any more.

        Args:
            state: As it stands.
            now: When; the ticket's own `asked` does not matter.
            wish: The ticket, its client as the kernel told. Without a limit it gets the default.
            look: The node, to refuse at once what it could never serve; `None`: nobody looked.
        """
        state = self._charged(state, now)
        again = repeated(wish, state)
        if again is not None:
            return again
        limit = wish.limit_seconds
        ticket = replace(
            wish,
            asked=state.as_of,
            limit_seconds=self._settings.default_limit_seconds if limit is None else limit,
        )
        why = refused_ticket(ticket, state, self._settings)
        if why is None and look is not None:
            why = impossible(ticket.request, look, self._placement)
        if why is not None:
            return refused(state, wish.id, wish.client, why)
        state = state.with_tickets((*state.tickets, ticket))
        return repeated(ticket, state) or BrokerTransition(state)

    def withdraw(
        self, state: BrokerState, now: Nanoseconds, ticket_id: str, by: LeaseOwner | None = None
    ) -> BrokerTransition:
        """Take a ticket back: ENDED as WITHDRAWN, or REFUSED.

        Args:
            state: As it stands.
            now: When.
            ticket_id: Which.
            by: Who asks, as the kernel told; `None`: the agent, which saw that the client is gone.
        """
        state = self._charged(state, now)
        ticket = state.ticket(ticket_id)
        if ticket is None:
            return refused(state, ticket_id, by, f"there is no ticket {ticket_id}")
        why = refused_end(ticket.client.uid, by, self._settings)
        if why is not None:
            return refused(state, ticket_id, by, why)
        return without_ticket(state, ticket, by)

    def give_back(
        self, state: BrokerState, now: Nanoseconds, lease_id: str, by: LeaseOwner | None = None
    ) -> BrokerTransition:
        """End a lease: ENDED as GIVEN_BACK (as TIME_UP after its time), or REFUSED.

        Processes that run on without it are seen on the seats as anybody's, and respected there.
        """
        state = self._charged(state, now)
        record = state.lease(lease_id)
        if record is None:
            return refused(state, lease_id, by, f"there is no lease {lease_id}")
        why = refused_end(record.lease.client.uid, by, self._settings)
        if why is not None:
            return refused(state, lease_id, by, why)
        return without_lease(state, record, EndReason.GIVEN_BACK, by)

    def observe(
        self, state: BrokerState, now: Nanoseconds, sightings: Mapping[str, LeaseObservation]
    ) -> BrokerTransition:
        """Take note of what was seen: ends what is dead, tells holders.

        Leases and tickets without a sighting, and what a sighting leaves open, stay as they are:
        nothing ends because nobody looked.

        Args:
            state: As it stands.
            now: When it was looked.
            sightings: By the id of the lease or the ticket.
        """
        state = self._charged(state, now)
        events: list[BrokerEvent] = []
        for ticket in state.tickets:
            seen = sightings.get(ticket.id)
            if seen is not None and seen.is_alive is False:
                step = without_ticket(state, ticket)
                state, events = step.state, [*events, *step.events]
        for record in state.leases:
            seen = sightings.get(record.id)
            if seen is None:
                continue
            if is_dead(record, seen, state.as_of, self._settings):
                step = without_lease(state, record, EndReason.DIED)
            else:
                step = self._told(state, record.seen(state.as_of, seen))
            state, events = step.state, [*events, *step.events]
        return BrokerTransition(state, tuple(events))

    def expire(self, state: BrokerState, now: Nanoseconds) -> BrokerTransition:
        """What the time alone brings: holders past their limit are told, reservations end.

        Tickets that drew on a reservation that is over wait on as those of others do.
        """
        state = self._charged(state, now)
        events: list[BrokerEvent] = []
        for record in state.leases:
            step = self._told(state, record)
            state, events = step.state, [*events, *step.events]
        for booking in state.bookings:
            if booking.reservation.ends <= state.as_of:
                step = without_booking(state, booking, EventKind.RESERVATION_OVER, "is over")
                state, events = step.state, [*events, *step.events]
        return BrokerTransition(state, tuple(events))

    def serve(
        self, state: BrokerState, now: Nanoseconds, look: NodeObservation
    ) -> BrokerTransition:
        """Grant what can be granted: GRANTED for each, to be answered once the state is saved.

        Args:
            state: As it stands; `observe` it with what was seen in the same look, for what leases
                hold of a seat's memory is told from outsiders' by that.
            now: When.
            look: The node; holders whose processes belong to a lease left out.
        """
        state = self._charged(state, now)
        standing = self._standing(state, look)
        bookings, events = replanned_reservations(state.bookings, standing)
        state = state.with_bookings(bookings)
        ranking = ranked(state.tickets, state.usage, self._settings, state.as_of)
        early = too_early(ranking, bookings, state.as_of)
        not_yet = {ticket.id for ticket, _ in early}
        ordered = [ticket for ticket in ranking if ticket.id not in not_yet]
        served = serve_queue(ordered, replace(standing, bookings=bookings), self._settings)
        gone = {grant.ticket.id for grant in served.grants}
        state = state.with_tickets(each for each in state.tickets if each.id not in gone)
        state = state.with_leases((*state.leases, *(grant.record for grant in served.grants)))
        events = (*events, *(granted(state, grant.record) for grant in served.grants))
        return BrokerTransition(
            state, events, served.grants, (*served.waiting, *early), served.promised
        )

    def reserve(
        self,
        state: BrokerState,
        now: Nanoseconds,
        wish: Reservation,
        by: LeaseOwner,
        look: NodeObservation,
    ) -> BrokerTransition:
        """Keep seats free for a user: RESERVED, or REFUSED with why.

        Only what is free in time by the limits known can be reserved. No lease that may last into
        a reservation is granted on its seats from then on.

        Args:
            state: As it stands.
            now: When.
            wish: What for whom, and from when to when, in CLOCK_BOOTTIME.
            by: Who asks, as the kernel told.
            look: The node.
        """
        state = self._charged(state, now)
        known = state.booking(wish.id)
        if known is not None and known.reservation == wish and known.uid == by.uid:
            return BrokerTransition(state, (reserved(state, known),))
        why = "there is a reservation with this id already" if known is not None else None
        why = why or refused_reservation(wish, by, state, self._settings)
        why = why or impossible(wish.request, look, self._placement)
        if why is not None:
            return refused(state, wish.id, by, why)
        uuids = planned_slots(wish, state.bookings, self._standing(state, look))
        if not uuids:
            why = too_few(wish, state.bookings, self._standing(state, look))
            return refused(state, wish.id, by, why)
        booking = Booking(wish, uuids, by.uid, weights=weights_of(uuids, look))
        return BrokerTransition(
            state.with_bookings((*state.bookings, booking)), (reserved(state, booking),)
        )

    def cancel(
        self,
        state: BrokerState,
        now: Nanoseconds,
        reservation_id: str,
        by: LeaseOwner | None = None,
    ) -> BrokerTransition:
        """Take a reservation back: CANCELED, or REFUSED. Its leases and tickets stay."""
        state = self._charged(state, now)
        booking = state.booking(reservation_id)
        if booking is None:
            why = f"there is no reservation {reservation_id}"
            return refused(state, reservation_id, by, why)
        is_its_user = by is not None and by.user == booking.reservation.user
        why_not = None if is_its_user else refused_end(booking.uid, by, self._settings)
        if why_not is not None:
            return refused(state, reservation_id, by, why_not)
        return without_booking(state, booking, EventKind.CANCELED, "was taken back")

    def after_restart(
        self, state: BrokerState, now: Nanoseconds, boot: str, shift: Nanoseconds | None = None
    ) -> BrokerTransition:
        """The state as an agent that starts goes on with it.

        On the same boot all stays; nobody was idle while nobody looked. Another boot ends all
        leases and tickets as REBOOTED, and carries reservations and usage over.

        Args:
            state: As it was saved.
            now: CLOCK_BOOTTIME of this boot.
            boot: Its id.
            shift: What the old clock's times have to be moved by for this one; `None`: nobody
                knows, so that reservations end and usage does not decay for the time between.
        """
        if boot == state.boot:
            state = self._charged(state, now)
            return BrokerTransition(
                state.with_leases(replace(each, last_active=state.as_of) for each in state.leases)
            )
        step = rebooted(state, now, boot, shift, self._settings.fair_share_half_life_seconds)
        over = self.expire(step.state, now)
        return BrokerTransition(over.state, (*step.events, *over.events))

    def turn(
        self,
        state: BrokerState,
        now: Nanoseconds,
        sightings: Mapping[str, LeaseObservation],
        look: NodeObservation,
    ) -> BrokerTransition:
        """One look at the node: `observe`, `expire` and `serve`, in this order."""
        seen = self.observe(state, now, sightings)
        over = self.expire(seen.state, now)
        served = self.serve(over.state, now, look)
        return replace(served, events=(*seen.events, *over.events, *served.events))

    def _charged(self, state: BrokerState, now: Nanoseconds) -> BrokerState:
        return state.charged(now, self._settings.fair_share_half_life_seconds)

    def _standing(self, state: BrokerState, look: NodeObservation) -> SchedulingState:
        return SchedulingState(
            now=state.as_of,
            look=look,
            records=state.leases,
            bookings=state.bookings,
            settings=self._placement,
            settling=nanoseconds(self._settings.settling_seconds),
        )

    def _told(self, state: BrokerState, record: LeaseRecord) -> BrokerTransition:
        record, events = with_notices(record, state.as_of, self._settings)
        others = (each for each in state.leases if each.id != record.id)
        return BrokerTransition(state.with_leases((*others, record)), events)
