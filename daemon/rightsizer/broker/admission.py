"""Admission: which requests are refused, each with one sentence and the remedy."""

from collections.abc import Iterator
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
    return _wrong_request(ticket.request) or next(_wrong_terms(ticket, state, settings), None)


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
        made = (each.reservation for each in state.bookings if each.replaces is None)
        held = sum(each.user == reservation.user for each in made)
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


def _wrong_terms(ticket: Ticket, state: BrokerState, settings: BrokerSettings) -> Iterator[str]:
    """What is wrong with its priority, limit and reservation."""
    client, asked, limit = ticket.client, ticket.priority, ticket.limit_seconds
    is_operator = settings.is_operator(client)
    most = max(settings.highest_priority, settings.operator_priority if is_operator else 0)
    if not settings.lowest_priority <= asked <= most:
        yield f"priority {asked} is not for {client.user}; {settings.lowest_priority} to {most} are"
    longest = format_duration(settings.longest_limit_seconds)
    if limit is not None and limit <= 0:
        yield f"a limit of {limit:g} s is none; more than 0 s up to {longest} may be asked for"
    if limit is not None and not limit <= settings.longest_limit_seconds:
        is_short = limit < _LONGEST_SHOWN_SECONDS
        shown = f"a limit of {format_duration(limit)}" if is_short else "that limit"
        yield f"{shown} is too long; at most {longest} may be asked for"
    if ticket.reservation is not None:
        booking = state.booking(ticket.reservation)
        if booking is None:
            yield f"there is no reservation {ticket.reservation}; ask without, or reserve first"
        elif booking.reservation.user != client.user:
            owner = booking.reservation.user
            yield f"reservation {booking.id} is for {owner}; ask without it"
