"""Waiting work against what is free and what could be: which pool serves what, what to do first.

Nothing is scheduled by it. Capacity is promised in the order of waiting time and never twice: what
the first in line gets, the next does not see.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from rightsizer.advice.judgement import Judgement
from rightsizer.domain.workload import WorkloadKind
from rightsizer.fleet.estate import Waiting
from rightsizer.fleet.pools.hourly import known_values
from rightsizer.fleet.pools.pool_room import PoolRoom, Step
from rightsizer.fleet.pools.pool_subject import kind_of, workloads_in
from rightsizer.fleet.pools.reclaim import reclaims_of
from rightsizer.fleet.pools.waiting import part_of
from rightsizer.fleet.view import EstateView, PoolView

__all__ = ["Offer", "Served", "broker"]

_PLACES: Final = 6
_SLURM_QUEUE: Final = "slurm"
"""The key of a queue whose partitions nobody tells."""


@dataclass(frozen=True, slots=True)
class Offer:
    """GPUs of one pool for a piece of waiting work."""

    pool: str
    gpus: float
    is_now: bool
    """Free at present; else after the steps."""
    nodes: tuple[tuple[str, float], ...]
    """GPUs by node."""
    steps: tuple[Step, ...] = ()
    """What to do first; a step that an earlier offer named is done once for both."""


@dataclass(frozen=True, slots=True)
class Served:
    """What a piece of waiting work could get."""

    waiting: Waiting
    offers: tuple[Offer, ...]
    memory_bytes: float | None
    """That a GPU must have for it, as far as anything tells."""

    @property
    def now_gpus(self) -> float:
        """That could be given at present."""
        return round(sum(each.gpus for each in self.offers if each.is_now), _PLACES)

    @property
    def after_gpus(self) -> float:
        """That could be given after the steps, beside those."""
        return round(sum(each.gpus for each in self.offers if not each.is_now), _PLACES)

    @property
    def left_gpus(self) -> float:
        """That nothing could give."""
        return max(0.0, round(self.waiting.gpus - self.now_gpus - self.after_gpus, _PLACES))


def broker(view: EstateView, judgements: Iterable[Judgement]) -> tuple[Served, ...]:
    """Each piece of waiting work with what it could get, whatever has waited longest first.

    Its own pool comes first, then others of the same scheduler whose boards have enough memory;
    free GPUs before those that a step would free, and of steps those with the fewest moves, the
    least disturbance by class, the most idle GPU-hours.

    Args:
        view: Pools, who holds them, and what waits.
        judgements: Verdicts, of which complaints that may become advice say what could be freed.
    """
    reclaims = reclaims_of(view, judgements)
    rooms = {
        pool.name: PoolRoom(
            pool,
            [each for each in reclaims if each.pool == pool.name],
            workloads_in(view, pool),
        )
        for pool in (view.pools if view.waiting else ())
    }
    needs = _Needs(view)
    return tuple(
        _serve(each, [rooms[name] for name in needs.pools_for(each)], needs.memory_of(each))
        for each in sorted(view.waiting, key=_turn)
    )


def _turn(waiting: Waiting) -> tuple[float, str, str]:
    """Longest first; who does not tell comes last."""
    known = waiting.since_seconds
    return (float("inf") if known is None else -known, waiting.key, waiting.pool)


def _serve(waiting: Waiting, rooms: Sequence[PoolRoom], memory_bytes: float | None) -> Served:
    left = waiting.gpus
    offers: list[Offer] = []
    for room in rooms:
        nodes = room.give_now(part_of(waiting, room.pool), left)
        given = sum(gpus for _, gpus in nodes)
        if nodes:
            offers.append(Offer(room.pool.name, round(given, _PLACES), True, tuple(nodes)))
            left = round(left - given, _PLACES)
    for room in rooms:
        while left > 0:
            part = min(part_of(waiting, room.pool), left)
            way = room.cheapest(part)
            if way is None:
                break
            given, steps = room.give_after(way, part, left)
            if not given:
                break
            nodes_after = ((way.node, given),)
            offers.append(Offer(room.pool.name, given, False, nodes_after, steps))
            left = round(left - given, _PLACES)
    return Served(waiting, tuple(offers), memory_bytes)


class _Needs:
    """What waiting work needs of a pool, by what is known of its like."""

    def __init__(self, view: EstateView) -> None:
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
        needed = self.memory_of(waiting)
        others = [
            pool.name
            for pool in self._pools.values()
            if pool.name != waiting.pool and self._may_serve(pool, waiting, needed)
        ]
        others.sort(key=lambda name: (self._memory[name] or float("inf"), name))
        own = self._pools.get(waiting.pool)
        return [*([own.name] if own and _is_large_enough(own, waiting) else ()), *others]

    def _may_serve(self, pool: PoolView, waiting: Waiting, needed: float | None) -> bool:
        kind, own = self._kinds[pool.name], _kind_of(waiting, self._kinds)
        memory = self._memory[pool.name]
        has_memory = needed is None or (memory is not None and memory >= needed)
        is_of_kind = kind is None or own is None or kind is own
        return has_memory and is_of_kind and _is_large_enough(pool, waiting)


def _is_large_enough(pool: PoolView, waiting: Waiting) -> bool:
    largest = max(pool.size_by_node.values(), default=0)
    return 0 < part_of(waiting, pool) <= largest


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
