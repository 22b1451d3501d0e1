"""NUMA nodes, distances and cores, and locality of processes to their GPU."""

import os
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from msgspec import Struct

from rightsizer.host.cache import ExpiringCache, RefreshingCache
from rightsizer.host.cgroups import ControlGroup, outermost
from rightsizer.host.files import parse_cpus, read_file, read_integer, read_line, read_names
from rightsizer.host.process_groups import ProcessLocation
from rightsizer.host.settings import HostSettings
from rightsizer.model.values import (
    NANOSECONDS_PER_SECOND,
    Nanoseconds,
    Placement,
    Signal,
    nanoseconds,
)

_NODE_FOLDER: Final = re.compile(r"node([0-9]{1,5})")
_CPU: Final = re.compile(r"cpu([0-9]{1,5})")
ByNode = Counter[int]
_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")
_NODE: Final = re.compile(r"\bN(\d+)=(\d+)")
_PAGE_KIBIBYTES: Final = re.compile(r"\bkernelpagesize_kB=(\d+)")
_CHUNK_BYTES: Final = 16384
_RESIDENT: Final = 1
_UNIFIED_LINES: Final = ("anon ", "shmem ")
_VERSION_1_LINES: Final = ("hierarchical_anon=", "hierarchical_unevictable=")
"""Memory of a group's processes, without the page cache, which belongs to none of them."""
_SHARED_FILES: Final = ("/dev/shm/", "/memfd:", "/SYSV", "/dev/zero")  # noqa: S108 - to recognize.
"""Pseudo-files that are memory shared by processes."""


class NumaNodes(Struct, frozen=True):
    """NUMA nodes of the kernel."""

    cpus: Mapping[int, tuple[int, ...]] = {}
    """CPUs by node; empty for memory-only nodes, such as the GPUs of Grace-Hopper."""
    has_one: bool = False
    """Whether there is certainly at most one node with CPUs."""


def read_nodes(sysfs: Path) -> NumaNodes:
    """Read the nodes; empty for kernels without NUMA."""
    folder = sysfs / "devices/system/node"
    texts = {
        int(match[1]): read_file(folder / name / "cpulist")
        for name in read_names(folder)
        if (match := _NODE_FOLDER.fullmatch(name))
    }
    cpus = {node: parse_cpus(text) for node, text in texts.items()}
    # An unlisted node, or one without a readable CPU list, may be the second.
    is_whole = parse_cpus(read_line(folder / "online")) == tuple(sorted(cpus))
    is_complete = all(
        cpus[node] or (text is not None and not text.strip()) for node, text in texts.items()
    )
    with_cpus = sum(bool(of_node) for of_node in cpus.values())
    return NumaNodes(cpus, has_one=is_whole and is_complete and with_cpus == 1)


def read_distances(sysfs: Path) -> Mapping[tuple[int, int], int]:
    """Distance between nodes by pair (10 within a node); empty if unknown."""
    folder = sysfs / "devices/system/node"
    nodes = parse_cpus(read_line(folder / "online"))
    distances: dict[tuple[int, int], int] = {}
    for node in nodes:
        words = read_line(folder / f"node{node}" / "distance").split()
        if len(words) != len(nodes) or not all(word.isdecimal() for word in words):
            return {}
        distances |= {(node, other): int(word) for other, word in zip(nodes, words, strict=True)}
    return distances


def read_cores(sysfs: Path) -> Mapping[int, int]:
    """Slurm's core number by CPU of the kernel; empty unless all are known.

    Slurm counts cores, not threads, socket by socket (gres.conf(5), `Cores`), while the kernel
    usually numbers all second threads after the first ones.
    """
    folder = sysfs / "devices/system/cpu"
    numbers = [int(match[1]) for name in read_names(folder) if (match := _CPU.fullmatch(name))]
    core_by_cpu: dict[int, tuple[int, int]] = {}
    for cpu in numbers:
        topology = folder / f"cpu{cpu}" / "topology"
        package = read_integer(topology / "physical_package_id")
        threads = parse_cpus(read_line(topology / "thread_siblings_list"))
        if package is None or cpu not in threads:
            # An offline CPU has no topology, and shifts all later core numbers.
            return {}
        core_by_cpu[cpu] = (package, threads[0])
    order = {core: at for at, core in enumerate(sorted(set(core_by_cpu.values())))}
    return {cpu: order[core] for cpu, core in core_by_cpu.items()}


def group_memory(group: ControlGroup) -> ByNode | None:
    """Memory of a group's processes by node; `None` if the group does not account for memory."""
    text = read_file(f"{group.folder}/memory.numa_stat")
    if text is None:
        return None
    starts, unit = (_UNIFIED_LINES, 1) if group.is_unified else (_VERSION_1_LINES, _PAGE_BYTES)
    return _total((line, unit) for line in text.splitlines() if line.startswith(starts))


def process_memory(
    procfs: str, pid: int, clock: Callable[[], Nanoseconds], patience: Nanoseconds
) -> ByNode | None:
    """Memory of one process by its `numa_maps`; `None` without permission or past the deadline.

    Meanwhile the kernel walks the process's page tables one mapping at a time; reading can only
    be given up between mappings.
    """
    text = _patient_text(f"{procfs}/{pid}/numa_maps", clock, patience)
    if text is None:
        return None
    rows = ((line, line.partition(" file=")) for line in text.splitlines())
    return _total(
        (line, 1024 * int(size.group(1)))
        for line, (_, is_file, name) in rows
        if not is_file or name.startswith(_SHARED_FILES)
        if (size := _PAGE_KIBIBYTES.search(line))
    )


def resident_bytes(procfs: str, pid: int) -> int | None:
    """Resident memory of a process; `None` if it has ended."""
    fields = (read_file(f"{procfs}/{pid}/statm") or "").split()
    try:
        return int(fields[_RESIDENT]) * _PAGE_BYTES
    except (IndexError, ValueError):
        return None


def _total(lines: Iterable[tuple[str, int]]) -> ByNode:
    total: ByNode = Counter()
    for line, unit in lines:
        for node, count in _NODE.findall(line):
            total[int(node)] += int(count) * unit
    return total


def _patient_text(path: str, clock: Callable[[], Nanoseconds], patience: Nanoseconds) -> str | None:
    started = clock()
    pieces = list[bytes]()
    try:
        with Path(path).open("rb", buffering=0) as file:
            while piece := file.read(_CHUNK_BYTES):
                pieces.append(piece)
                if clock() - started > patience:
                    return None
    except OSError:
        return None
    return b"".join(pieces).decode("utf-8", "replace")


def affinity(
    places: Iterable[ProcessLocation], near: Placement, online: frozenset[int]
) -> Mapping[Signal, float]:
    """Share of the allowed CPUs that are local to the GPU, averaged over processes."""
    local = frozenset(near.cpus)
    share_sum = 0.0
    count = 0
    # Most processes have the same CPUs.
    for cpus, processes in Counter(place.cpus for place in places).items():
        # The kernel also lists CPUs that are not present.
        allowed = cpus & online if online else cpus
        if allowed and local:
            share_sum += processes * len(allowed & local) / len(allowed)
            count += processes
    return {Signal.CPU_AFFINITY_LOCAL: share_sum / count} if count else {}


class NumaLocalityReader:
    """Determines the NUMA nodes of processes' memory.

    Prefers the counts of control groups, which are cheap and unprivileged. If a group has
    processes of GPUs on several nodes, its count cannot tell their memory apart; then, and for
    processes without such a group, it uses each process's `numa_maps` where permitted.
    """

    def __init__(
        self, procfs: str, settings: HostSettings, clock: Callable[[], Nanoseconds]
    ) -> None:
        self._procfs = procfs
        self._settings = settings
        self._clock = clock
        self._shortest = nanoseconds(settings.shortest_seconds)
        self._interval = nanoseconds(settings.memory_placement_interval_seconds)
        self._forget_after = nanoseconds(settings.forget_after_seconds)
        self._uses = ExpiringCache[ControlGroup, _LocalityEntry](self._forget_after)
        self._groups = RefreshingCache[ControlGroup, ByNode | None](
            self._interval, self._forget_after
        )
        self._processes = ExpiringCache[tuple[int, int], _LocalityReading](self._forget_after)
        self._second = -1
        self._left = 0

    def memory(
        self,
        places: Collection[ProcessLocation],
        near: Placement,
        nodes: frozenset[int],
        now: Nanoseconds,
    ) -> Mapping[Signal, float]:
        """Share of the processes' memory on the GPU's node; empty if any of it is unknown.

        Nodes without CPUs are not host memory.
        """
        if near.numa_node is None or near.numa_node not in nodes:
            return {}
        groups = outermost([place.membership.memory for place in places])
        is_new = [self._note_use(group, near.numa_node, now) for group in groups]
        if any(is_new):
            return {}  # Other users of the group are only known after a full pass.
        total = ByNode()
        for part in self._parts(places, groups, now):
            if part is None:
                return {}
            total += part
        everything = sum(total[node] for node in nodes)
        return {Signal.HOST_MEMORY_LOCAL: total[near.numa_node] / everything} if everything else {}

    def _note_use(self, group: ControlGroup, node: int, now: Nanoseconds) -> bool:
        """Record the node for which a group is queried; return whether this is its first pass."""
        for control_group in group.lineage:
            use = self._uses.get(control_group, now, lambda: _LocalityEntry(now))
            use.nodes[node] = now
        return now - self._uses.get(group, now, lambda: _LocalityEntry(now)).since < self._shortest

    def _parts(
        self, places: Iterable[ProcessLocation], groups: Iterable[ControlGroup], now: Nanoseconds
    ) -> Iterator[ByNode | None]:
        counted: set[ControlGroup] = set()
        for group in groups:
            count = self._group(group, now)
            if count is not None:
                counted.add(group)
                yield count
        for place in places:
            control_group = place.membership.memory
            if control_group is None or counted.isdisjoint(control_group.lineage):
                yield self._process(place, now)

    def _group(self, group: ControlGroup, now: Nanoseconds) -> ByNode | None:
        use = self._uses.get(group, now, lambda: _LocalityEntry(now))
        since = now - self._forget_after
        if sum(asked >= since for asked in use.nodes.values()) > 1:
            return None
        return self._groups.get(group, now, lambda: group_memory(group))

    def _process(self, place: ProcessLocation, now: Nanoseconds) -> ByNode | None:
        last = self._processes.get((place.pid, place.started_ticks), now, _LocalityReading)
        is_due = last.time is None or now - last.time >= self._interval
        if is_due and self._may_read(now):
            last.time = now
            last.value = self._measured(place.pid)
        return last.value

    def _may_read(self, now: Nanoseconds) -> bool:
        second = now // NANOSECONDS_PER_SECOND
        if second != self._second:
            self._second = second
            self._left = self._settings.numa_maps_processes_maximum
        self._left -= 1
        return self._left >= 0

    def _measured(self, pid: int) -> ByNode | None:
        resident = resident_bytes(self._procfs, pid)
        if resident is None or resident > self._settings.numa_maps_resident_maximum_bytes:
            return None
        patience = nanoseconds(self._settings.numa_maps_deadline_seconds)
        return process_memory(self._procfs, pid, self._clock, patience)


@dataclass(slots=True)
class _LocalityEntry:
    """First query of a group, and last query by NUMA node of the GPUs."""

    since: Nanoseconds
    nodes: dict[int, Nanoseconds] = field(default_factory=dict)


@dataclass(slots=True)
class _LocalityReading:
    """Last memory reading of a process; `None` before it, or without permission."""

    time: Nanoseconds | None = None
    value: ByNode | None = None
