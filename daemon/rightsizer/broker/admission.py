"""Admission: which requests are refused, each with one sentence and the remedy."""

from typing import Final

from rightsizer.broker.choice import PlacementRefusal, choose
from rightsizer.broker.lease import GpuRequest, LeaseOwner, Reservation, Ticket
from rightsizer.broker.scheduling_state import NodeObservation
from rightsizer.broker.settings import BrokerSettings, GpuPlacementSettings
from rightsizer.broker.state import BrokerState
from rightsizer.model.units import format_duration, nanoseconds, seconds

_LONGEST_SHOWN_SECONDS: Final = 1000 * 366 * 86400.0


def refused_ticket(ticket: Ticket, state: BrokerState, settings: BrokerSettings) -> str | None:
    """Why a ticket is rejected; `None` where it is accepted."""
    client, mine = ticket.client, [t for t in state.tickets if t.client.uid == ticket.client.uid]
    if len(state.tickets) >= settings.maximum_tickets:
        return f"{len(state.tickets)} tickets wait already, as many as allowed; ask again later"
    if len(mine) >= settings.maximum_tickets_per_user:
        return (
            f"{len(mine)} tickets of {client.user} wait already, as many as allowed; withdraw one "
            "or ask again later"
        )
    return (
        _wrong_request(ticket.request)
        or _wrong_priority(ticket, settings)
        or _wrong_limit(ticket, settings)
        or _wrong_reservation(ticket, state)
    )


def refused_reservation(
    reservation: Reservation, by: LeaseOwner, state: BrokerState, settings: BrokerSettings
) -> str | None:
    """Why a reservation is rejected whatever the slots; `None` where it is not."""
    is_operator = settings.is_operator(by)
    if reservation.user != by.user and not is_operator:
        return f"{by.user} cannot reserve for {reservation.user}; an operator can"
    if reservation.starts < state.as_of:
        return "it would begin in the past; begin it now or later"
    if reservation.ends <= reservation.starts:
        return "it would end before it begins; give it a length"
    ahead, length = reservation.starts - state.as_of, reservation.ends - reservation.starts
    if ahead > nanoseconds(settings.furthest_reservation_seconds):
        most = format_duration(settings.furthest_reservation_seconds)
        return f"it would begin in {format_duration(seconds(ahead))}; {most} is the furthest"
    if not is_operator:
        held = sum(each.reservation.user == reservation.user for each in state.bookings)
        if settings.maximum_reservations_per_user == 0:
            return (
                "reservations are for operators here; ask one, who can also allow them by "
                "broker.maximum_reservations_per_user"
            )
        if held >= settings.maximum_reservations_per_user:
            return f"{reservation.user} has {held} reservations, as many as allowed; cancel one"
        if length > nanoseconds(settings.longest_reservation_seconds):
            most = format_duration(settings.longest_reservation_seconds)
            return f"it would last {format_duration(seconds(length))}; {most} is the longest"
    return _wrong_request(reservation.request)


def refused_end(owner_uid: int, by: LeaseOwner | None, settings: BrokerSettings) -> str | None:
    """Why a client may not end an item of an owner; `None` where it, or the agent, may."""
    if by is None or by.uid == owner_uid or settings.is_operator(by):
        return None
    return f"it is not {by.user}'s; its owner or an operator can end it"


def impossible(
    request: GpuRequest, node: NodeObservation, settings: GpuPlacementSettings
) -> str | None:
    """Why a node could never serve a request; `None` where it could, or has no known slots."""
    if not node.slots:
        return None
    found = choose(node.slots, node.topology, request, settings)
    if not isinstance(found, PlacementRefusal) or not found.is_hopeless:
        return None
    summary, *_, why = found.reasons
    return f"{summary} {why}".rstrip(".")


def _wrong_request(request: GpuRequest) -> str | None:
    if request.gpus < 1:
        return f"{request.gpus} GPUs were asked for; ask for 1 or more"
    if request.memory_bytes is not None and not 0 < request.memory_bytes < float("inf"):
        return "the memory asked for is not a size; write it like 30GiB"
    return None


def _wrong_priority(ticket: Ticket, settings: BrokerSettings) -> str | None:
    client, asked = ticket.client, ticket.priority
    is_operator = settings.is_operator(client)
    most = max(settings.highest_priority, settings.operator_priority if is_operator else 0)
    if settings.lowest_priority <= asked <= most:
        return None
    return f"priority {asked} is not for {client.user}; {settings.lowest_priority} to {most} are"


def _wrong_limit(ticket: Ticket, settings: BrokerSettings) -> str | None:
    limit = ticket.limit_seconds
    if limit is None or 0 < limit <= settings.longest_limit_seconds:
        return None
    most = format_duration(settings.longest_limit_seconds)
    if limit <= 0:
        return f"a limit of {limit:g} s is none; more than 0 s up to {most} may be asked for"
    shown = (
        f"a limit of {format_duration(limit)}" if limit < _LONGEST_SHOWN_SECONDS else "that limit"
    )
    return f"{shown} is too long; at most {most} may be asked for"


def _wrong_reservation(ticket: Ticket, state: BrokerState) -> str | None:
    if ticket.reservation is None:
        return None
    booking = state.booking(ticket.reservation)
    if booking is None:
        return f"there is no reservation {ticket.reservation}; ask without, or reserve first"
    if booking.reservation.user != ticket.client.user:
        return f"reservation {booking.id} is for {booking.reservation.user}; ask without it"
    return None
