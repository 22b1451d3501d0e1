"""How near to its GPU a process runs and has its memory."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from rightsizer.domain.signal import Signal
from rightsizer.domain.topology import Placement
from rightsizer.domain.units import NANOSECONDS_PER_SECOND, Nanoseconds, nanoseconds
from rightsizer.telemetry.host.control_group import ControlGroup, outermost
from rightsizer.telemetry.host.kept import Kept, Recent
from rightsizer.telemetry.host.numa_memory import (
    ByNode,
    group_memory,
    process_memory,
    resident_bytes,
)
from rightsizer.telemetry.host.places import Place
from rightsizer.telemetry.host.settings import HostSettings

__all__ = ["NearnessReader", "affinity"]


def affinity(
    places: Iterable[Place], near: Placement, online: frozenset[int]
) -> Mapping[Signal, float]:
    """CPUs near to the GPU of those that its processes may run on, as the processes' mean."""
    local, shares = frozenset(near.cpus), []
    for place in places:
        # The kernel also lists CPUs that could be there one day.
        allowed = place.cpus & online if online else place.cpus
        if allowed and local:
            shares.append(len(allowed & local) / len(allowed))
    return {Signal.CPU_AFFINITY_LOCAL: sum(shares) / len(shares)} if shares else {}


class NearnessReader:
    """Tells on which NUMA nodes the memory of processes is.

    A control group's own count is cheap and open to everyone, and so comes first. Where one
    group has processes of GPUs on several nodes it cannot tell whose memory is where; then,
    and for processes without such a group, `numa_maps` of each process does, where permitted.
    """

    def __init__(
        self, procfs: str, settings: HostSettings, clock: Callable[[], Nanoseconds]
    ) -> None:
        """Reads nothing before it is asked."""
        self._procfs = procfs
        self._settings = settings
        self._clock = clock
        self._shortest = nanoseconds(settings.shortest_seconds)
        self._interval = nanoseconds(settings.memory_placement_interval_seconds)
        self._forget_after = nanoseconds(settings.forget_after_seconds)
        self._uses: Recent[ControlGroup, _Use] = Recent(self._forget_after)
        self._groups: Kept[ControlGroup, ByNode | None] = Kept(self._interval, self._forget_after)
        self._processes: Recent[tuple[int, str], _Read] = Recent(self._forget_after)
        self._second = -1
        self._left = 0

    def memory(
        self,
        places: Collection[Place],
        near: Placement,
        nodes: frozenset[int],
        now: Nanoseconds,
    ) -> Mapping[Signal, float]:
        """Memory on the GPU's node of what its processes have; none where part is unknown.

        Args:
            places: Where the processes run.
            near: Where the GPU sits.
            nodes: Those with CPUs; what is on others is not the host's memory.
            now: The time of the look.
        """
        if near.numa_node is None or near.numa_node not in nodes:
            return {}
        groups = outermost([place.seat.memory for place in places])
        is_new = [self._note_use(group, near.numa_node, now) for group in groups]
        if any(is_new):
            return {}  # Before a whole pass, nobody knows who else uses the group.
        total = ByNode()
        for part in self._parts(places, groups, now):
            if part is None:
                return {}
            total += part
        everything = sum(total[node] for node in nodes)
        if everything == 0:
            return {}
        return {Signal.HOST_MEMORY_LOCAL: total[near.numa_node] / everything}

    def _note_use(self, group: ControlGroup, node: int, now: Nanoseconds) -> bool:
        """Remember for which node a group is asked; whether this is its first pass."""
        for each in group.lineage:
            use = self._uses.get(each, now, lambda: _Use(now))
            use.nodes[node] = now
        return now - self._uses.get(group, now, lambda: _Use(now)).since < self._shortest

    def _parts(
        self, places: Iterable[Place], groups: Iterable[ControlGroup], now: Nanoseconds
    ) -> Iterator[ByNode | None]:
        counted: set[ControlGroup] = set()
        for group in groups:
            count = self._group(group, now)
            if count is not None:
                counted.add(group)
                yield count
        for place in places:
            seat = place.seat.memory
            if seat is None or counted.isdisjoint(seat.lineage):
                yield self._process(place, now)

    def _group(self, group: ControlGroup, now: Nanoseconds) -> ByNode | None:
        use = self._uses.get(group, now, lambda: _Use(now))
        since = now - self._forget_after
        if sum(asked >= since for asked in use.nodes.values()) > 1:
            return None
        return self._groups.get(group, now, lambda: group_memory(group))

    def _process(self, place: Place, now: Nanoseconds) -> ByNode | None:
        last = self._processes.get((place.pid, place.started), now, _Read)
        is_due = last.time is None or now - last.time >= self._interval
        if is_due and self._may_read(now):
            last.time, last.value = now, self._measured(place.pid)
        return last.value

    def _may_read(self, now: Nanoseconds) -> bool:
        second = now // NANOSECONDS_PER_SECOND
        if second != self._second:
            self._second, self._left = second, self._settings.numa_maps_processes_maximum
        self._left -= 1
        return self._left >= 0

    def _measured(self, pid: int) -> ByNode | None:
        resident = resident_bytes(self._procfs, pid)
        if resident is None or resident > self._settings.numa_maps_resident_maximum_bytes:
            return None
        patience = nanoseconds(self._settings.numa_maps_deadline_seconds)
        return process_memory(self._procfs, pid, self._clock, patience)


@dataclass(slots=True)
class _Use:
    """Since when a group is asked for, and when last for the GPUs of each NUMA node."""

    since: Nanoseconds
    nodes: dict[int, Nanoseconds] = field(default_factory=dict)


@dataclass(slots=True)
class _Read:
    """What was last read of a process; `None` before, and where it may not be read."""

    time: Nanoseconds | None = None
    value: ByNode | None = None
