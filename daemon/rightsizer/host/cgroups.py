"""Control groups of versions 1 and 2: hierarchies, groups of a process, usage and CPU limits."""

import math
import os
import posixpath
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property, lru_cache, partial
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

from rightsizer.host.cache import RefreshingCache
from rightsizer.host.files import cpu_set, read_file, read_integer, read_names
from rightsizer.host.rates import MonotonicCounter
from rightsizer.model.values import NANOSECONDS_PER_SECOND, Nanoseconds, Signal, seconds

_UNIFIED: Final = ""
"""Controller name of version 2."""
_MICROSECONDS_PER_SECOND: Final = 1_000_000
_USAGE: Final = "usage_usec "
_READ: Final = Signal.DISK_READ_BYTES_PER_SECOND
_WRITE: Final = Signal.DISK_WRITE_BYTES_PER_SECOND
_KEYS: Final = {"rbytes": _READ, "wbytes": _WRITE, "Read": _READ, "Write": _WRITE}
_WORDS: Final = 3
_BLKIO_FILES: Final = (
    "blkio.throttle.io_service_bytes_recursive",
    "blkio.throttle.io_service_bytes",
)
"""The second file omits child groups, but older kernels have only that one."""


class ControlGroup(NamedTuple):
    """Control group other than the root; used as key of many mappings each second."""

    top: str
    """Mount point of its hierarchy."""
    path: str
    """Path below the mount point, e.g. `system.slice/vllm.service`."""
    is_unified: bool
    """Whether it is of version 2."""

    @property
    def folder(self) -> str:
        """Directory of its files."""
        return f"{self.top}/{self.path}"

    @property
    def parent(self) -> "ControlGroup | None":
        """Parent group; `None` below the root."""
        path = self.path.rpartition("/")[0]
        return ControlGroup(self.top, path, self.is_unified) if path else None

    @property
    def depth(self) -> int:
        """Number of its ancestors."""
        return self.path.count("/")

    @property
    def lineage(self) -> "tuple[ControlGroup, ...]":
        """Group itself, then its ancestors, innermost first."""
        return _lineage(self)


@lru_cache(maxsize=4096)
def _lineage(group: ControlGroup) -> tuple[ControlGroup, ...]:
    return (group, *(_lineage(group.parent) if group.parent else ()))


class ControlGroupMembership(NamedTuple):
    """Groups that account for a process; `None` if only the node as a whole does."""

    cpu_time: ControlGroup | None = None
    cpu_quota: ControlGroup | None = None
    cpu_set: ControlGroup | None = None
    io: ControlGroup | None = None
    memory: ControlGroup | None = None
    pressure: ControlGroup | None = None


def outermost(groups: Iterable[ControlGroup | None]) -> frozenset[ControlGroup]:
    """Distinct groups without those nested in others, which already count them."""
    control_groups = {group for group in groups if group is not None}
    if len(control_groups) == 1:
        return frozenset(control_groups)
    chosen: list[ControlGroup] = []
    # In this order, nested groups directly follow their parent.
    for group in sorted(control_groups, key=lambda group: f"{group.folder}/"):
        if not chosen or not f"{group.folder}/".startswith(f"{chosen[-1].folder}/"):
            chosen.append(group)
    return frozenset(chosen)


def namespace_root(top: str, own_mount: str) -> str:
    """Directory below `top` that is the root of our own cgroup namespace.

    In a pod with the host's `/sys` mounted, `/sys/fs/cgroup` is still its own root: the same
    directory under another path.

    Returns:
        Path from `top` without leading or trailing slash; empty if the two are the same or
            unrelated.
    """
    try:
        whole = Path(top).stat()
        root = Path(own_mount).stat()
    except OSError:
        return ""
    if whole.st_dev != root.st_dev or whole.st_ino == root.st_ino:
        return ""
    waiting = [top]
    while waiting:
        try:
            with os.scandir(waiting.pop()) as entries:
                for entry in entries:
                    if not entry.is_dir(follow_symlinks=False):
                        continue
                    if entry.inode() == root.st_ino:
                        return posixpath.relpath(entry.path, top)
                    waiting.append(entry.path)
        except OSError:
            continue  # It ended in the meantime.
    return ""


def seen_from(root: str, path: str) -> str:
    """Convert a path in `/proc/PID/cgroup` from a namespace's root to the host's."""
    return posixpath.normpath(f"/{root}/{path}").strip("/")


class ControlGroupHierarchies:
    """Control group hierarchies below a directory, `/sys/fs/cgroup` on a live host."""

    def __init__(self, top: str, own_mount: str = "/sys/fs/cgroup") -> None:
        self._top = top
        self._own_mount = own_mount
        # Many processes share a group, and then have the same memberships.
        self.membership = lru_cache(maxsize=1024)(self._membership)

    def _membership(self, text: str) -> ControlGroupMembership:
        paths = self._paths(text)
        unified = self._unified(paths)

        def group(controller: str) -> ControlGroup | None:
            if controller not in paths:
                return unified
            path = paths[controller]
            return ControlGroup(self._mount(controller, paths), path, False) if path else None

        return ControlGroupMembership(
            # Version 2 counts CPU time even if version 1 has the controller.
            cpu_time=group("cpuacct") or unified,
            cpu_quota=group("cpu"),
            cpu_set=group("cpuset"),
            io=group("blkio"),
            memory=group("memory"),
            pressure=unified,
        )

    def _unified(self, paths: Mapping[str, str]) -> ControlGroup | None:
        """Group of version 2, unless a version 1 group is more specific."""
        path = paths.get(_UNIFIED, "")
        inside = f"{path}/"
        if not all(inside.startswith(f"{other}/") for other in paths.values() if other):
            return None
        beside = f"{self._top}/unified"
        top = beside if Path(beside).is_dir() else self._top
        return ControlGroup(top, path, is_unified=True) if path else None

    def _mount(self, controller: str, paths: Mapping[str, str]) -> str:
        alone = f"{self._top}/{controller}"
        if Path(alone).is_dir():
            return alone
        # Controllers mounted together without a link for each: `cpu,cpuacct`.
        for name in read_names(self._top):
            joined = set(name.split(","))
            if controller in joined and joined <= paths.keys():
                return f"{self._top}/{name}"
        return alone

    def _paths(self, text: str) -> dict[str, str]:
        """Path by controller; empty for the root and for paths invisible from here."""
        paths: dict[str, str] = {}
        for line in text.splitlines():
            _, _, rest = line.partition(":")
            controllers, _, path = rest.partition(":")
            if controllers == _UNIFIED and self._root:
                path = seen_from(self._root, path)
            path = path.strip("/")
            if ".." in path.split("/"):
                path = ""
            for controller in controllers.split(","):
                paths[controller] = path
        return paths

    @cached_property
    def _root(self) -> str:
        """Root of the version 2 paths that we see; in a pod it is the container's."""
        return namespace_root(self._top, self._own_mount)


def core_seconds(group: ControlGroup, now: Nanoseconds) -> dict[Signal, MonotonicCounter]:
    """CPU time; its rate is the number of cores in use."""
    if group.is_unified:
        text = read_file(f"{group.folder}/cpu.stat") or ""
        if not text.startswith(_USAGE):
            return {}
        used = text[len(_USAGE) :].partition("\n")[0]
        unit = _MICROSECONDS_PER_SECOND
    else:
        used = read_file(f"{group.folder}/cpuacct.usage") or ""
        unit = NANOSECONDS_PER_SECOND
    try:
        return {Signal.CPU: MonotonicCounter(int(used) / unit, seconds(now))}
    except ValueError:
        return {}


def disk_bytes(
    group: ControlGroup, disks: frozenset[str], now: Nanoseconds
) -> dict[Signal, MonotonicCounter]:
    """Bytes read from and written to whole disks.

    Version 2 reports nothing for a group without I/O, which counts as 0. Version 1 does the same
    if the kernel does not count at all, so counting starts with the group's first bytes.

    Only whole disks count, since volumes repeat the I/O of their disks.
    """
    lines = _disk_lines(group)
    if lines is None or not disks:
        return {}
    totals = {_READ: 0, _WRITE: 0}
    for device, key, count in lines:
        if device in disks and key in _KEYS and count.isdecimal():
            totals[_KEYS[key]] += int(count)
    return {signal: MonotonicCounter(total, seconds(now)) for signal, total in totals.items()}


def _disk_lines(group: ControlGroup) -> list[tuple[str, str, str]] | None:
    """Device, key and count of each value."""
    if group.is_unified:
        text = read_file(f"{group.folder}/io.stat")
        rows = [line.partition(" ") for line in (text or "").splitlines()]
        counts = [(row[0], *field.partition("=")[::2]) for row in rows for field in row[2].split()]
        return None if text is None else counts
    texts = (read_file(f"{group.folder}/{name}") for name in _BLKIO_FILES)
    text = next((text for text in texts if text is not None), "")
    lines = (line.split(" ", 2) for line in text.splitlines())
    # The last line, the total, has no device.
    return [(line[0], line[1], line[2]) for line in lines if len(line) == _WORDS] or None


_Memberships: TypeAlias = frozenset[ControlGroupMembership]


class CpuLimits:
    """Cached quotas and CPU sets, read again at an interval."""

    def __init__(self, interval: Nanoseconds, forget_after: Nanoseconds) -> None:
        self._cores = RefreshingCache[_Memberships, float | None](interval, forget_after)
        self._quotas = RefreshingCache[ControlGroup, float](interval, forget_after)
        self._cpus = RefreshingCache[ControlGroup, frozenset[int]](interval, forget_after)

    def cores(
        self, memberships: _Memberships, online: frozenset[int], now: Nanoseconds
    ) -> float | None:
        """Cores that the processes may use together.

        Returns:
            Cores; `None` if nothing limits them and the node's number is unknown.
        """
        return self._cores.get(memberships, now, lambda: self._allowed(memberships, online, now))

    def _allowed(
        self, memberships: _Memberships, online: frozenset[int], now: Nanoseconds
    ) -> float | None:
        quota = math.inf
        if all(membership.cpu_quota for membership in memberships):
            groups = outermost([membership.cpu_quota for membership in memberships])
            quota = cores_allowed(
                groups, lambda group: self._quotas.get(group, now, lambda: _quota(group))
            )
        sets = [
            frozenset[int]() if group is None else self._cpus.get(group, now, partial(_cpus, group))
            for group in (membership.cpu_set for membership in memberships)
        ]
        # A group without a CPU set may use all CPUs.
        cpus: frozenset[int] = frozenset().union(*sets) if all(sets) else online
        cores = min(quota, len(cpus) or math.inf)
        return cores if 0 < cores < math.inf else None


def cores_allowed(groups: Iterable[ControlGroup], quota: Callable[[ControlGroup], float]) -> float:
    """Joint CPU limit of groups: the tightest quota on each path to the root; else infinite."""
    level = dict.fromkeys(groups, math.inf)
    for depth in range(max((group.depth for group in level), default=-1), 0, -1):
        above: defaultdict[ControlGroup, float] = defaultdict(float)
        for group, inside in level.items():
            if group.depth < depth:
                above[group] = inside
            elif group.parent is not None:
                above[group.parent] += min(quota(group), inside)
        level = dict(above)
    return sum(min(quota(group), inside) for group, inside in level.items()) or math.inf


def _quota(group: ControlGroup) -> float:
    if group.is_unified:
        spent, _, period = (read_file(f"{group.folder}/cpu.max") or "").partition(" ")
    else:
        spent = str(read_integer(f"{group.folder}/cpu.cfs_quota_us"))
        period = str(read_integer(f"{group.folder}/cpu.cfs_period_us"))
    try:
        cores = int(spent) / int(period)
    except (ValueError, ZeroDivisionError):
        return math.inf  # `max`, or unreadable.
    # Version 1 reports -1 for no limit.
    return cores if cores > 0 else math.inf


def _cpus(group: ControlGroup) -> frozenset[int]:
    """CPU set of the nearest ancestor that has one."""
    unified = ("cpuset.cpus.effective",)
    former = ("cpuset.effective_cpus", "cpuset.cpus")
    files = [
        f"{control_group.folder}/{name}"
        for control_group in group.lineage
        for name in (unified if group.is_unified else former)
    ]
    return next(filter(None, (cpu_set(read_file(file) or "") for file in files)), frozenset())
