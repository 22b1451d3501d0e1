"""A lease as it goes on: signs of life, what it uses, what its holder was told."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from rightsizer.domain.units import Nanoseconds
from rightsizer.placement.broker_event import EventKind
from rightsizer.placement.kin import Kin
from rightsizer.placement.lease import Client, Lease
from rightsizer.placement.request import Request

__all__ = ["FoundLease", "LeaseRecord", "Sighting"]


@dataclass(frozen=True, slots=True)
class Sighting:
    """What was seen of a lease, or of whoever waits with a ticket, at one look."""

    is_alive: bool | None = None
    """Whether a process of the tree is there, or the client that waits; `None`: nobody knows."""
    is_active: bool | None = None
    """Whether anything ran on the lease's seats since the last look; `None`: nobody knows."""
    memory_bytes: Mapping[str, float] = field(default_factory=dict)
    """What its processes hold, by the seat's uuid; seats without an entry were not measured."""
    kin: Kin | None = None
    """Who belongs to the lease; `None`: nobody looked."""


@dataclass(frozen=True, slots=True)
class FoundLease:
    """A lease as its own processes carry it, for the case that the store is lost."""

    id: str
    client: Client
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
    kin: Kin = field(default_factory=Kin)
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

    def seen(self, now: Nanoseconds, sighting: Sighting) -> "LeaseRecord":
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
    def rebuilt(found: FoundLease, now: Nanoseconds) -> "LeaseRecord":
        """What can be known of a lease of which only its processes are left."""
        count = len(found.uuids)
        lease = Lease(
            id=found.id,
            client=found.client,
            request=Request(count, max(found.memory_bytes, default=None), found.is_shared),
            uuids=found.uuids,
            memory_bytes=found.memory_bytes,
            is_shared=found.is_shared,
            asked=now,
            granted=now,
            ends=found.ends,
        )
        return LeaseRecord(lease, (1.0,) * count, (None,) * count, now, now)
