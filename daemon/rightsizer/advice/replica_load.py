"""Replicas that a workload needs, per five minutes, from time-aligned sums."""

import math
from collections.abc import Iterable, Sequence
from functools import partial, reduce
from itertools import repeat
from operator import add, le
from typing import Annotated, Any, Final, NamedTuple

from msgspec import Struct

from rightsizer.advice.confidence import sizing_factors
from rightsizer.model.values import (
    BLOCK_SPAN,
    CONSTANT,
    DAY_SECONDS,
    Case,
    Measure,
    Nanoseconds,
    Resource,
    Series,
    Spec,
    deployment_of,
    seconds,
)

_NOISE_RATIO: Final = 0.01
_HISTORY_DAYS: Final = 3.0
"""docs/definitions.md, conduct."""
_PLACES: Final = 6
"""Digits to round a sum to, to remove float errors."""
_SEVERAL: Final = 2


class ReplicaSettings(Struct, frozen=True):
    """Thresholds for replicas that are needed.

    Attributes:
        busy_ratio: Utilization over five minutes from which a replica was in use.
            Source: docs/definitions.md, sources: idle below 1%
        light_ratio: Utilization up to which a replica hardly queues requests.
            Source: M/M/1: a third of a service time of waiting at a quarter of load; M/M/c
        apart_ratio: Share of busy time with only some GPUs busy from which each is a replica.
            Source: one five minutes in twenty; ranks of one model have none
    """

    busy_ratio: Annotated[float, CONSTANT] = 0.01
    light_ratio: Annotated[float, Spec(within=(0.01, 0.9)), CONSTANT] = 0.25
    apart_ratio: Annotated[float, CONSTANT] = 0.05


class ReplicaLoad(Struct, frozen=True):
    """Load of a workload, in replicas."""

    starts: tuple[Nanoseconds, ...]
    """Starts of the five-minute blocks with known data, oldest first."""
    held: tuple[int, ...]
    """Replicas present and measured."""
    needed: tuple[int, ...]
    """Those of them with work."""
    size: int
    """Maximum of simultaneous replicas; a replica that replaces another does not add one."""
    gpus_each: int
    busiest: int = 0
    """Replicas that the load of the worst moment would fill."""
    pooled: int = 0
    """Most that are needed at once, where requests wait for any replica rather than for one."""

    @property
    def known_seconds(self) -> float:
        """Time with at least one measured replica."""
        return len(self.starts) * seconds(BLOCK_SPAN)

    def saved_at_most(self, short_ratio: float) -> float:
        """Share of the replicas' time that any scaling saves which is short no longer than that."""
        missing = short_ratio * len(self.starts) * self.size
        return min(1.0, 1.0 - (sum(self.needed) - missing) / sum(self.held))

    def factors(self, case: Case, margin: float) -> dict[str, float]:
        """Confidence factors from the history of the group, rather than of a short-lived replica.

        The margin is that of `sizing_factors`.
        """
        span = max(1, (self.starts[-1] - self.starts[0]) // BLOCK_SPAN + 1)
        days = self.known_seconds / DAY_SECONDS
        return sizing_factors(case, margin) | {
            "coverage": len(self.starts) / span,
            "history": 1.0 - math.exp(-days / _HISTORY_DAYS),
            "samples": days / (days + 1.0),
        }


def replica_load(case: Case, settings: ReplicaSettings) -> ReplicaLoad | None:
    """Load over the windows of a case; `None` if unknown.

    Each device is a replica, unless they use NVLink or are always busy together, in which case all
    of them are one. Pods of a Deployment with one device each are always replicas.
    """
    devices = [window.blocks.series(Measure.BUSY) for window in case.windows]
    starts, held, busy, loads = _moments(devices, settings.busy_ratio)
    if not starts:
        return None
    size = max(held)
    if not _is_apart(case, busy, held, settings):
        return ReplicaLoad(starts, (1,) * len(starts), tuple(map(min, busy, repeat(1))), 1, size)
    if max(busy) < _SEVERAL:
        needed = tuple(busy)
        return ReplicaLoad(starts, held, needed, size, 1, busiest=max(busy), pooled=max(busy))
    together: dict[Nanoseconds, float] = {}
    if case.workload_window is not None:
        series = case.workload_window.blocks.series(Measure.BUSY)
        together = dict(zip(series.starts, series.peaks, strict=True))

    def enough(at_work: int, *loads: float) -> int:
        """Replicas that would do; one with any work at all is needed."""
        if at_work < _SEVERAL:
            return at_work
        return min(at_work, math.ceil(round(max(loads), _PLACES)))

    moments = [
        (at_work, load, together.get(start, size))
        for start, at_work, load in zip(starts, busy, loads, strict=True)
    ]
    light = settings.light_ratio
    busiest = max(enough(*moment) for moment in moments)
    pooled = _replicas_of_a_queue(max(load for _, load, _ in moments), max(busy), light)
    return ReplicaLoad(
        starts=starts,
        held=held,
        # Lightly loaded, and sufficient for the worst moment.
        needed=tuple(enough(at_work, load / light, peak) for at_work, load, peak in moments),
        size=size,
        gpus_each=1,
        busiest=busiest,
        pooled=max(busiest, pooled),
    )


def _replicas_of_a_queue(load: float, maximum: int, light_ratio: float) -> int:
    """Return how many queue requests no longer than a single one at its light load (Erlang C)."""
    allowed = light_ratio / (1.0 - light_ratio)
    blocked = 1.0
    for count in range(1, maximum):
        blocked = load * blocked / (count + load * blocked)
        left = count - load
        if left > 0.0 and count * blocked / (left + load * blocked) <= allowed * left:
            return count
    return maximum


def are_separate_pods(case: Case) -> bool:
    """Whether each of several devices is held by its own pod, all of one Deployment.

    Such pods are independent; parts of one model would share a pod, or have pods with ordinal
    numbers.
    """
    pods = [
        {
            held.workload.pod
            for held in (case.node.holdings.get(device.uuid, ()) if case.node else ())
            if held.workload.key == case.key
        }
        for device in case.devices
    ]
    single = [pod.pop() for pod in pods if len(pod) == 1]
    return len(single) == len(case.devices) == len(set(single)) > 1 and all(
        map(deployment_of, single)
    )


def _is_apart(
    case: Case, busy: Sequence[int], held: Sequence[int], settings: ReplicaSettings
) -> bool:
    if len(case.windows) == 1:
        return True
    links = [fit.resources.get(Resource.NVLINK) for fit in case.provisioning]
    if any(link is not None and (link.need or 0.0) > _NOISE_RATIO for link in links):
        return False
    if are_separate_pods(case):
        return True
    at_work = [pair for pair in zip(busy, held, strict=True) if pair[0] and pair[1] > 1]
    partly = sum(some < whole for some, whole in at_work)
    return bool(at_work) and partly >= settings.apart_ratio * len(at_work)


class _Moments(NamedTuple):
    """Blocks with known data, in columns."""

    starts: tuple[Nanoseconds, ...]
    held: tuple[int, ...]
    """Number of measured devices."""
    busy: Sequence[int]
    """Those at work."""
    loads: Sequence[float]
    """Sums of their means."""


def _moments(devices: Sequence[Series], busy_ratio: float) -> _Moments:
    first = devices[0]
    is_busy = partial(le, busy_ratio)
    if all(series.numbers == first.numbers for series in devices):
        starts = tuple(first.starts)
        at_work = (map(is_busy, series.means) for series in devices)
        busy = reduce(_added, at_work, [0] * len(starts))
        loads = reduce(_added, (series.means for series in devices))
        return _Moments(starts, (len(devices),) * len(starts), busy, loads)
    means_by_start: dict[Nanoseconds, list[float]] = {}
    for device in devices:
        for start, mean in zip(device.starts, device.means, strict=True):
            means_by_start.setdefault(start, []).append(mean)
    starts = tuple(sorted(means_by_start))
    means = [means_by_start[start] for start in starts]
    busy = [sum(map(is_busy, device_means)) for device_means in means]
    return _Moments(starts, tuple(map(len, means)), busy, list(map(sum, means)))


def _added(one: Iterable[float], other: Iterable[float]) -> list[Any]:
    return list(map(add, one, other))
