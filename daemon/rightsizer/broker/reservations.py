"""Reservations: planning, effect on tickets, and replacements of lost slots."""

from collections.abc import Sequence
from math import ceil
from typing import Final

from msgspec.structs import replace

from rightsizer.broker.choice import PlacementChoice, PlacementRefusal
from rightsizer.broker.lease import (
    BrokerEvent,
    EventKind,
    LeaseLoss,
    LeaseRecord,
    Reservation,
    Ticket,
)
from rightsizer.broker.scheduling_state import NodeObservation, SchedulingState
from rightsizer.broker.settings import BrokerSettings
from rightsizer.broker.slot import SlotObstacle
from rightsizer.broker.state import Booking, BrokerState
from rightsizer.broker.transitions import BrokerTransition
from rightsizer.model.values import Nanoseconds, format_duration, nanoseconds, seconds

_MINUTE = 60
_HOUR = 3600
_TRIED: Final = 8
"""Maximum of reservations tried as a time limit."""


def planned_slots(
    reservation: Reservation, bookings: Sequence[Booking], scheduling: SchedulingState
) -> tuple[str, ...]:
    """Slots that will be free during a reservation by the known limits; empty if too few.

    Assumes that leases without a known end and processes without a lease remain.
    """
    others = frozenset(
        uuid
        for other in bookings
        if other.id != reservation.id and other.is_within(reservation.starts, reservation.ends)
        for uuid in other.uuids
    )
    slots = scheduling.slots_at(reservation.request, reservation.starts, others)
    return () if slots is None else tuple(sorted(slots))


def too_few(
    reservation: Reservation, bookings: Sequence[Booking], scheduling: SchedulingState
) -> str:
    """Explain a failed `planned_slots`: how many slots are known to be free, and why not more."""
    asked = reservation.request.gpus
    free_count = 0
    for count in range(asked - 1, 0, -1):
        fewer = replace(reservation, request=replace(reservation.request, gpus=count))
        if (free_count := len(planned_slots(fewer, bookings, scheduling))) > 0:
            break
    verb = "are" if free_count > 1 else "is"
    return (
        f"{free_count or 'none'} of {asked} asked for {verb} known to be free "
        "then: leases that may still run, work without a lease or other reservations are on the "
        f"rest; begin later{' or ask for fewer' if free_count else ''}"
    )


def replanned_reservations(
    bookings: Sequence[Booking], scheduling: SchedulingState
) -> tuple[tuple[Booking, ...], tuple[BrokerEvent, ...]]:
    """Move future reservations to other slots if theirs will not be free.

    Without any, the user is notified once. For reservations that have begun, records unavailable
    slots.
    """
    kept = list(bookings)
    events = []
    available = {slot.uuid for slot in scheduling.node.slots if not (slot.trouble or slot.holders)}
    for at, booking in enumerate(bookings):
        planned = booking.reservation
        if planned.starts <= scheduling.now:
            missing = tuple(uuid for uuid in booking.uuids if uuid not in available)
            kept[at] = replace(booking, unavailable=missing)
            continue
        rest = {slot.uuid for slot in scheduling.node.slots} - set(booking.uuids)
        if scheduling.slots_at(planned.request, planned.starts, frozenset(rest)) is not None:
            kept[at] = replace(booking, is_at_risk=False)
        elif uuids := planned_slots(planned, kept, scheduling):
            weights = weights_of(uuids, scheduling.node)
            kept[at] = replace(booking, uuids=uuids, weights=weights, is_at_risk=False)
        elif not booking.is_at_risk:
            kept[at] = replace(booking, is_at_risk=True)
            events.append(_at_risk(booking, scheduling.now))
    return tuple(kept), tuple(events)


def weights_of(uuids: Sequence[str], node: NodeObservation) -> tuple[float, ...]:
    """Size of each slot in GPUs."""
    parts = {slot.uuid: slot.device.capacity_ratio for slot in node.slots}
    return tuple(parts.get(uuid, 1.0) for uuid in uuids)


def too_early(
    tickets: Sequence[Ticket], bookings: Sequence[Booking], now: Nanoseconds
) -> tuple[tuple[Ticket, str], ...]:
    """Tickets of reservations that have not begun, each with its start as a clause."""
    starts = {booking.id: booking.reservation.starts for booking in bookings}
    return tuple(
        (ticket, f"its reservation begins in {approximate_duration(start - now)}")
        for ticket in tickets
        if (start := starts.get(ticket.reservation or "", now)) > now
    )


def approximate_duration(ahead: Nanoseconds) -> str:
    """Format a time ahead in whole hours or minutes, so that messages seldom change."""
    if (ahead_seconds := seconds(ahead)) <= _MINUTE:
        return "less than a minute"
    unit = _HOUR if ahead_seconds > _HOUR else _MINUTE
    return format_duration(ceil(ahead_seconds / unit) * unit)


def _at_risk(booking: Booking, now: Nanoseconds) -> BrokerEvent:
    message = (
        f"the GPUs of reservation {booking.id} will not be free in time: work without a limit, or "
        "past it, or without a lease is on them; only its owner ends it"
    )
    return BrokerEvent(EventKind.AT_RISK, now, booking.id, booking.reservation.user, message)


def reservation_clause(
    ticket: Ticket, refusal: PlacementRefusal, scheduling: SchedulingState
) -> str:
    """Explain how reservations block a refused ticket, and the limit that would avoid them.

    Empty if none does.
    """
    kept = (
        slot_verdict
        for slot_verdict in refusal.occupied
        if slot_verdict.obstacle is SlotObstacle.RESERVED
    )
    reserved = {slot_verdict.slot.uuid for slot_verdict in kept}
    bookings = [
        booking
        for booking in scheduling.bookings
        if booking.id != ticket.reservation and reserved.intersection(booking.uuids)
    ]
    if not bookings:
        return ""
    avoidable = _short_enough(ticket, bookings, scheduling)
    booking = avoidable or min(
        bookings, key=lambda candidate: (candidate.reservation.starts, candidate.id)
    )
    starts = booking.reservation.starts
    ends = booking.reservation.ends
    count = len(reserved.intersection(booking.uuids))
    is_begun = starts <= scheduling.now
    edge = ends if is_begun else starts
    when = f"{'ends' if is_begun else 'begins'} in {approximate_duration(edge - scheduling.now)}"
    clause = (
        f"{count} {'is' if count == 1 else 'are'} kept for reservation {booking.id} of "
        f"{booking.reservation.user}, which {when}"
    )
    if avoidable is None:
        return clause
    limit = _limit_seconds(starts - scheduling.now)
    written = f"{limit // _HOUR}h" if limit >= _HOUR else f"{limit // _MINUTE}m"
    return f"{clause}; with --time-limit {written} or less it would do"


def _short_enough(
    ticket: Ticket, bookings: Sequence[Booking], scheduling: SchedulingState
) -> Booking | None:
    """Latest reservation before which a lease could end if granted now."""
    later = sorted(
        (e for e in bookings if e.reservation.starts - scheduling.now >= nanoseconds(_MINUTE)),
        key=lambda booking: (-booking.reservation.starts, booking.id),
    )
    for booking in later[:_TRIED]:
        limit = _limit_seconds(booking.reservation.starts - scheduling.now)
        if isinstance(scheduling.choice(replace(ticket, limit_seconds=limit)), PlacementChoice):
            return booking
    return None


def _limit_seconds(ahead: Nanoseconds) -> int:
    """Round down to whole hours or minutes, so that messages seldom change."""
    whole = int(seconds(ahead))
    unit = _HOUR if whole >= _HOUR else _MINUTE
    return whole // unit * unit


def with_replacement(
    state: BrokerState, record: LeaseRecord, scheduling: SchedulingState, settings: BrokerSettings
) -> BrokerTransition:
    """Notify the holder of lost slots once, and reserve replacements when available.

    The reservation covers all slots of the lease, so that the holder can restart at once; it ends
    with the first lease that uses it.
    """
    loss = record.loss
    if loss is None or state.as_of - loss.since < nanoseconds(settings.lost_grace_seconds):
        return BrokerTransition(state)
    may_keep = settings.replacement_hold_seconds > 0 and not loss.is_replaced
    booking = _replacement(record, scheduling, settings) if may_keep else None
    if loss.is_notified and booking is None:
        return BrokerTransition(state)
    lease_loss = replace(
        loss, is_notified=True, is_replaced=loss.is_replaced or booking is not None
    )
    others = (lease_record for lease_record in state.leases if lease_record.id != record.id)
    state = state.with_leases((*others, replace(record, loss=lease_loss)))
    if booking is not None:
        state = state.with_bookings((*state.bookings, booking))
    message = _message(record, lease_loss, booking, scheduling, settings)
    user = record.lease.client.user
    lease = record.lease
    event = BrokerEvent(EventKind.GPU_LOST, state.as_of, record.id, user, message, lease)
    return BrokerTransition(state, (event,))


def _replacement(
    record: LeaseRecord, scheduling: SchedulingState, settings: BrokerSettings
) -> Booking | None:
    """Reservation of slots that would serve a lease if it ended now; `None` if too few."""
    lease = record.lease
    now = scheduling.now
    booking_id = f"{lease.id}r"
    if any(booking.id == booking_id for booking in scheduling.bookings):
        return None
    until = lease.ends if lease.ends is not None and lease.ends > now else None
    bookings = (booking for booking in scheduling.bookings if booking.is_within(now, until))
    kept = frozenset(uuid for booking in bookings for uuid in booking.uuids)
    # Its own remaining slots become free once the holder ends the command.
    ended = replace(record, lease=replace(lease, ends=now + 1))
    records = tuple(
        ended if lease_record.id == lease.id else lease_record
        for lease_record in scheduling.records
    )
    slots = replace(scheduling, records=records).slots_at(lease.request, now + 1, kept)
    if slots is None:
        return None
    uuids = tuple(sorted(slots))
    ends = now + nanoseconds(settings.replacement_hold_seconds)
    reservation = Reservation(booking_id, lease.client.user, lease.request, now, ends)
    weights = weights_of(uuids, scheduling.node)
    return Booking(reservation, uuids, lease.client.uid, weights=weights, replaces=lease.id)


def _message(
    record: LeaseRecord,
    loss: LeaseLoss,
    booking: Booking | None,
    scheduling: SchedulingState,
    settings: BrokerSettings,
) -> str:
    labels = {slot.uuid: slot.label for slot in scheduling.node.slots}
    lost = " and ".join(f"{labels.get(uuid, uuid)} ({why})" for uuid, why in loss.reasons.items())
    text = f"lease {record.id} has lost {lost}"
    if booking is not None:
        kept = ", ".join(slot.label for slot in scheduling.node.slots if slot.uuid in booking.uuids)
        lasts = format_duration(settings.replacement_hold_seconds)
        return (
            f"{text}; kept for you for {lasts}: {kept}; end your command and start it again with "
            f"the same flags and --reservation {booking.id}"
        )
    if settings.replacement_hold_seconds > 0:
        return f"{text}; no other GPUs are free for it now, and you are notified when there are"
    return f"{text}; end your command and start it again to get others"
