"""Slot: a GPU or MIG instance that can be granted, and the verdict on it for a request."""

from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Final

from msgspec import Struct

from rightsizer.broker.lease import GpuRequest, Lease
from rightsizer.broker.settings import FreeSettings
from rightsizer.model.values import (
    ACTIVE_STATES,
    GIB,
    Condition,
    Device,
    Placement,
    Resource,
    State,
    format_duration,
    percent_text,
)

_DIVIDED: Final = "divided into MIG instances; ask for one of those by its profile"
_NO_INSTANCE: Final = (
    "in MIG mode without an instance, so that nothing can run on it; make one, or turn the mode off"
)


class SlotHolder(Struct, frozen=True):
    """Workload without a lease that has processes or an allocation on a slot."""

    name: str
    """Name of the workload, or of a process."""
    has_process: bool
    """Whether it has a process there; a scheduler's allocation may be unused."""


class LeaseSlot(Struct, frozen=True):
    """Device with the data that placement needs; unknown values are `None`, never 0."""

    device: Device
    placement: Placement | None = None
    state: State = State.UNKNOWN
    conditions: frozenset[Condition] = frozenset()
    trouble: str | None = None
    """Reason why it is unusable (down, lost, broken memory), or `None`."""
    holders: tuple[SlotHolder, ...] = ()
    memory_used_bytes: float | None = None
    """Including the driver's own part."""
    power_headroom_watts: float | None = None
    """Below its limit."""
    temperature_headroom_celsius: float | None = None
    """Below the hardware's slowdown temperature."""
    idle_seconds: float | None = None
    """Minimum time for which it has been idle."""
    demand: Mapping[Resource, float] = {}
    """Measured demand of its workloads, relative to the whole device; entries are missing if the
    measurement was too short."""

    @property
    def uuid(self) -> str:
        """Uuid of the device."""
        return self.device.uuid

    @property
    def label(self) -> str:
        """Display name: `GPU 3`, `MIG 3:7 (1g.10gb)`."""
        return self.device.label

    @property
    def numa_node(self) -> int | None:
        """NUMA node by its PCIe bus, or else by the driver."""
        numa_node = None if self.placement is None else self.placement.numa_node
        return self.device.numa_node if numa_node is None else numa_node

    @property
    def cpus(self) -> tuple[int, ...]:
        """Local CPUs; empty if unknown."""
        return () if self.placement is None else self.placement.cpus


class SlotObstacle(StrEnum):
    """Reason why a slot cannot be granted; stable names for programs."""

    DIVIDED = "divided"
    """Divided into MIG instances."""
    PROFILE = "profile"
    """Not the requested MIG profile."""
    DOWN = "down"
    """Not responding, suspended, released, or faulty hardware."""
    UNHEALTHY = "unhealthy"
    RESERVED = "reserved"
    MEMORY = "memory"
    """Too little, or unknown."""
    LEASED = "leased"
    HELD = "held"
    HELD_IDLE = "held_idle"
    ALLOCATED = "allocated"
    """Allocated by a scheduler, without a process."""
    BUSY = "busy"
    UNKNOWN = "unknown"
    NEEDS = "needs"
    """Its workloads demand too much, or were not measured for long enough."""


class SlotVerdict(Struct, frozen=True):
    """Verdict on a slot for a request."""

    slot: LeaseSlot
    obstacle: SlotObstacle | None = None
    """`None` if it can be granted."""
    why: str = ""
    """Clause about the obstacle: `held by train-llm`."""
    is_certain: bool = True
    """Whether its state was measured; otherwise it only looks empty."""
    is_shared: bool = False
    """Whether other workloads are on it."""
    memory_left_bytes: float | None = None
    """Available to the request; `None` if unknown or nothing."""

    @property
    def is_free(self) -> bool:
        """Whether there is no obstacle."""
        return self.obstacle is None


_Found = tuple[SlotObstacle, str] | None
_Obstacles = Iterator[tuple[SlotObstacle, str]]


def judge_slot(
    slot: LeaseSlot,
    request: GpuRequest,
    settings: FreeSettings,
    leases: Sequence[Lease] = (),
    *,
    is_reserved: bool = False,
) -> SlotVerdict:
    """Judge whether a slot can be granted to a request now.

    The slot must have no holders that belong to a lease. Of the number of GPUs, only whether it is
    one matters. `is_reserved` means that the slot is kept free for others.
    """
    is_joined = leases or (slot.holders and request.may_share)
    obstacle = next(_obstacles(slot, request, is_reserved=is_reserved), None)
    if obstacle is None and is_joined:
        return _beside(slot, request, settings, leases)
    if (obstacle := obstacle or _taken(slot, settings)) is not None:
        return SlotVerdict(slot, *obstacle)
    total = slot.device.memory_total_bytes
    left = None if total is None else max(0.0, total - (slot.memory_used_bytes or 0.0))
    if request.memory_bytes is not None and (left is None or left < request.memory_bytes):
        return SlotVerdict(slot, SlotObstacle.MEMORY, _too_little(left, request.memory_bytes))
    return SlotVerdict(slot, is_certain=slot.state is not State.UNKNOWN, memory_left_bytes=left)


def set_aside_bytes(uuid: str, leases: Sequence[Lease]) -> float:
    """Memory reserved on a slot by all leases."""
    return sum(
        amount
        for lease in leases
        for slot_uuid, amount in zip(lease.uuids, lease.memory_bytes, strict=True)
        if slot_uuid == uuid
    )


def _wrong_kind(slot: LeaseSlot, request: GpuRequest) -> _Obstacles:
    mig = slot.device.mig
    profile = request.mig_profile
    if slot.device.has_mig_instances:
        yield SlotObstacle.DIVIDED, _DIVIDED
    if slot.device.awaits_mig_instances:
        yield SlotObstacle.DIVIDED, _NO_INSTANCE
    if profile is not None and mig is None:
        yield SlotObstacle.PROFILE, f"a whole GPU, not a MIG instance {profile}"
    if mig is not None and profile is None and request.gpus > 1:
        yield SlotObstacle.PROFILE, "a MIG instance, which cannot work with other GPUs as one"
    if mig is not None and profile is not None and mig.profile.lower() != profile.lower():
        yield SlotObstacle.PROFILE, f"a MIG instance {mig.profile}, not {profile}"


def _obstacles(slot: LeaseSlot, request: GpuRequest, *, is_reserved: bool) -> _Obstacles:
    yield from _wrong_kind(slot, request)
    if slot.trouble is not None:
        yield SlotObstacle.DOWN, slot.trouble
    if Condition.HARDWARE_SLOWDOWN in slot.conditions:
        # Slowed by heat, power brake or a fault, even when idle.
        yield SlotObstacle.UNHEALTHY, "the hardware slows its own clocks down"
    if is_reserved:
        yield SlotObstacle.RESERVED, "reserved for another user"
    wanted = request.memory_bytes
    total = slot.device.memory_total_bytes
    if wanted is not None and total is None:
        yield SlotObstacle.MEMORY, "how much memory it has is unknown"
    if wanted is not None and total is not None and total < wanted:
        why = f"has {_size(total)} of memory in all, {_size(wanted)} are asked"
        yield SlotObstacle.MEMORY, why


def _taken(slot: LeaseSlot, settings: FreeSettings) -> _Found:
    if slot.holders:
        return _held(slot)
    if slot.state in ACTIVE_STATES:
        return SlotObstacle.BUSY, f"at work ({slot.state}), and no process of it is known"
    if slot.state is State.IDLE_HELD:
        return SlotObstacle.HELD_IDLE, f"its memory is held by an unknown process{_idle(slot)}"
    if slot.state is State.IDLE_EMPTY:
        return None
    used = slot.memory_used_bytes
    total = slot.device.memory_total_bytes or 0.0
    if used is None:
        return SlotObstacle.UNKNOWN, "neither its state nor its use of memory is known"
    limit_bytes = max(settings.empty_memory_bytes, settings.empty_memory_ratio * total)
    if used >= limit_bytes:
        return SlotObstacle.HELD, f"{_size(used)} of its memory are in use by an unknown process"
    return None


def _held(slot: LeaseSlot) -> tuple[SlotObstacle, str]:
    names = " and ".join(dict.fromkeys(holder.name for holder in slot.holders))
    if not any(holder.has_process for holder in slot.holders):
        return SlotObstacle.ALLOCATED, f"given to {names} by a scheduler, with no process on it"
    if slot.state in (State.IDLE_HELD, State.IDLE_EMPTY):
        return SlotObstacle.HELD_IDLE, f"held by {names}{_idle(slot)}; could be reclaimed from it"
    return SlotObstacle.HELD, f"held by {names}"


def _idle(slot: LeaseSlot) -> str:
    if slot.idle_seconds is None or slot.idle_seconds < 1:
        return " and idle"
    return f" and idle for {format_duration(slot.idle_seconds)}"


def _beside(
    slot: LeaseSlot, request: GpuRequest, settings: FreeSettings, leases: Sequence[Lease]
) -> SlotVerdict:
    alone = next((lease for lease in leases if not lease.is_shared), None)
    if leases and (alone is not None or not request.may_share):
        lease = alone or leases[0]
        return SlotVerdict(slot, SlotObstacle.LEASED, f"leased ({lease.id})")
    if any(not holder.has_process for holder in slot.holders):
        return SlotVerdict(slot, *_held(slot))
    if request.memory_bytes is None:
        why = "others are on it, and how much memory is needed was not said"
        return SlotVerdict(slot, SlotObstacle.MEMORY, why)
    if (left := _left_beside(slot, settings, leases)) is None or left < request.memory_bytes:
        return SlotVerdict(slot, SlotObstacle.MEMORY, _too_little(left, request.memory_bytes))
    if (obstacle := _over_demand(slot, settings)) is not None:
        return SlotVerdict(slot, *obstacle)
    return SlotVerdict(slot, is_shared=True, memory_left_bytes=left)


def _left_beside(slot: LeaseSlot, settings: FreeSettings, leases: Sequence[Lease]) -> float | None:
    """Memory beyond reserved or used memory and the safety reserve."""
    total = slot.device.memory_total_bytes
    used = slot.memory_used_bytes
    if total is None or used is None:
        return None
    aside = set_aside_bytes(slot.uuid, leases)
    # The owner of used memory is unknown: with other holders it may all be theirs.
    taken = aside + used if slot.holders else max(aside, used)
    return max(0.0, total - taken - settings.shared_memory_reserve_bytes)


def _over_demand(slot: LeaseSlot, settings: FreeSettings) -> _Found:
    for resource, limit, name in (
        (Resource.COMPUTE, settings.shared_compute_ratio, "compute"),
        (Resource.MEMORY_BANDWIDTH, settings.shared_bandwidth_ratio, "memory bandwidth"),
    ):
        if (demand := slot.demand.get(resource)) is None:
            return SlotObstacle.NEEDS, f"what is on it was not measured long enough for {name}"
        if demand > limit:
            return SlotObstacle.NEEDS, f"what is on it needs {percent_text(demand)} of its {name}"
    return None


def _too_little(left: float | None, wanted: float) -> str:
    if left is None:
        return f"how much memory is left is unknown, and {_size(wanted)} are asked for"
    return f"has {_size(left)} of memory left, and {_size(wanted)} are asked for"


def _size(amount_bytes: float) -> str:
    return f"{amount_bytes / GIB:.1f} GiB"
