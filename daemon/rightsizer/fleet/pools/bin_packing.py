"""Small workloads on as few GPUs as hold them, by sums of the same hours.

First fit decreasing: the largest first, each on the first GPU that has room for it at every hour.
What no arrangement at all could go below is told beside it.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import add
from typing import Final

from rightsizer.model.settings import setting

_PLACES: Final = 9


@dataclass(frozen=True, slots=True)
class PackingLimits:
    """What workloads may take of one GPU together."""

    compute_ratio: float = setting(
        0.9,
        help="Compute that workloads on one GPU may need at the same hour, at most.",
        unit="ratio",
        minimum=0.1,
        maximum=1,
        source="a tenth beyond the worst hour that was seen",
    )
    memory_ratio: float = setting(
        0.9,
        help="Memory that workloads on one GPU may hold at the same hour, at most.",
        unit="ratio",
        minimum=0.1,
        maximum=1,
        source="a context each, and growth of a tenth",
    )
    most_together: int = setting(
        4,
        help="Workloads on one GPU, at most; a fault of one may end them all.",
        minimum=2,
        maximum=48,
        source="assumed; MPS serves 48 clients",
    )


@dataclass(frozen=True)
class HourlyLoad:
    """What one workload took by the hour, as shares of a GPU; hours are those of all the others."""

    key: str
    compute: Sequence[float]
    memory: Sequence[float]

    @cached_property
    def size(self) -> float:
        """By what the largest is told."""
        return max(max(self.compute, default=0.0), max(self.memory, default=0.0))

    @cached_property
    def worst_hour(self) -> int:
        """Of its compute."""
        return max(range(len(self.compute)), key=self.compute.__getitem__, default=0)


@dataclass(frozen=True, slots=True)
class Packed:
    """Who goes with whom."""

    bins: tuple[tuple[str, ...], ...]
    """Keys on each GPU; every workload is on exactly one."""
    at_least: int
    """GPUs that no arrangement could go below."""

    @property
    def freed(self) -> int:
        """GPUs that are free then, where each workload has its own now."""
        return sum(map(len, self.bins)) - len(self.bins)


def pack(loads: Iterable[HourlyLoad], limits: PackingLimits) -> Packed:
    """An arrangement in which no GPU is beyond its limits at any hour.

    A workload that is beyond them by itself stays alone.
    """
    ordered = sorted(loads, key=lambda each: (-each.size, each.key))
    bins: list[_Bin] = []
    has_room: list[_Bin] = []
    for load in ordered:
        found = next((each for each in has_room if each.admits(load, limits)), None)
        if found is None:
            found = _Bin()
            bins.append(found)
            has_room.append(found)
        found.take(load)
        if len(found.keys) >= limits.most_together:
            has_room.remove(found)
    return Packed(tuple(tuple(each.keys) for each in bins), lower_bound(ordered, limits))


def lower_bound(loads: Sequence[HourlyLoad], limits: PackingLimits) -> int:
    """GPUs without which some hour has no room for all that was taken in it.

    Those that are too large by themselves take one each; no other can be beside them.
    """
    alone = [each for each in loads if not _fits(each.compute, each.memory, limits)]
    rest = [each for each in loads if _fits(each.compute, each.memory, limits)]
    if not rest:
        return len(alone)
    compute = max(map(sum, zip(*(each.compute for each in rest), strict=True)), default=0.0)
    memory = max(map(sum, zip(*(each.memory for each in rest), strict=True)), default=0.0)
    least = max(
        compute / limits.compute_ratio,
        memory / limits.memory_ratio,
        len(rest) / limits.most_together,
    )
    return len(alone) + max(1, math.ceil(round(least, _PLACES)))


class _Bin:
    """One GPU, and what is on it hour by hour."""

    def __init__(self) -> None:
        self.keys: list[str] = []
        self._compute: Sequence[float] = ()
        self._memory: Sequence[float] = ()

    def admits(self, load: HourlyLoad, limits: PackingLimits) -> bool:
        """Whether there is room at every hour; mostly the load's own worst hour tells."""
        at = load.worst_hour
        if self._compute and self._compute[at] + load.compute[at] > limits.compute_ratio:
            return False
        compute = map(add, self._compute, load.compute)
        memory = map(add, self._memory, load.memory)
        return _fits(compute, memory, limits)

    def take(self, load: HourlyLoad) -> None:
        self._compute = list(map(add, self._compute, load.compute)) if self.keys else load.compute
        self._memory = list(map(add, self._memory, load.memory)) if self.keys else load.memory
        self.keys.append(load.key)


def _fits(compute: Iterable[float], memory: Iterable[float], limits: PackingLimits) -> bool:
    return (
        max(compute, default=0.0) <= limits.compute_ratio
        and max(memory, default=0.0) <= limits.memory_ratio
    )
