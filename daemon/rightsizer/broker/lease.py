"""Values of the broker: request, ticket, lease with its record, reservation, ending, event."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from rightsizer.model.frozen import dataclass, field, replace
from rightsizer.model.units import Nanoseconds


class Interconnect(StrEnum):
    """How GPUs of one piece of work must be joined."""

    ANY = "any"
    NVLINK = "nvlink"
    """Each to each other one, directly or through a switch."""


@dataclass(frozen=True, slots=True)
class GpuRequest:
    """A number of slots, each with an amount of memory."""

    gpus: int = 1
    memory_bytes: float | None = None
    """Needed on each slot; `None`: all of it, exclusively."""
    may_share: bool = False
    """Whether other work may use the same slots, where memory and measured demand of all fit."""
    interconnect: Interconnect = Interconnect.ANY
    mig_profile: str | None = None
    """A MIG instance of this profile (`1g.10gb`); `None`: whole GPUs, or where only instances are
    left and one slot is requested, an instance that fits."""


@dataclass(frozen=True, slots=True)
class LeaseOwner:
    """The requesting process, as the kernel identifies it."""

    uid: int
    user: str
    """The uid's name, or the number where it has none."""
    pid: int
    started_ticks: int
    """Of /proc/PID/stat: identifies a process together with the pid, for pids are reused."""
    groups: tuple[str, ...] = ()
    """Those of its user's groups that may operate the broker, at the time of the request."""


@dataclass(frozen=True, slots=True)
class Ticket:
    """A place in the queue."""

    id: str
    client: LeaseOwner
    request: GpuRequest
    asked: Nanoseconds
    priority: int = 0
    """Larger goes first, within the bounds of the settings."""
    limit_seconds: float | None = None
    """Maximum duration of the lease; `None`: the longest that the settings allow."""
    reservation: str | None = None


@dataclass(frozen=True, slots=True)
class Lease:
    """Slots granted to one process tree."""

    id: str
    """That of its ticket."""
    client: LeaseOwner
    request: GpuRequest
    uuids: tuple[str, ...]
    memory_bytes: tuple[float, ...]
    """Set aside on each slot, in the order of `uuids`."""
    is_shared: bool
    """Whether others may be granted a part of the same slots."""
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
    """No process of its tree is left, and it was not given back."""
    TIME_UP = "time_up"
    """Its limit was reached: its holder is notified, and it keeps the slots while it runs."""
    REBOOTED = "rebooted"
    WITHDRAWN = "withdrawn"
    """A ticket whose client has exited, or that was canceled."""


@dataclass(frozen=True, slots=True)
class Reservation:
    """Slots kept free for a user during a period."""

    id: str
    user: str
    request: GpuRequest
    starts: Nanoseconds
    ends: Nanoseconds


@dataclass(frozen=True, slots=True)
class LeaseProcesses:
    """Processes of one lease and the sessions that they started, on the boot of its times."""

    processes: tuple[tuple[int, int], ...] = ()
    """Pid and start in ticks since boot of each, the oldest first."""
    sessions: tuple[int, ...] = ()
    """Ascending."""


@dataclass(frozen=True, slots=True)
class LeaseEnding:
    """End of a ticket or lease by another process than the one that requested it."""

    id: str
    """Of the ticket or the lease."""
    uid: int
    """Its owner's."""
    at: Nanoseconds
    message: str
    """A clause: what was ended by whom."""


def ending_by(
    by: LeaseOwner | None, owner: LeaseOwner, item_id: str, at: Nanoseconds, what: str
) -> LeaseEnding | None:
    """The ending to record; `None` where the requesting process, or the agent, ended it itself."""
    if by is None or (by.pid, by.started_ticks) == (owner.pid, owner.started_ticks):
        return None
    return LeaseEnding(item_id, owner.uid, at, f"{what} by {by.user}")


class EventKind(StrEnum):
    """What happened."""

    QUEUED = "queued"
    GRANTED = "granted"
    """A ticket became a lease. Answered only after the state was saved."""
    ENDED = "ended"
    """A lease or a ticket is over; `reason` says how."""
    REFUSED = "refused"
    """A request was rejected; nothing has changed."""
    IDLE = "idle"
    """Notice to a holder: nothing has run on the GPUs of the lease for long."""
    OVER_MEMORY = "over_memory"
    """Notice to a holder: more memory is used than was set aside, on shared slots."""
    TIME_UP = "time_up"
    """Notice to a holder: the limit is reached. The lease stays as long as its processes do."""
    GPU_LOST = "gpu_lost"
    """Notice to a holder: a GPU of the lease is gone; which other ones are kept for it."""
    RESERVED = "reserved"
    CANCELED = "canceled"
    """A reservation was canceled, or cannot be kept over a reboot."""
    RESERVATION_OVER = "reservation_over"
    AT_RISK = "at_risk"
    """Notice to the user of a reservation: the GPUs will probably not be free in time."""


HOLDER_NOTICES: Final = frozenset(
    {EventKind.IDLE, EventKind.OVER_MEMORY, EventKind.TIME_UP, EventKind.GPU_LOST}
)


@dataclass(frozen=True, slots=True)
class BrokerEvent:
    """One thing that happened."""

    kind: EventKind
    at: Nanoseconds
    """As the state's times: CLOCK_BOOTTIME."""
    id: str
    user: str
    message: str
    """One sentence for a person."""
    lease: Lease | None = None
    """The lease that was granted, has ended or is noticed."""
    reason: EndReason | None = None


@dataclass(frozen=True, slots=True)
class LeaseObservation:
    """What was observed of a lease, or of the client of a ticket; `None` is unknown."""

    is_alive: bool | None = None
    """Whether a process of the tree, or the waiting client, exists."""
    is_active: bool | None = None
    """Whether anything ran on the lease's slots since the last observation."""
    memory_bytes: Mapping[str, float] = field(default_factory=dict)
    """Memory of its processes by the slot's uuid; slots without an entry were not measured."""
    processes: LeaseProcesses | None = None
    lost: Mapping[str, str] | None = None
    """Slots that are gone by uuid, each with why."""


@dataclass(frozen=True, slots=True)
class LeaseLoss:
    """Slots of a lease that are gone: fallen off the bus, or no longer offered by the driver."""

    reasons: Mapping[str, str]
    """By uuid, never empty."""
    since: Nanoseconds
    """When the last of them was first observed to be gone."""
    is_notified: bool = False
    """Whether its holder knows of all of them."""
    is_replaced: bool = False
    """Whether other slots were kept for its holder in their place."""


def observed_loss(
    before: LeaseLoss | None, now: Nanoseconds, reasons: Mapping[str, str] | None
) -> LeaseLoss | None:
    """The loss after an observation; a further lost slot makes it a new one."""
    if reasons is None:
        return before
    if not reasons:
        return None
    if before is None or not reasons.keys() <= before.reasons.keys():
        return LeaseLoss(reasons, now)
    return replace(before, reasons=reasons)


@dataclass(frozen=True, slots=True)
class LeaseRecord:
    """One lease and what has been observed of it."""

    lease: Lease
    weights: tuple[float, ...]
    """What part of a GPU each slot is: 1, or a MIG instance's compute share."""
    totals: tuple[float | None, ...]
    """Memory of each slot in bytes; `None` is unknown."""
    first_seen: Nanoseconds | None = None
    last_active: Nanoseconds = 0
    """When something last ran on its slots; the grant, before anything did."""
    measured_bytes: tuple[float | None, ...] = ()
    """Held now on each slot; empty before the first observation."""
    peak_bytes: tuple[float, ...] = ()
    """Peak of each slot; empty before the first observation."""
    last_over_memory: Nanoseconds | None = None
    """When it was last observed to hold more than was set aside."""
    notified: frozenset[EventKind] = frozenset()
    """Notices that its holder has got, and does not get again while they hold."""
    processes: LeaseProcesses = field(default_factory=LeaseProcesses)
    loss: LeaseLoss | None = None

    @property
    def id(self) -> str:
        """The lease's."""
        return self.lease.id

    @property
    def set_aside_bytes(self) -> tuple[float, ...]:
        """Memory of each slot that is unavailable to others: set aside, or used if more."""
        return tuple(map(max, self.lease.memory_bytes, self.peak_bytes or self.lease.memory_bytes))

    @property
    def rates(self) -> Mapping[str, float]:
        """GPUs that count as used, by the uuid of each slot: of shared ones the memory's part.

        A slot that is gone does not count.
        """
        parts = zip(self.lease.uuids, self.weights, self.totals, self.set_aside_bytes, strict=True)
        lost = self.lost
        return {
            uuid: weight * (min(1.0, taken / total) if self.lease.is_shared and total else 1.0)
            for uuid, weight, total, taken in parts
            if uuid not in lost
        }

    @property
    def notices(self) -> frozenset[EventKind]:
        """What its holder was told and still holds."""
        is_lost = self.loss is not None and self.loss.is_notified
        return self.notified | ({EventKind.GPU_LOST} if is_lost else set())

    @property
    def lost(self) -> Mapping[str, str]:
        """Its slots that are gone by uuid, each with why."""
        return {} if self.loss is None else self.loss.reasons

    @property
    def is_over_memory(self) -> bool:
        """Whether it holds more than was set aside on a shared slot."""
        return self.lease.is_shared and any(
            measured is not None and measured > budget
            for measured, budget in zip(self.measured_bytes, self.lease.memory_bytes, strict=False)
        )

    def is_overdue(self, now: Nanoseconds) -> bool:
        """Whether its time is up."""
        return self.lease.ends is not None and self.lease.ends <= now

    def measured_on(self, uuid: str) -> float:
        """Bytes measured of it on a slot; 0 where nothing was."""
        return dict(zip(self.lease.uuids, self.measured_bytes, strict=False)).get(uuid) or 0.0

    def set_aside_on(self, uuid: str) -> float:
        """Bytes of a slot that are unavailable to others; 0 on slots of other leases."""
        return dict(zip(self.lease.uuids, self.set_aside_bytes, strict=True)).get(uuid, 0.0)

    def observed(self, now: Nanoseconds, observation: LeaseObservation) -> "LeaseRecord":
        """The record after an observation; what could not be measured stays as it was."""
        uuids, held = self.lease.uuids, observation.memory_bytes
        measured, peaks = self.measured_bytes, self.peak_bytes
        if held:
            measured = tuple(map(held.get, uuids, measured or (None,) * len(uuids)))
            peaks = tuple(
                max(now_held or 0.0, peak)
                for now_held, peak in zip(measured, peaks or (0.0,) * len(uuids), strict=True)
            )
        is_first = observation.is_alive and self.first_seen is None
        return replace(
            self,
            first_seen=now if is_first else self.first_seen,
            # An unknown activity does not count as idle.
            last_active=self.last_active if observation.is_active is False else now,
            measured_bytes=measured,
            peak_bytes=peaks,
            processes=observation.processes or self.processes,
            loss=observed_loss(self.loss, now, observation.lost),
        )
