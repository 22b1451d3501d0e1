"""A node with a broker: its boards and links, and the processes that really run.

It replaces the agent's snapshot and the processes: a job's memory is counted on the slots and
reported by `observations`, as two readings of one moment.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import combinations
from typing import Final

from readings import GIBIBYTE
from rightsizer.broker.lease import GpuRequest, LeaseObservation, LeaseOwner, Ticket
from rightsizer.broker.scheduling_state import NodeObservation
from rightsizer.broker.slot import LeaseSlot, SlotHolder
from rightsizer.broker.state import BrokerState
from rightsizer.model.device import Device
from rightsizer.model.state import Resource, State
from rightsizer.model.topology import GpuLink, LinkKind, Placement, Topology

__all__ = ["TOTAL_BYTES", "Running", "World", "client", "hgx", "pcie_box", "ticket"]

TOTAL_BYTES: Final = 80 * GIBIBYTE
_DRIVER_BYTES: Final = 0.5 * GIBIBYTE


def hgx(count: int = 8) -> Topology:
    """GPUs joined by a switch, half of them on each socket."""
    return _machine(count, lambda one, other: (LinkKind.NVLINK, 18))


def pcie_box(count: int = 8) -> Topology:
    """GPUs without NVLink: pairs below a switch, two pairs on each of two sockets."""

    def link(one: int, other: int) -> tuple[LinkKind, int]:
        if one // 2 == other // 2:
            return LinkKind.PIX, 0
        return (LinkKind.NODE, 0) if one // 4 == other // 4 else (LinkKind.SYSTEM, 0)

    return _machine(count, link)


def client(user: str = "ada", pid: int = 1) -> LeaseOwner:
    """A process of a user."""
    return LeaseOwner(1000 + sum(user.encode()), user, pid, pid)


def ticket(name: str, gpus: int = 1, user: str = "ada", **facts: object) -> Ticket:
    """A user's request; memory in GiB."""
    memory = facts.pop("memory", None)
    request = GpuRequest(
        gpus=gpus,
        memory_bytes=None if memory is None else float(str(memory)) * GIBIBYTE,
        may_share=bool(facts.pop("may_share", False)),
    )
    return Ticket(name, client(user), request, 0, **facts)  # type: ignore[arg-type]  # Of a test.


@dataclass
class Running:
    """The processes of a lease, or of a user without one."""

    uuids: tuple[str, ...]
    memory_bytes: float
    """On each slot."""
    demand: float = 0.1
    is_active: bool = True


@dataclass
class World:
    """The state of the node."""

    topology: Topology
    running: dict[str, Running] = field(default_factory=dict)
    """Processes of leases, by the lease's id."""
    outsiders: dict[str, Running] = field(default_factory=dict)
    """Processes without a lease, by a name."""
    broken: set[str] = field(default_factory=set)

    @property
    def uuids(self) -> tuple[str, ...]:
        """All GPUs."""
        return tuple(self.topology.placements)

    def observe(self) -> NodeObservation:
        """The agent's snapshot."""
        slots = (self._slot(index, uuid) for index, uuid in enumerate(self.uuids))
        return NodeObservation(tuple(slots), self.topology)

    def observations(self, state: BrokerState) -> Mapping[str, LeaseObservation]:
        """The agent's observations of each known lease."""
        return {record.id: self._observation(record.id) for record in state.leases}

    def outside_bytes(self, uuid: str) -> float:
        """Memory without a lease, the driver's own part included."""
        return _DRIVER_BYTES + sum(each.memory_bytes for each in _on(uuid, self.outsiders.values()))

    def _observation(self, name: str) -> LeaseObservation:
        job = self.running.get(name)
        if job is None:
            return LeaseObservation(is_alive=False, is_active=False)
        memory = dict.fromkeys(job.uuids, job.memory_bytes)
        lost = {uuid: "fell off the bus" for uuid in job.uuids if uuid in self.broken}
        return LeaseObservation(
            is_alive=True, is_active=job.is_active, memory_bytes=memory, lost=lost
        )

    def _slot(self, index: int, uuid: str) -> LeaseSlot:
        own = _on(uuid, self.running.values())
        others = _on(uuid, self.outsiders.values())
        there = [*own, *others]
        demand = sum(each.demand for each in there)
        state = State.PRODUCTIVE if any(each.is_active for each in there) else State.IDLE_HELD
        return LeaseSlot(
            device=Device(uuid, index, memory_total_bytes=TOTAL_BYTES),
            placement=self.topology.placements[uuid],
            state=state if there else State.IDLE_EMPTY,
            trouble="fell off the bus" if uuid in self.broken else None,
            holders=tuple(SlotHolder(f"process {at}", True) for at, _ in enumerate(others)),
            memory_used_bytes=_DRIVER_BYTES + sum(each.memory_bytes for each in there),
            demand={Resource.COMPUTE: demand, Resource.MEMORY_BANDWIDTH: demand} if there else {},
        )


def _on(uuid: str, jobs: Iterable[Running]) -> list[Running]:
    return [job for job in jobs if uuid in job.uuids]


def _machine(count: int, link: Callable[[int, int], tuple[LinkKind, int]]) -> Topology:
    links = []
    for one, other in combinations(range(count), 2):
        kind, nvlinks = link(one, other)
        links.append(GpuLink(f"GPU-{one}", f"GPU-{other}", kind, nvlinks))
    placements = {
        f"GPU-{at}": Placement(f"GPU-{at}", numa_node=at * 2 // count) for at in range(count)
    }
    return Topology(placements=placements, links=tuple(links))
