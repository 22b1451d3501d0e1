"""Broker as a pure state machine, with events and the reasons for rejections."""

from collections.abc import Iterator, Mapping
from typing import Final

from msgspec.structs import replace

from rightsizer.broker import reservations, transitions
from rightsizer.broker.choice import PlacementRefusal, choose
from rightsizer.broker.lease import (
    EndReason,
    EventKind,
    GpuRequest,
    LeaseObservation,
    LeaseOwner,
    LeaseRecord,
    Reservation,
    Ticket,
)
from rightsizer.broker.queue import serve_queue
from rightsizer.broker.scheduling_state import NodeObservation, SchedulingState
from rightsizer.broker.settings import BrokerSettings, GpuPlacementSettings
from rightsizer.broker.state import Booking, BrokerState, ranked
from rightsizer.broker.transitions import BrokerTransition
from rightsizer.model.values import Nanoseconds, format_duration, nanoseconds, seconds

_LONGEST_SHOWN_SECONDS: Final = 1000 * 366 * 86400.0


def refused_ticket(ticket: Ticket, state: BrokerState, settings: BrokerSettings) -> str | None:
    """Reason to reject a ticket, or `None`."""
    client = ticket.client
    mine = [other for other in state.tickets if other.client.uid == client.uid]
    if len(state.tickets) >= settings.maximum_tickets:
        return f"{len(state.tickets)} tickets wait already, as many as allowed; ask again later"
    if len(mine) >= settings.maximum_tickets_per_user:
        return (
            f"{len(mine)} tickets of {client.user} wait already, as many as allowed; withdraw one "
            "or ask again later"
        )
    return _wrong_request(ticket.request) or next(_wrong_terms(ticket, state, settings), None)


def refused_reservation(
    reservation: Reservation, by: LeaseOwner, state: BrokerState, settings: BrokerSettings
) -> str | None:
    """Reason to reject a reservation regardless of the slots, or `None`."""
    is_operator = settings.is_operator(by)
    if reservation.user != by.user and not is_operator:
        return f"{by.user} cannot reserve for {reservation.user}; an operator can"
    if reservation.starts < state.as_of:
        return "it would begin in the past; begin it now or later"
    if reservation.ends <= reservation.starts:
        return "it would end before it begins; give it a length"
    ahead = reservation.starts - state.as_of
    length = reservation.ends - reservation.starts
    if ahead > nanoseconds(settings.furthest_reservation_seconds):
        furthest = format_duration(settings.furthest_reservation_seconds)
        return f"it would begin in {format_duration(seconds(ahead))}; {furthest} is the furthest"
    if not is_operator:
        made = (booking.reservation for booking in state.bookings if booking.replaces is None)
        held = sum(booked.user == reservation.user for booked in made)
        if settings.maximum_reservations_per_user == 0:
            return (
                "reservations are for operators here; ask one, who can also allow them by "
                "broker.maximum_reservations_per_user"
            )
        if held >= settings.maximum_reservations_per_user:
            return f"{reservation.user} has {held} reservations, as many as allowed; cancel one"
        if length > nanoseconds(settings.longest_reservation_seconds):
            longest = format_duration(settings.longest_reservation_seconds)
            return f"it would last {format_duration(seconds(length))}; {longest} is the longest"
    return _wrong_request(reservation.request)


def refused_end(owner_uid: int, by: LeaseOwner | None, settings: BrokerSettings) -> str | None:
    """Reason why a client may not end an owner's item, or `None`; `by=None` is the agent."""
    if by is None or by.uid == owner_uid or settings.is_operator(by):
        return None
    return f"it is not {by.user}'s; its owner or an operator can end it"


def impossible(
    request: GpuRequest, node: NodeObservation, settings: GpuPlacementSettings
) -> str | None:
    """Reason why a node could never serve a request; `None` if it could, or has no known slots."""
    if not node.slots:
        return None
    choice = choose(node.slots, node.topology, request, settings)
    if not isinstance(choice, PlacementRefusal) or not choice.is_hopeless:
        return None
    summary, *_, why = choice.reasons
    return f"{summary} {why}".rstrip(".")


def _wrong_request(request: GpuRequest) -> str | None:
    if request.gpus < 1:
        return f"{request.gpus} GPUs were asked for; ask for 1 or more"
    if request.memory_bytes is not None and not 0 < request.memory_bytes < float("inf"):
        return "the memory asked for is not a size; write it like 30GiB"
    return None


def _wrong_terms(ticket: Ticket, state: BrokerState, settings: BrokerSettings) -> Iterator[str]:
    client = ticket.client
    asked = ticket.priority
    limit = ticket.limit_seconds
    is_operator = settings.is_operator(client)
    highest = max(settings.highest_priority, settings.operator_priority if is_operator else 0)
    if not settings.lowest_priority <= asked <= highest:
        allowed = f"{settings.lowest_priority} to {highest}"
        yield f"priority {asked} is not for {client.user}; {allowed} are"
    longest = format_duration(settings.longest_limit_seconds)
    if limit is not None and limit <= 0:
        yield f"a limit of {limit:g} s is none; more than 0 s up to {longest} may be asked for"
    if limit is not None and not limit <= settings.longest_limit_seconds:
        is_short = limit < _LONGEST_SHOWN_SECONDS
        shown = f"a limit of {format_duration(limit)}" if is_short else "that limit"
        yield f"{shown} is too long; at most {longest} may be asked for"
    if ticket.reservation is not None:
        if (booking := state.booking(ticket.reservation)) is None:
            yield f"there is no reservation {ticket.reservation}; ask without, or reserve first"
        elif booking.reservation.user != client.user:
            owner = booking.reservation.user
            yield f"reservation {booking.id} is for {owner}; ask without it"


class Broker:
    """State transitions. Holds only settings; a reload creates a new one for the same state.

    `now` is always CLOCK_BOOTTIME; a time before the state's `as_of` counts as `as_of`. `by` is
    the client as identified by the kernel; `None` is the agent.
    """

    def __init__(self, settings: BrokerSettings, placement: GpuPlacementSettings) -> None:
        self._settings = settings
        self._placement = placement

    def ask(
        self,
        state: BrokerState,
        now: Nanoseconds,
        ticket: Ticket,
        node: NodeObservation | None = None,
    ) -> BrokerTransition:
        """Queue a ticket: QUEUED, or REFUSED with the reason.

        A repeated id of the same user gets the same answer as before, or GRANTED if it has become a
        lease. An id that another user has ended stays ended.

        The ticket's `asked` is replaced by `now`, and a missing limit by the default. With a
        `node`, requests that it could never serve are refused at once; `None` if unknown.
        """
        state = self._charged(state, now)
        if (again := transitions.repeated(ticket, state)) is not None:
            return again
        if ticket.limit_seconds is None:
            ticket = replace(ticket, limit_seconds=self._settings.default_limit_seconds)
        ticket = replace(ticket, asked=state.as_of)
        if (why := refused_ticket(ticket, state, self._settings)) is None and node is not None:
            why = impossible(ticket.request, node, self._placement)
        if why is not None:
            return transitions.refused(state, ticket.id, ticket.client, why)
        state = state.with_tickets((*state.tickets, ticket))
        return transitions.repeated(ticket, state) or BrokerTransition(state)

    def end(
        self, state: BrokerState, now: Nanoseconds, item_id: str, by: LeaseOwner | None = None
    ) -> BrokerTransition:
        """End a ticket as WITHDRAWN, or a lease as GIVEN_BACK (TIME_UP if overdue); or REFUSED.

        Remaining processes of the lease then occupy their slots like any process without a lease.
        """
        state = self._charged(state, now)
        ticket = state.ticket(item_id)
        record = state.lease(item_id)
        item = ticket if record is None else record.lease
        if item is None:
            return transitions.refused(state, item_id, by, f"there is no lease {item_id}")
        if (why := refused_end(item.client.uid, by, self._settings)) is not None:
            return transitions.refused(state, item_id, by, why)
        if record is not None:
            return transitions.without_lease(state, record, EndReason.GIVEN_BACK, by)
        return transitions.without_ticket(state, ticket, by) if ticket else BrokerTransition(state)

    def observe(
        self, state: BrokerState, now: Nanoseconds, observations: Mapping[str, LeaseObservation]
    ) -> BrokerTransition:
        """Apply observations by lease or ticket id: end dead ones, notify holders.

        Items without an observation are unchanged.
        """
        step = BrokerTransition(self._charged(state, now))
        for ticket in step.state.tickets:
            if (seen := observations.get(ticket.id)) is not None and seen.is_alive is False:
                step = step.then(transitions.without_ticket, ticket)
        for record in step.state.leases:
            if (seen := observations.get(record.id)) is None:
                continue
            if transitions.is_dead(record, seen, step.state.as_of, self._settings):
                step = step.then(transitions.without_lease, record, EndReason.DIED)
            else:
                step = step.then(self._notified, record.observed(step.state.as_of, seen))
        return step

    def expire(self, state: BrokerState, now: Nanoseconds) -> BrokerTransition:
        """Apply the passage of time: notify overdue holders, end reservations.

        Tickets of an ended reservation keep waiting as ordinary ones.
        """
        step = BrokerTransition(self._charged(state, now))
        for record in step.state.leases:
            step = step.then(self._notified, record)
        for booking in step.state.bookings:
            if booking.reservation.ends <= step.state.as_of:
                step = step.then(
                    transitions.without_booking, booking, EventKind.RESERVATION_OVER, "is over"
                )
        return step

    def replace_lost(
        self, state: BrokerState, now: Nanoseconds, node: NodeObservation
    ) -> BrokerTransition:
        """Notify holders of lost slots, and reserve replacements before serving the queue.

        State and node are as for `serve`.
        """
        step = BrokerTransition(self._charged(state, now))
        for record in step.state.leases:
            if record.loss is not None:
                scheduling = self._scheduling(step.state, node)
                step = step.then(reservations.with_replacement, record, scheduling, self._settings)
        return step

    def serve(
        self, state: BrokerState, now: Nanoseconds, node: NodeObservation
    ) -> BrokerTransition:
        """Grant waiting tickets where possible; answer GRANTED only after the state is saved.

        The state must reflect `observe` of the same moment; the node excludes holders that belong
        to a lease.
        """
        state = self._charged(state, now)
        scheduling = self._scheduling(state, node)
        bookings, events = reservations.replanned_reservations(state.bookings, scheduling)
        state = state.with_bookings(bookings)
        ranking = ranked(state.tickets, state.usage, self._settings, state.as_of)
        early = reservations.too_early(ranking, bookings, state.as_of)
        not_yet = {ticket.id for ticket, _ in early}
        ordered = [ticket for ticket in ranking if ticket.id not in not_yet]
        served = serve_queue(ordered, replace(scheduling, bookings=bookings), self._settings)
        gone = {grant.id for grant in served.grants}
        state = state.with_tickets(ticket for ticket in state.tickets if ticket.id not in gone)
        state = state.with_leases((*state.leases, *served.grants))
        granted = (transitions.granted(state, grant) for grant in served.grants)
        step = BrokerTransition(state, (*events, *granted))
        drawn = {grant.lease.reservation for grant in served.grants}
        for booking in state.bookings:
            if booking.replaces is not None and booking.id in drawn:
                over = EventKind.RESERVATION_OVER
                why = "was drawn on"
                step = step.then(transitions.without_booking, booking, over, why)
        grants = tuple(served.grants)
        waiting = (*served.waiting, *early)
        return replace(step, grants=grants, waiting=waiting, promised=served.promised)

    def reserve(
        self,
        state: BrokerState,
        now: Nanoseconds,
        reservation: Reservation,
        by: LeaseOwner,
        node: NodeObservation,
    ) -> BrokerTransition:
        """Reserve slots for a user: RESERVED, or REFUSED with the reason.

        Only slots that will be free by the known limits can be reserved. From then on no lease that
        may last into the reservation is granted on them.
        """
        state = self._charged(state, now)
        booking = state.booking(reservation.id)
        if booking is not None and booking.reservation == reservation and booking.uid == by.uid:
            return BrokerTransition(state, (transitions.reserved(state, booking),))
        why = "there is a reservation with this id already" if booking is not None else None
        why = why or refused_reservation(reservation, by, state, self._settings)
        if (why := why or impossible(reservation.request, node, self._placement)) is not None:
            return transitions.refused(state, reservation.id, by, why)
        scheduling = self._scheduling(state, node)
        if not (uuids := reservations.planned_slots(reservation, state.bookings, scheduling)):
            why = reservations.too_few(reservation, state.bookings, scheduling)
            return transitions.refused(state, reservation.id, by, why)
        booking = Booking(reservation, uuids, by.uid, weights=reservations.weights_of(uuids, node))
        state = state.with_bookings((*state.bookings, booking))
        return BrokerTransition(state, (transitions.reserved(state, booking),))

    def cancel(
        self,
        state: BrokerState,
        now: Nanoseconds,
        reservation_id: str,
        by: LeaseOwner | None = None,
    ) -> BrokerTransition:
        """Cancel a reservation: CANCELED, or REFUSED. Its leases and tickets remain."""
        state = self._charged(state, now)
        if (booking := state.booking(reservation_id)) is None:
            why = f"there is no reservation {reservation_id}"
            return transitions.refused(state, reservation_id, by, why)
        is_its_user = by is not None and by.user == booking.reservation.user
        why_not = None if is_its_user else refused_end(booking.uid, by, self._settings)
        if why_not is not None:
            return transitions.refused(state, reservation_id, by, why_not)
        return transitions.without_booking(state, booking, EventKind.CANCELED, "was taken back")

    def after_restart(
        self, state: BrokerState, now: Nanoseconds, boot: str, shift: Nanoseconds | None = None
    ) -> BrokerTransition:
        """Restore the saved state after a restart of the agent.

        On the same boot everything remains, and leases do not count as idle meanwhile. A new boot
        ends all leases and tickets as REBOOTED, but keeps reservations and usage.

        `now` is CLOCK_BOOTTIME of this boot, `shift` the offset to add to the old boot's times.
        With `None` (unknown), reservations end and usage does not decay over the gap.
        """
        if boot == state.boot:
            state = self._charged(state, now)
            return BrokerTransition(
                state.with_leases(replace(lease, last_active=state.as_of) for lease in state.leases)
            )
        half_life_seconds = self._settings.fair_share_half_life_seconds
        step = transitions.rebooted(state, now, boot, shift, half_life_seconds)
        return step.then(self.expire, now)

    def turn(
        self,
        state: BrokerState,
        now: Nanoseconds,
        observations: Mapping[str, LeaseObservation],
        node: NodeObservation,
    ) -> BrokerTransition:
        """Run `observe`, `expire`, `replace_lost` and `serve`, in this order."""
        return (
            self.observe(state, now, observations)
            .then(self.expire, now)
            .then(self.replace_lost, now, node)
            .then(self.serve, now, node)
        )

    def _charged(self, state: BrokerState, now: Nanoseconds) -> BrokerState:
        return state.charged(now, self._settings.fair_share_half_life_seconds)

    def _scheduling(self, state: BrokerState, node: NodeObservation) -> SchedulingState:
        settling = nanoseconds(self._settings.settling_seconds)
        return SchedulingState(
            state.as_of, node, state.leases, state.bookings, self._placement, settling
        )

    def _notified(self, state: BrokerState, record: LeaseRecord) -> BrokerTransition:
        record, events = transitions.with_notices(record, state.as_of, self._settings)
        others = (lease for lease in state.leases if lease.id != record.id)
        return BrokerTransition(state.with_leases((*others, record)), events)
