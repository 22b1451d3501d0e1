"""How many cores control groups may use: quotas and CPU sets on the way up to the root."""

import math
from collections import defaultdict
from collections.abc import Callable, Iterable

from rightsizer.domain.units import Nanoseconds
from rightsizer.telemetry.host.control_group import ControlGroup, Seat, outermost
from rightsizer.telemetry.host.kept import Kept
from rightsizer.telemetry.host.text import cpu_list, read, whole_number

__all__ = ["Limits", "cores_allowed"]


class Limits:
    """Quotas and CPU sets, looked up again now and then."""

    def __init__(self, interval: Nanoseconds, forget_after: Nanoseconds) -> None:
        """Reads nothing before it is asked."""
        self._cores: Kept[frozenset[Seat], float | None] = Kept(interval, forget_after)
        self._quotas: Kept[ControlGroup, float] = Kept(interval, forget_after)
        self._cpus: Kept[ControlGroup, frozenset[int]] = Kept(interval, forget_after)

    def cores(
        self, seats: frozenset[Seat], online: frozenset[int], now: Nanoseconds
    ) -> float | None:
        """What those in some seats may use together.

        Args:
            seats: Where they sit.
            online: The node's CPUs; none where they are not known.
            now: The time of the look.

        Returns:
            Cores; `None` where nothing limits them and nobody knows the node's.
        """
        return self._cores.get(seats, now, lambda: self._allowed(seats, online, now))

    def _allowed(
        self, seats: frozenset[Seat], online: frozenset[int], now: Nanoseconds
    ) -> float | None:
        quota = math.inf
        if all(seat.cpu_quota for seat in seats):
            groups = outermost([seat.cpu_quota for seat in seats])
            quota = cores_allowed(
                groups, lambda group: self._quotas.get(group, now, lambda: _quota(group))
            )
        sets = [self._set(seat.cpu_set, now) for seat in seats]
        # A group without a set of its own may use whatever is there.
        cpus: frozenset[int] = frozenset().union(*sets) if all(sets) else online
        cores = min(quota, len(cpus) or math.inf)
        return cores if 0 < cores < math.inf else None

    def _set(self, group: ControlGroup | None, now: Nanoseconds) -> frozenset[int]:
        if group is None:
            return frozenset()
        return self._cpus.get(group, now, lambda: _cpus(group))


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
        spent, _, period = (read(f"{group.folder}/cpu.max") or "").partition(" ")
    else:
        spent = str(whole_number(f"{group.folder}/cpu.cfs_quota_us"))
        period = str(whole_number(f"{group.folder}/cpu.cfs_period_us"))
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
            found = cpu_list(read(f"{each.folder}/{name}") or "")
            if found:
                return found
    return frozenset()
