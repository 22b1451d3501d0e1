"""Values of the broker: requests, tickets, leases, reservations, endings, events."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from rightsizer.model.units import Nanoseconds


class Interconnect(StrEnum):
    """Required connection between the GPUs of one request."""

    ANY = "any"
    NVLINK = "nvlink"
    """All pairs connected, directly or through a switch."""


class GpuRequest(Struct, frozen=True):
    """Number of slots, each with an amount of memory."""

    gpus: int = 1
    memory_bytes: float | None = None
    """Required on each slot; `None` for all of it, exclusively."""
    may_share: bool = False
    """Whether others may use the same slots if memory and measured demand of all fit."""
    interconnect: Interconnect = Interconnect.ANY
    mig_profile: str | None = None
    """Profile of the MIG instances (`1g.10gb`); `None` for whole GPUs, or for a single slot also a
    fitting instance if only instances are left."""


class LeaseOwner(Struct, frozen=True):
    """Requesting process, as identified by the kernel."""

    uid: int
    user: str
    """Name of the uid, or its number if it has none."""
    pid: int
    started_ticks: int
    """From /proc/PID/stat: identifies a process together with its pid, which may be reused."""
    groups: tuple[str, ...] = ()
    """Groups of the user that may operate the broker, at the time of the request."""


class Ticket(Struct, frozen=True):
    """Position in the queue."""

    id: str
    client: LeaseOwner
    request: GpuRequest
    asked: Nanoseconds
    priority: int = 0
    """Higher is served first, within the bounds of the settings."""
    limit_seconds: float | None = None
    """Maximum duration of the lease; `None` for the maximum of the settings."""
    reservation: str | None = None


class Lease(Struct, frozen=True):
    """Slots granted to one process tree."""

    id: str
    """Same as its ticket's."""
    client: LeaseOwner
    request: GpuRequest
    uuids: tuple[str, ...]
    memory_bytes: tuple[float, ...]
    """Reserved on each slot, in the order of `uuids`."""
    is_shared: bool
    """Whether others may be granted a part of the same slots."""
    asked: Nanoseconds
    granted: Nanoseconds
    ends: Nanoseconds | None
    """End of its time limit; `None` without one."""
    priority: int = 0
    reservation: str | None = None


class EndReason(StrEnum):
    """Reason why a lease or a ticket ended."""

    GIVEN_BACK = "given_back"
    DIED = "died"
    """No process of its tree is left, and it was not returned."""
    TIME_UP = "time_up"
    """Time limit reached: the holder is notified, and keeps the slots while its processes run."""
    REBOOTED = "rebooted"
    WITHDRAWN = "withdrawn"
    """Ticket that was canceled, or whose client exited."""


class Reservation(Struct, frozen=True):
    """Slots kept free for a user during a period."""

    id: str
    user: str
    request: GpuRequest
    starts: Nanoseconds
    ends: Nanoseconds


class LeaseProcesses(Struct, frozen=True):
    """Processes of a lease and their sessions, on the boot of its times."""

    processes: tuple[tuple[int, int], ...] = ()
    """Pid and start in ticks since boot of each, oldest first."""
    sessions: tuple[int, ...] = ()
    """Ascending."""


class LeaseEnding(Struct, frozen=True):
    """End of a ticket or lease by another process than the requesting one."""

    id: str
    """Id of the ticket or lease."""
    uid: int
    """Owner's uid."""
    at: Nanoseconds
    message: str
    """Clause: what was ended by whom."""


def ending_by(
    by: LeaseOwner | None, owner: LeaseOwner, item_id: str, at: Nanoseconds, what: str
) -> LeaseEnding | None:
    """Ending to record; `None` if the requesting process or the agent ended it."""
    if by is None or (by.pid, by.started_ticks) == (owner.pid, owner.started_ticks):
        return None
    return LeaseEnding(item_id, owner.uid, at, f"{what} by {by.user}")


class EventKind(StrEnum):
    """Kind of a broker event."""

    QUEUED = "queued"
    GRANTED = "granted"
    """A ticket became a lease; answered only after the state is saved."""
    ENDED = "ended"
    """A lease or ticket ended; see `reason`."""
    REFUSED = "refused"
    """A request was rejected without any change."""
    IDLE = "idle"
    """Notice to a holder: the GPUs of the lease have been idle for long."""
    OVER_MEMORY = "over_memory"
    """Notice to a holder: more memory in use than reserved, on shared slots."""
    TIME_UP = "time_up"
    """Notice to a holder: time limit reached. The lease lasts as long as its processes."""
    GPU_LOST = "gpu_lost"
    """Notice to a holder: a GPU of the lease is lost; names the replacements, if any."""
    RESERVED = "reserved"
    CANCELED = "canceled"
    """A reservation was canceled, or cannot be kept over a reboot."""
    RESERVATION_OVER = "reservation_over"
    AT_RISK = "at_risk"
    """Notice to the user of a reservation: the GPUs will probably not be free in time."""


HOLDER_NOTICES: Final = frozenset(
    {EventKind.IDLE, EventKind.OVER_MEMORY, EventKind.TIME_UP, EventKind.GPU_LOST}
)


class BrokerEvent(Struct, frozen=True):
    """Event of the broker."""

    kind: EventKind
    at: Nanoseconds
    """CLOCK_BOOTTIME, as the state's times."""
    id: str
    user: str
    message: str
    """One sentence for display."""
    lease: Lease | None = None
    """Lease that was granted, has ended or is subject of the notice."""
    reason: EndReason | None = None


class LeaseObservation(Struct, frozen=True):
    """Observation of a lease, or of the client of a ticket; `None` is unknown."""

    is_alive: bool | None = None
    """Whether a process of the tree, or the waiting client, exists."""
    is_active: bool | None = None
    """Whether anything ran on the lease's slots since the last observation."""
    memory_bytes: Mapping[str, float] = {}
    """Memory of its processes by slot uuid; missing slots were not measured."""
    processes: LeaseProcesses | None = None
    lost: Mapping[str, str] | None = None
    """Reasons of lost slots by uuid."""


class LeaseLoss(Struct, frozen=True):
    """Lost slots of a lease: off the bus, or no longer listed by the driver."""

    reasons: Mapping[str, str]
    """By uuid, never empty."""
    since: Nanoseconds
    """Time when the last of them was first seen as lost."""
    is_notified: bool = False
    """Whether the holder was notified of all of them."""
    is_replaced: bool = False
    """Whether replacement slots were reserved for the holder."""


def observed_loss(
    before: LeaseLoss | None, now: Nanoseconds, reasons: Mapping[str, str] | None
) -> LeaseLoss | None:
    """Update the loss by an observation; another lost slot makes it a new one."""
    if reasons is None:
        return before
    if not reasons:
        return None
    if before is None or not reasons.keys() <= before.reasons.keys():
        return LeaseLoss(reasons, now)
    return replace(before, reasons=reasons)


class LeaseRecord(Struct, frozen=True, rename={"processes": "kin", "notified": "told"}):
    """Lease with its observations."""

    lease: Lease
    weights: tuple[float, ...]
    """Size of each slot in GPUs: 1, or the compute share of a MIG instance."""
    totals: tuple[float | None, ...]
    """Memory of each slot in bytes; `None` is unknown."""
    first_seen: Nanoseconds | None = None
    last_active: Nanoseconds = 0
    """Last activity on its slots; initially the time of the grant."""
    measured_bytes: tuple[float | None, ...] = ()
    """Memory in use on each slot; empty before the first observation."""
    peak_bytes: tuple[float, ...] = ()
    """Peak memory of each slot; empty before the first observation."""
    last_over_memory: Nanoseconds | None = None
    """Last time that it used more than reserved."""
    notified: frozenset[EventKind] = frozenset()
    """Notices already sent, which are not repeated while they hold."""
    processes: LeaseProcesses = LeaseProcesses()
    loss: LeaseLoss | None = None

    @property
    def id(self) -> str:
        """Id of the lease."""
        return self.lease.id

    @property
    def set_aside_bytes(self) -> tuple[float, ...]:
        """Memory of each slot unavailable to others: reserved, or used if more."""
        return tuple(map(max, self.lease.memory_bytes, self.peak_bytes or self.lease.memory_bytes))

    @property
    def rates(self) -> Mapping[str, float]:
        """Charged GPUs by slot uuid; shared slots count by their share of memory.

        Lost slots do not count.
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
        """Notices sent that still hold."""
        is_lost = self.loss is not None and self.loss.is_notified
        return self.notified | ({EventKind.GPU_LOST} if is_lost else set())

    @property
    def lost(self) -> Mapping[str, str]:
        """Reasons of its lost slots by uuid."""
        return {} if self.loss is None else self.loss.reasons

    @property
    def is_over_memory(self) -> bool:
        """Whether it uses more than reserved on a shared slot."""
        return self.lease.is_shared and any(
            measured is not None and measured > budget
            for measured, budget in zip(self.measured_bytes, self.lease.memory_bytes, strict=False)
        )

    def is_overdue(self, now: Nanoseconds) -> bool:
        """Whether its time limit is reached."""
        return self.lease.ends is not None and self.lease.ends <= now

    def measured_on(self, uuid: str) -> float:
        """Its measured memory on a slot in bytes; 0 if not measured."""
        return dict(zip(self.lease.uuids, self.measured_bytes, strict=False)).get(uuid) or 0.0

    def set_aside_on(self, uuid: str) -> float:
        """Memory of a slot unavailable to others, in bytes; 0 on slots of other leases."""
        return dict(zip(self.lease.uuids, self.set_aside_bytes, strict=True)).get(uuid, 0.0)

    def observed(self, now: Nanoseconds, observation: LeaseObservation) -> "LeaseRecord":
        """Update by an observation; unmeasured values stay."""
        uuids = self.lease.uuids
        held = observation.memory_bytes
        measured = self.measured_bytes
        peaks = self.peak_bytes
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
            # Unknown activity does not count as idle.
            last_active=self.last_active if observation.is_active is False else now,
            measured_bytes=measured,
            peak_bytes=peaks,
            processes=observation.processes or self.processes,
            loss=observed_loss(self.loss, now, observation.lost),
        )
