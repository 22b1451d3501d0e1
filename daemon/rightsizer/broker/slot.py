"""Slot: a GPU or MIG instance that can be granted, and the verdict on it for a request."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from rightsizer.model.device import Device
from rightsizer.model.state import Condition, Resource, State
from rightsizer.model.topology import Placement


@dataclass(frozen=True, slots=True)
class SlotHolder:
    """Who has a slot without a lease: a workload whose processes or allocation were found there."""

    name: str
    """As a person knows it: the workload's name, or a process's."""
    has_process: bool
    """Whether a process of it is there; a scheduler may have given it for nothing."""
    pids: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class LeaseSlot:
    """One device and all that placing by it needs. Unknown figures are `None`, never 0."""

    device: Device
    placement: Placement | None = None
    """Where it sits; `None` where nobody looked."""
    state: State = State.UNKNOWN
    conditions: frozenset[Condition] = frozenset()
    trouble: str | None = None
    """Why it cannot be trusted with work: down, lost, broken memory; `None` where it is healthy."""
    holders: tuple[SlotHolder, ...] = ()
    memory_used_bytes: float | None = None
    """By everything on it, the driver's own part included."""
    power_headroom_watts: float | None = None
    """What its limit leaves above what it draws."""
    temperature_headroom_celsius: float | None = None
    """What it may still warm up by before the hardware slows its clocks down."""
    idle_seconds: float | None = None
    """For how long nothing has run on it, at least; `None` where nobody has watched."""
    demand: Mapping[Resource, float] = field(default_factory=dict)
    """Measured demand of what is on it, of the whole device, by resource; without entries where
    nothing was measured for long enough."""

    @property
    def uuid(self) -> str:
        """The device's."""
        return self.device.uuid

    @property
    def label(self) -> str:
        """For a person: `GPU 3`, `1g.10gb 7 of GPU 3`."""
        mig = self.device.mig
        if mig is None:
            return f"GPU {self.device.index}"
        return f"{mig.profile} {mig.gpu_instance_id} of GPU {self.device.index}"

    @property
    def gpu_uuid(self) -> str:
        """The GPU's that it is, or is an instance of."""
        mig = self.device.mig
        return self.uuid if mig is None else mig.parent_uuid

    @property
    def memory_total_bytes(self) -> float | None:
        """The device's."""
        return self.device.memory_total_bytes

    @property
    def numa_node(self) -> int | None:
        """Of its slot; that the driver tells where the bus does not."""
        found = None if self.placement is None else self.placement.numa_node
        return self.device.numa_node if found is None else found

    @property
    def cpus(self) -> tuple[int, ...]:
        """Those near to it; empty where nobody knows."""
        return () if self.placement is None else self.placement.cpus


class SlotObstacle(StrEnum):
    """Why a slot cannot be given; stable words for programs."""

    DIVIDED = "divided"
    """A GPU that is divided into MIG instances."""
    PROFILE = "profile"
    """Not the MIG profile that was asked for."""
    DOWN = "down"
    """It does not answer, sleeps, was let go, or its hardware is in trouble."""
    UNHEALTHY = "unhealthy"
    """A condition that holds at present."""
    RESERVED = "reserved"
    MEMORY = "memory"
    """Too little of it, or nobody knows how much."""
    LEASED = "leased"
    HELD = "held"
    HELD_IDLE = "held_idle"
    """Held, and nothing has run: it could be reclaimed, and is not taken."""
    ALLOCATED = "allocated"
    """A scheduler has given it, and no process is there."""
    BUSY = "busy"
    """At work for somebody whom nobody sees."""
    UNKNOWN = "unknown"
    """Nobody knows whether something is on it."""
    NEEDS = "needs"
    """What is on it needs too much, or was not measured for long enough."""


@dataclass(frozen=True, slots=True)
class SlotVerdict:
    """Whether a slot can be given to a request."""

    slot: LeaseSlot
    obstacle: SlotObstacle | None = None
    """`None` where it can."""
    why: str = ""
    """A clause for a person: `held by train-llm`; with an obstacle only."""
    is_certain: bool = True
    """Whether its state was measured; otherwise it only looks empty."""
    is_shared: bool = False
    """Whether other work is on it."""
    memory_left_bytes: float | None = None
    """What the request may use at most; `None` where nobody knows or nothing is left."""

    @property
    def is_free(self) -> bool:
        """Whether nothing is in the way."""
        return self.obstacle is None
