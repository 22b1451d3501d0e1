"""What the broker did or saw, for those whom it concerns."""

from dataclasses import dataclass
from enum import StrEnum

from rightsizer.domain.units import Nanoseconds
from rightsizer.placement.lease import EndReason, Lease

__all__ = ["BrokerEvent", "EventKind"]


class EventKind(StrEnum):
    """What happened."""

    QUEUED = "queued"
    """A ticket was taken."""
    GRANTED = "granted"
    """A ticket became a lease. To be answered only after the state was saved."""
    ENDED = "ended"
    """A lease or a ticket is over; `reason` says how."""
    REFUSED = "refused"
    """What was asked cannot be; nothing has changed."""
    IDLE = "idle"
    """Told to a holder: nothing has run on the GPUs of the lease for long."""
    OVER_MEMORY = "over_memory"
    """Told to a holder: more memory is used than was set aside, on seats that others share."""
    TIME_UP = "time_up"
    """Told to a holder: the limit is reached. The lease stays as long as its processes do."""
    RESERVED = "reserved"
    CANCELED = "canceled"
    """A reservation was taken back, or cannot be kept over a reboot."""
    RESERVATION_OVER = "reservation_over"
    AT_RISK = "at_risk"
    """Told to whoever reserved: by what is known now, the GPUs will not be free in time."""


@dataclass(frozen=True, slots=True)
class BrokerEvent:
    """One thing that happened."""

    kind: EventKind
    at: Nanoseconds
    """As the state's times: CLOCK_BOOTTIME."""
    id: str
    """Of the ticket, the lease or the reservation."""
    user: str
    """Whom it concerns."""
    message: str
    """One sentence for a person."""
    lease: Lease | None = None
    """The lease that was granted, has ended or is told of; `None` for others."""
    reason: EndReason | None = None
    """Of an end."""
