"""Replacement of lost slots: what a lease's holder is told, and which other slots are kept."""

from rightsizer.broker.lease import BrokerEvent, EventKind, LeaseLoss, LeaseRecord, Reservation
from rightsizer.broker.reservations import weights_of
from rightsizer.broker.scheduling_state import SchedulingState
from rightsizer.broker.settings import BrokerSettings
from rightsizer.broker.state import Booking, BrokerState
from rightsizer.broker.transitions import BrokerTransition
from rightsizer.model.frozen import replace
from rightsizer.model.units import format_duration, nanoseconds


def with_replacement(
    state: BrokerState, record: LeaseRecord, scheduling: SchedulingState, settings: BrokerSettings
) -> BrokerTransition:
    """Notify the holder of lost slots once, and keep others for it as soon as there are any.

    They are a reservation of all slots that the lease asked for, so that its holder starts again
    at once and not behind those that wait; it is over with the lease that draws on it.
    """
    loss = record.loss
    if loss is None or state.as_of - loss.since < nanoseconds(settings.lost_grace_seconds):
        return BrokerTransition(state)
    may_keep = settings.replacement_hold_seconds > 0 and not loss.is_replaced
    booking = _replacement(record, scheduling, settings) if may_keep else None
    if loss.is_notified and booking is None:
        return BrokerTransition(state)
    known = replace(loss, is_notified=True, is_replaced=loss.is_replaced or booking is not None)
    others = (each for each in state.leases if each.id != record.id)
    state = state.with_leases((*others, replace(record, loss=known)))
    if booking is not None:
        state = state.with_bookings((*state.bookings, booking))
    message = _message(record, known, booking, scheduling, settings)
    user, lease = record.lease.client.user, record.lease
    event = BrokerEvent(EventKind.GPU_LOST, state.as_of, record.id, user, message, lease)
    return BrokerTransition(state, (event,))


def _replacement(
    record: LeaseRecord, scheduling: SchedulingState, settings: BrokerSettings
) -> Booking | None:
    """The reservation of the slots that would serve a lease if it ended now; `None`: too few."""
    lease, now = record.lease, scheduling.now
    booking_id = f"{lease.id}r"
    if any(each.id == booking_id for each in scheduling.bookings):
        return None
    until = lease.ends if lease.ends is not None and lease.ends > now else None
    kept = frozenset(
        uuid for each in scheduling.bookings if each.is_within(now, until) for uuid in each.uuids
    )
    # Its own slots that are left are free once its holder has ended what runs there.
    ended = replace(record, lease=replace(lease, ends=now + 1))
    records = tuple(ended if each.id == lease.id else each for each in scheduling.records)
    found = replace(scheduling, records=records).slots_at(lease.request, now + 1, kept)
    if found is None:
        return None
    uuids = tuple(sorted(found))
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
        return f"{text}; no other GPUs are free for it now, and you are told when there are"
    return f"{text}; end your command and start it again to get others"
