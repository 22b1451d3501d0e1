"""Who was given which seats, who waits, and what is kept free for later.

All times are nanoseconds of a clock that never steps and counts suspended time (CLOCK_BOOTTIME);
`runtime/broker` carries them over a restart of the agent, and of the machine.
"""

from dataclasses import dataclass
from enum import StrEnum

from rightsizer.domain.units import Nanoseconds
from rightsizer.placement.request import Request

__all__ = ["Client", "EndReason", "Lease", "Reservation", "Ticket"]


@dataclass(frozen=True, slots=True)
class Client:
    """The process that asked, as the kernel told: nothing of it is what it says of itself."""

    uid: int
    user: str
    """The uid's name, or the number where it has none."""
    pid: int
    started_ticks: int
    """Of /proc/PID/stat: with the pid, a process's identity, for pids are used again."""
    groups: tuple[str, ...] = ()
    """Of its user's groups those that may operate the broker, as it asked."""


@dataclass(frozen=True, slots=True)
class Ticket:
    """A place in the queue."""

    id: str
    client: Client
    request: Request
    asked: Nanoseconds
    priority: int = 0
    """Larger goes first; the settings bound what whom may ask for."""
    limit_seconds: float | None = None
    """How long the lease will last at most; `None`: the longest that the settings allow."""
    reservation: str | None = None
    """The id of the reservation that it draws on."""


@dataclass(frozen=True, slots=True)
class Lease:
    """Seats given to one process tree."""

    id: str
    """That of its ticket."""
    client: Client
    request: Request
    uuids: tuple[str, ...]
    memory_bytes: tuple[float, ...]
    """Set aside on each seat, in the order of `uuids`."""
    is_shared: bool
    """Whether others may be given a part of the same seats."""
    asked: Nanoseconds
    granted: Nanoseconds
    ends: Nanoseconds | None
    """When its time is up; `None` without a limit."""
    priority: int = 0
    reservation: str | None = None


class EndReason(StrEnum):
    """How a lease or a ticket ended."""

    GIVEN_BACK = "given_back"
    DIED = "died"
    """No process of its tree is left, and nobody gave it back."""
    TIME_UP = "time_up"
    """Its limit was reached: told, and the seats are not given to others while it runs on."""
    REBOOTED = "rebooted"
    WITHDRAWN = "withdrawn"
    """A ticket whose client is gone, or that was taken back."""


@dataclass(frozen=True, slots=True)
class Reservation:
    """Seats kept free for a user from some time on."""

    id: str
    user: str
    request: Request
    starts: Nanoseconds
    ends: Nanoseconds
