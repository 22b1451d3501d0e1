"""What becomes of a lease by what is seen of it, and what its holder has to be told."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from rightsizer.domain.units import (
    NANOSECONDS_PER_SECOND,
    Nanoseconds,
    format_duration,
    nanoseconds,
    seconds,
)
from rightsizer.placement.broker_event import BrokerEvent, EventKind
from rightsizer.placement.broker_settings import BrokerSettings
from rightsizer.placement.lease import EndReason
from rightsizer.placement.lease_record import LeaseRecord, Sighting

__all__ = ["ended", "is_dead", "told"]

_GIBIBYTE: Final = 1 << 30


def is_dead(
    record: LeaseRecord, sighting: Sighting, now: Nanoseconds, settings: BrokerSettings
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


def told(
    record: LeaseRecord, now: Nanoseconds, settings: BrokerSettings
) -> tuple[LeaseRecord, tuple[BrokerEvent, ...]]:
    """A lease and what its holder is told anew; what ceases to hold may be told again later."""
    events: list[BrokerEvent] = []
    if record.is_over_memory:
        record = replace(record, last_over_memory=now)
    for kind, message in _tellings(record, now, settings).items():
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


def _tellings(
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
