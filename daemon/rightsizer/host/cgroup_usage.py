"""Usage counters and CPU limits of control groups."""

import math
from collections import defaultdict
from collections.abc import Callable, Iterable
from functools import partial
from typing import Final, TypeAlias

from rightsizer.host.cache import RefreshingCache
from rightsizer.host.cgroups import ControlGroup, ControlGroupMembership, outermost
from rightsizer.host.files import cpu_set, read_file, read_integer
from rightsizer.host.rates import MonotonicCounter
from rightsizer.model.signal import Signal
from rightsizer.model.units import NANOSECONDS_PER_SECOND, Nanoseconds
from rightsizer.model.units import seconds as in_seconds

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
"""The second leaves out what groups inside have done; older kernels have no other."""


def core_seconds(group: ControlGroup, now: Nanoseconds) -> dict[Signal, MonotonicCounter]:
    """CPU time; its rate is the number of cores in use."""
    if group.is_unified:
        text = read_file(f"{group.folder}/cpu.stat") or ""
        if not text.startswith(_USAGE):
            return {}
        used, unit = text[len(_USAGE) :].partition("\n")[0], _MICROSECONDS_PER_SECOND
    else:
        used = read_file(f"{group.folder}/cpuacct.usage") or ""
        unit = NANOSECONDS_PER_SECOND
    try:
        return {Signal.CPU: MonotonicCounter(int(used) / unit, in_seconds(now))}
    except ValueError:
        return {}


def disk_bytes(
    group: ControlGroup, disks: frozenset[str], now: Nanoseconds
) -> dict[Signal, MonotonicCounter]:
    """Bytes read from and written to whole disks.

    Version 2 has nothing to say of a group that has done nothing, which is 0. Version 1 says the
    same where the kernel does not count, so there the group's first bytes are the beginning.

    Whole disks alone count: a volume repeats the disks below it.
    """
    lines = _disk_lines(group)
    if lines is None or not disks:
        return {}
    totals = {_READ: 0, _WRITE: 0}
    for device, key, count in lines:
        if device in disks and key in _KEYS and count.isdecimal():
            totals[_KEYS[key]] += int(count)
    return {signal: MonotonicCounter(total, in_seconds(now)) for signal, total in totals.items()}


def _disk_lines(group: ControlGroup) -> list[tuple[str, str, str]] | None:
    """Device, key and count of each number."""
    if group.is_unified:
        text = read_file(f"{group.folder}/io.stat")
        rows = [line.partition(" ") for line in (text or "").splitlines()]
        found = [(row[0], *field.partition("=")[::2]) for row in rows for field in row[2].split()]
        return None if text is None else found
    texts = (read_file(f"{group.folder}/{name}") for name in _BLKIO_FILES)
    text = next((text for text in texts if text is not None), "")
    lines = (line.split(" ", 2) for line in text.splitlines())
    # The last line, the sum of all, has no device.
    return [(line[0], line[1], line[2]) for line in lines if len(line) == _WORDS] or None


_Memberships: TypeAlias = frozenset[ControlGroupMembership]


class CpuLimits:
    """Quotas and CPU sets, looked up again now and then."""

    def __init__(self, interval: Nanoseconds, forget_after: Nanoseconds) -> None:
        self._cores: RefreshingCache[_Memberships, float | None] = RefreshingCache(
            interval, forget_after
        )
        self._quotas: RefreshingCache[ControlGroup, float] = RefreshingCache(interval, forget_after)
        self._cpus: RefreshingCache[ControlGroup, frozenset[int]] = RefreshingCache(
            interval, forget_after
        )

    def cores(
        self,
        memberships: frozenset[ControlGroupMembership],
        online: frozenset[int],
        now: Nanoseconds,
    ) -> float | None:
        """The cores that processes may use together.

        Returns:
            Cores; `None` where nothing limits them and the node's are unknown.
        """
        return self._cores.get(memberships, now, lambda: self._allowed(memberships, online, now))

    def _allowed(
        self,
        memberships: frozenset[ControlGroupMembership],
        online: frozenset[int],
        now: Nanoseconds,
    ) -> float | None:
        quota = math.inf
        if all(each.cpu_quota for each in memberships):
            groups = outermost([each.cpu_quota for each in memberships])
            quota = cores_allowed(
                groups, lambda group: self._quotas.get(group, now, lambda: _quota(group))
            )
        sets = [
            frozenset[int]() if group is None else self._cpus.get(group, now, partial(_cpus, group))
            for group in (each.cpu_set for each in memberships)
        ]
        # A group without a set of its own may use whatever is there.
        cpus: frozenset[int] = frozenset().union(*sets) if all(sets) else online
        cores = min(quota, len(cpus) or math.inf)
        return cores if 0 < cores < math.inf else None


def cores_allowed(groups: Iterable[ControlGroup], quota: Callable[[ControlGroup], float]) -> float:
    """What groups may use together: the tightest quota on each way up counts; infinite without."""
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
        return math.inf  # `max`, or nothing at all.
    # Version 1 says -1 where there is no limit.
    return cores if cores > 0 else math.inf


def _cpus(group: ControlGroup) -> frozenset[int]:
    """Of the nearest group that has a set: not every one has."""
    names = (
        ("cpuset.cpus.effective",) if group.is_unified else ("cpuset.effective_cpus", "cpuset.cpus")
    )
    for each in group.lineage:
        for name in names:
            found = cpu_set(read_file(f"{each.folder}/{name}") or "")
            if found:
                return found
    return frozenset()
