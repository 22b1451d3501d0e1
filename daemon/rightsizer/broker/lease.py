"""Values of the broker: request, ticket, lease with its record, reservation, ending, event."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from rightsizer.model.units import Nanoseconds


class Interconnect(StrEnum):
    """How GPUs of one piece of work must be joined."""

    ANY = "any"
    NVLINK = "nvlink"
    """Each to each other one, directly or through a switch."""


@dataclass(frozen=True, slots=True)
class GpuRequest:
    """So many seats, each with so much memory."""

    gpus: int = 1
    memory_bytes: float | None = None
    """Needed on each seat; `None`: all of it, for the work alone."""
    may_share: bool = False
    """Whether other work may be on the same seats, where memory and measured needs of all fit."""
    interconnect: Interconnect = Interconnect.ANY
    mig_profile: str | None = None
    """A MIG instance of this profile (`1g.10gb`); `None`: whole GPUs, or where only instances are
    left and one seat is asked for, an instance that fits."""


@dataclass(frozen=True, slots=True)
class LeaseOwner:
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
    client: LeaseOwner
    request: GpuRequest
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
    client: LeaseOwner
    request: GpuRequest
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
    request: GpuRequest
    starts: Nanoseconds
    ends: Nanoseconds


@dataclass(frozen=True, slots=True)
class LeaseProcesses:
    """Processes of one lease and the sessions that they began; of the boot of the lease's times."""

    processes: tuple[tuple[int, int], ...] = ()
    """Pid and start in ticks since boot of each, the oldest first; together they name a process
    for good."""
    sessions: tuple[int, ...] = ()
    """Ascending."""


@dataclass(frozen=True, slots=True)
class LeaseEnding:
    """An end that somebody else than the process that had asked has brought about."""

    id: str
    """Of the ticket or the lease."""
    uid: int
    """Whose it was."""
    at: Nanoseconds
    message: str
    """A clause for a person: what was ended by whom."""


def ending_by(
    by: LeaseOwner | None, owner: LeaseOwner, item_id: str, at: Nanoseconds, what: str
) -> LeaseEnding | None:
    """What is remembered of an end; `None` where the process that had asked knows of it itself.

    Args:
        by: Who has ended it; `None`: the agent, which saw that its process is gone.
        owner: The process that had asked.
        item_id: Of the ticket or the lease.
        at: When.
        what: Was done, as `ticket 1a was withdrawn`.
    """
    if by is None or (by.pid, by.started_ticks) == (owner.pid, owner.started_ticks):
        return None
    return LeaseEnding(item_id, owner.uid, at, f"{what} by {by.user}")


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


@dataclass(frozen=True, slots=True)
class LeaseObservation:
    """What was seen of a lease, or of whoever waits with a ticket, at one look."""

    is_alive: bool | None = None
    """Whether a process of the tree is there, or the client that waits; `None`: nobody knows."""
    is_active: bool | None = None
    """Whether anything ran on the lease's seats since the last look; `None`: nobody knows."""
    memory_bytes: Mapping[str, float] = field(default_factory=dict)
    """What its processes hold, by the seat's uuid; seats without an entry were not measured."""
    kin: LeaseProcesses | None = None
    """Who belongs to the lease; `None`: nobody looked."""


@dataclass(frozen=True, slots=True)
class RecoveredLease:
    """A lease as its own processes carry it, for the case that the store is lost."""

    id: str
    client: LeaseOwner
    """The oldest process that carries it."""
    uuids: tuple[str, ...]
    memory_bytes: tuple[float, ...]
    is_shared: bool
    ends: Nanoseconds | None = None


@dataclass(frozen=True, slots=True)
class LeaseRecord:
    """One lease and what is known of it by now."""

    lease: Lease
    weights: tuple[float, ...]
    """What part of a GPU each seat is: 1, or a MIG instance's compute share."""
    totals: tuple[float | None, ...]
    """Memory of each seat in bytes; `None` where nobody knows."""
    first_seen: Nanoseconds | None = None
    """The first sign of life; `None` before."""
    last_active: Nanoseconds = 0
    """When something last ran on its seats; the grant, before anything did."""
    measured_bytes: tuple[float | None, ...] = ()
    """Held now on each seat; empty before anybody looked."""
    peak_bytes: tuple[float, ...] = ()
    """The most that was ever held on each seat; empty before anybody looked."""
    last_over_memory: Nanoseconds | None = None
    """When it was last seen to hold more than was set aside; `None`: never."""
    told: frozenset[EventKind] = frozenset()
    """What its holder knows, and is not told again as long as it holds."""
    kin: LeaseProcesses = field(default_factory=LeaseProcesses)
    """Who was last seen to belong to it; nobody before anybody looked."""

    @property
    def id(self) -> str:
        """The lease's."""
        return self.lease.id

    @property
    def set_aside_bytes(self) -> tuple[float, ...]:
        """What nobody else can have on each seat: set aside, or used where that is more."""
        return tuple(map(max, self.lease.memory_bytes, self.peak_bytes or self.lease.memory_bytes))

    @property
    def rate(self) -> float:
        """GPUs that count as used: of shared ones the part of the memory."""
        return sum(self.rates.values())

    @property
    def rates(self) -> Mapping[str, float]:
        """`rate` by the uuid of each seat."""
        parts = zip(self.lease.uuids, self.weights, self.totals, self.set_aside_bytes, strict=True)
        return {
            uuid: weight * (min(1.0, taken / total) if self.lease.is_shared and total else 1.0)
            for uuid, weight, total, taken in parts
        }

    @property
    def is_over_memory(self) -> bool:
        """Whether it holds more than was set aside on a seat that others may have a part of."""
        return self.lease.is_shared and any(
            measured is not None and measured > budget
            for measured, budget in zip(self.measured_bytes, self.lease.memory_bytes, strict=False)
        )

    def is_overdue(self, now: Nanoseconds) -> bool:
        """Whether its time is up."""
        return self.lease.ends is not None and self.lease.ends <= now

    def measured_on(self, uuid: str) -> float:
        """Bytes that are known to be its own on a seat; 0 where nothing was measured."""
        if not self.measured_bytes or uuid not in self.lease.uuids:
            return 0.0
        return self.measured_bytes[self.lease.uuids.index(uuid)] or 0.0

    def set_aside_on(self, uuid: str) -> float:
        """What nobody else can have on a seat, in bytes; 0 on those of others."""
        if uuid not in self.lease.uuids:
            return 0.0
        return self.set_aside_bytes[self.lease.uuids.index(uuid)]

    def seen(self, now: Nanoseconds, sighting: LeaseObservation) -> "LeaseRecord":
        """The record after a look; what could not be measured stays as it was."""
        uuids = self.lease.uuids
        before = self.measured_bytes or (None,) * len(uuids)
        measured = tuple(
            sighting.memory_bytes.get(uuid, old) for uuid, old in zip(uuids, before, strict=True)
        )
        peaks = self.peak_bytes or (0.0,) * len(uuids)
        is_first = sighting.is_alive and self.first_seen is None
        return replace(
            self,
            first_seen=now if is_first else self.first_seen,
            # What nobody saw is not idle.
            last_active=self.last_active if sighting.is_active is False else now,
            measured_bytes=measured if sighting.memory_bytes else self.measured_bytes,
            peak_bytes=tuple(max(one or 0.0, two) for one, two in zip(measured, peaks, strict=True))
            if sighting.memory_bytes
            else self.peak_bytes,
            kin=self.kin if sighting.kin is None else sighting.kin,
        )

    def knows(self, kind: EventKind, *, holds: bool) -> "LeaseRecord":
        """The record after its holder was told, or after what he was told ceased to hold."""
        return replace(self, told=self.told | {kind} if holds else self.told - {kind})

    @staticmethod
    def rebuilt(found: RecoveredLease, now: Nanoseconds) -> "LeaseRecord":
        """What can be known of a lease of which only its processes are left."""
        count = len(found.uuids)
        lease = Lease(
            id=found.id,
            client=found.client,
            request=GpuRequest(count, max(found.memory_bytes, default=None), found.is_shared),
            uuids=found.uuids,
            memory_bytes=found.memory_bytes,
            is_shared=found.is_shared,
            asked=now,
            granted=now,
            ends=found.ends,
        )
        return LeaseRecord(lease, (1.0,) * count, (None,) * count, now, now)
