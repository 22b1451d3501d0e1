"""Which pools may serve a piece of waiting work, and what stands in the way of the others."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from rightsizer.domain.workload import WorkloadKind
from rightsizer.fleet.estate import Waiting
from rightsizer.fleet.pools.hourly import known_values
from rightsizer.fleet.pools.pool_subject import kind_of
from rightsizer.fleet.pools.waiting import part_of
from rightsizer.fleet.view import EstateView, PoolView

__all__ = ["Obstacle", "PoolChoice"]

_SLURM_QUEUE: Final = "slurm"
"""The key of a queue whose partitions nobody tells."""


class Obstacle(StrEnum):
    """Why a pool cannot serve a piece of waiting work, whatever is free of it."""

    SCHEDULER = "scheduler"
    """Another one hands its GPUs out."""
    MEMORY = "memory"
    """Its GPUs have too little, or nobody knows how much."""
    NODE = "node"
    """No node of it has as many GPUs as one part takes."""


class PoolChoice:
    """What waiting work needs of a pool, by what is known of its like."""

    def __init__(self, view: EstateView) -> None:
        """Of an estate.

        Args:
            view: Its pools, and who holds them.
        """
        self._pools = {pool.name: pool for pool in view.pools}
        self._memory = {pool.name: _memory_of(pool) for pool in view.pools}
        self._kinds = {pool.name: kind_of(view, pool) for pool in view.pools}
        self._held: dict[str, float] = {}
        for each in view.workloads:
            peak = max(known_values(each.memory_bytes), default=None)
            count = len(each.case.devices)
            if peak is not None and count:
                self._held[each.case.key] = peak / count

    def memory_of(self, waiting: Waiting) -> float | None:
        """What more of the same holds at most on a GPU; else what its own pool's GPUs have."""
        found = self._held.get(waiting.key)
        return self._memory.get(waiting.pool) if found is None else found

    def pools_for(self, waiting: Waiting) -> list[str]:
        """Its own, then others: those whose GPUs are smallest first, which are missed least."""
        obstacles = self.obstacles(waiting)
        others = [name for name in self._pools if name != waiting.pool and name not in obstacles]
        others.sort(key=lambda name: (self._memory[name] or float("inf"), name))
        own = self._pools.get(waiting.pool)
        return [*([own.name] if own and own.name not in obstacles else ()), *others]

    def obstacles(self, waiting: Waiting) -> Mapping[str, Obstacle]:
        """The pools that may not serve it, each with the first thing that is in the way."""
        needed = self.memory_of(waiting)
        found = {name: self._obstacle(pool, waiting, needed) for name, pool in self._pools.items()}
        return {name: obstacle for name, obstacle in found.items() if obstacle is not None}

    def _obstacle(self, pool: PoolView, waiting: Waiting, needed: float | None) -> Obstacle | None:
        if pool.name != waiting.pool:
            kind, own = self._kinds[pool.name], _kind_of(waiting, self._kinds)
            if kind is not None and own is not None and kind is not own:
                return Obstacle.SCHEDULER
            memory = self._memory[pool.name]
            if needed is not None and (memory is None or memory < needed):
                return Obstacle.MEMORY
        largest = max(pool.size_by_node.values(), default=0)
        return None if 0 < part_of(waiting, pool) <= largest else Obstacle.NODE


def _memory_of(pool: PoolView) -> float | None:
    """Of its smallest GPU."""
    known = [
        each.device.memory_total_bytes
        for each in pool.devices
        if each.device.mig is None and each.device.memory_total_bytes is not None
    ]
    return min(known, default=None)


def _kind_of(waiting: Waiting, kinds: Mapping[str, WorkloadKind | None]) -> WorkloadKind | None:
    """Whose queue it is in; a scheduler hands out its own nodes alone."""
    if waiting.namespace:
        return WorkloadKind.KUBERNETES
    if waiting.key in {waiting.pool, _SLURM_QUEUE}:
        return WorkloadKind.SLURM
    return kinds.get(waiting.pool)
