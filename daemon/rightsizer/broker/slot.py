"""Slot: a GPU or MIG instance that can be granted, and the verdict on it for a request."""

from collections.abc import Mapping
from enum import StrEnum

from rightsizer.model.device import Device
from rightsizer.model.frozen import dataclass, field
from rightsizer.model.state import Condition, Resource, State
from rightsizer.model.topology import Placement


@dataclass(frozen=True, slots=True)
class SlotHolder:
    """A workload without a lease whose processes or allocation are on a slot."""

    name: str
    """Of the workload, or of a process."""
    has_process: bool
    """Whether a process of it is there; a scheduler may have allocated it for nothing."""
    pids: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class LeaseSlot:
    """One device with all that placement needs; unknown figures are `None`, never 0."""

    device: Device
    placement: Placement | None = None
    state: State = State.UNKNOWN
    conditions: frozenset[Condition] = frozenset()
    trouble: str | None = None
    """Why it is unusable: down, lost, broken memory; `None` where it is healthy."""
    holders: tuple[SlotHolder, ...] = ()
    memory_used_bytes: float | None = None
    """The driver's own part included."""
    power_headroom_watts: float | None = None
    """Below its limit."""
    temperature_headroom_celsius: float | None = None
    """Below the hardware's slowdown."""
    idle_seconds: float | None = None
    """For how long nothing has run on it, at least."""
    demand: Mapping[Resource, float] = field(default_factory=dict)
    """Measured demand of its workloads, of the whole device; without entries where the measurement
    was too short."""

    @property
    def uuid(self) -> str:
        """The device's."""
        return self.device.uuid

    @property
    def label(self) -> str:
        """`GPU 3`, `1g.10gb 7 of GPU 3`."""
        mig = self.device.mig
        if mig is None:
            return f"GPU {self.device.index}"
        return f"{mig.profile} {mig.gpu_instance_id} of GPU {self.device.index}"

    @property
    def gpu_uuid(self) -> str:
        """Of the GPU that it is, or is an instance of."""
        mig = self.device.mig
        return self.uuid if mig is None else mig.parent_uuid

    @property
    def memory_total_bytes(self) -> float | None:
        """The device's."""
        return self.device.memory_total_bytes

    @property
    def numa_node(self) -> int | None:
        """Of its bus, otherwise the driver's."""
        found = None if self.placement is None else self.placement.numa_node
        return self.device.numa_node if found is None else found

    @property
    def cpus(self) -> tuple[int, ...]:
        """Those near to it; empty where unknown."""
        return () if self.placement is None else self.placement.cpus


class SlotObstacle(StrEnum):
    """Why a slot cannot be granted; stable words for programs."""

    DIVIDED = "divided"
    """A GPU that is divided into MIG instances."""
    PROFILE = "profile"
    """Not the MIG profile that was asked for."""
    DOWN = "down"
    """It does not answer, sleeps, was released, or its hardware is faulty."""
    UNHEALTHY = "unhealthy"
    """A condition that holds at present."""
    RESERVED = "reserved"
    MEMORY = "memory"
    """Too little, or unknown."""
    LEASED = "leased"
    HELD = "held"
    HELD_IDLE = "held_idle"
    """Held, and nothing has run."""
    ALLOCATED = "allocated"
    """Allocated by a scheduler, without a process."""
    BUSY = "busy"
    """Active without a known process."""
    UNKNOWN = "unknown"
    NEEDS = "needs"
    """Its workloads demand too much, or were not measured for long enough."""


@dataclass(frozen=True, slots=True)
class SlotVerdict:
    """Whether a slot can be granted to a request."""

    slot: LeaseSlot
    obstacle: SlotObstacle | None = None
    """`None` where it can."""
    why: str = ""
    """A clause with an obstacle: `held by train-llm`."""
    is_certain: bool = True
    """Whether its state was measured; otherwise it only looks empty."""
    is_shared: bool = False
    """Whether other work is on it."""
    memory_left_bytes: float | None = None
    """Available to the request; `None` is unknown or nothing."""

    @property
    def is_free(self) -> bool:
        """Whether there is no obstacle."""
        return self.obstacle is None
