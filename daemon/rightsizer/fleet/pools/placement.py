"""Placement of waiting work: which pool serves it, necessary steps, and why none does."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from math import inf
from typing import Final

from msgspec import Struct

from rightsizer.advice.rules.rule import Judgement
from rightsizer.fleet.model import FleetPool, FleetView, WaitingWork
from rightsizer.fleet.pools.hourly import known_values
from rightsizer.fleet.pools.pool import kind_of, part_of, workloads_in
from rightsizer.fleet.pools.pool_room import PoolRoom, ReclaimStep
from rightsizer.fleet.pools.reclaim import reclaims_of
from rightsizer.model.values import GIB, WorkloadKind
from rightsizer.report.labels import first_names

_SLURM_QUEUE: Final = "slurm"
"""Key of a queue whose partitions are unknown."""


class PoolObstacle(StrEnum):
    """Why a pool cannot serve a piece of waiting work, regardless of its free capacity."""

    CLUSTER = "cluster"
    """It belongs to another cluster."""
    SCHEDULER = "scheduler"
    """Another scheduler allocates its GPUs."""
    MEMORY = "memory"
    """Its GPUs have too little memory, or an unknown amount."""
    NODE = "node"
    """No node has enough GPUs for one part."""


class PoolChoice:
    """Pools that can serve waiting work, by the requirements of similar workloads."""

    def __init__(self, view: FleetView) -> None:
        self._pools = {pool.name: pool for pool in view.pools}
        self._kinds = {pool.name: kind_of(view, pool) for pool in view.pools}
        self._memory = {pool.name: _smallest(pool) for pool in view.pools}
        self._held = {
            workload.case.key: max(values) / len(workload.case.devices)
            for workload in view.workloads
            if (values := known_values(workload.memory_bytes)) and workload.case.devices
        }

    def memory_of(self, waiting: WaitingWork) -> float | None:
        """Return the peak GPU memory of similar work; else the memory of its own pool's GPUs."""
        held_memory = self._held.get(waiting.key)
        return self._memory.get(waiting.pool) if held_memory is None else held_memory

    def pools_for(self, waiting: WaitingWork) -> list[str]:
        """Return its own pool, then others, smallest GPUs first."""
        obstacles = self.obstacles(waiting)
        others = [name for name in self._pools if name != waiting.pool and name not in obstacles]
        others.sort(key=lambda name: (self._memory[name] or inf, name))
        pool = self._pools.get(waiting.pool)
        return [*([pool.name] if pool and pool.name not in obstacles else ()), *others]

    def obstacles(self, waiting: WaitingWork) -> Mapping[str, PoolObstacle]:
        """Return the pools that cannot serve it, each with its first obstacle."""
        needed = self.memory_of(waiting)
        pool_obstacles = {
            name: self._obstacle(pool, waiting, needed) for name, pool in self._pools.items()
        }
        return {name: obstacle for name, obstacle in pool_obstacles.items() if obstacle is not None}

    def _obstacle(
        self, pool: FleetPool, waiting: WaitingWork, needed: float | None
    ) -> PoolObstacle | None:
        if pool.cluster != waiting.cluster:
            return PoolObstacle.CLUSTER
        if pool.name != waiting.pool:
            kind = self._kinds[pool.name]
            workload_kind = self._kinds.get(waiting.pool)
            # A scheduler allocates only its own nodes.
            if waiting.namespace:
                workload_kind = WorkloadKind.KUBERNETES
            elif waiting.key in {waiting.pool, _SLURM_QUEUE, f"{waiting.cluster}/{_SLURM_QUEUE}"}:
                workload_kind = WorkloadKind.SLURM
            if kind is not None and workload_kind is not None and kind != workload_kind:
                return PoolObstacle.SCHEDULER
            memory = self._memory[pool.name]
            if needed is not None and (memory is None or memory < needed):
                return PoolObstacle.MEMORY
        fits = 0 < part_of(waiting, pool) <= pool.largest_node
        return None if fits else PoolObstacle.NODE


def _smallest(pool: FleetPool) -> float | None:
    """Return the memory of the smallest GPU of a pool, if known."""
    sizes = (device.device.memory_total_bytes for device in pool.devices if not device.device.mig)
    return min(filter(None, sizes), default=None)


_MOST_NAMED: Final = 3


def why_left(
    waiting: WaitingWork,
    tried: Sequence[FleetPool],
    obstacles: Mapping[str, PoolObstacle],
    memory_bytes: float | None,
) -> str:
    """Explain why the rest could not be placed: pools tried, then the others.

    Pools of other clusters are omitted: they cannot be chosen.
    """
    reasons = []
    if tried:
        named = first_names([pool.name for pool in tried], _MOST_NAMED)
        # If the part size is unknown, assume a node of its own pool.
        part = gpus_text(part_of(waiting, tried[0]))
        reasons.append(f"no node of {named} has {part} left, free or after any advice or move")
    gpus = waiting.gpus if waiting.gpus_each is None else waiting.gpus_each
    memory = f"not the {(memory_bytes or 0.0) / GIB:,.0f} GiB a GPU that it needs"
    for obstacle, one, many, why in (
        (PoolObstacle.NODE, "has", "have", f"no node of {gpus_text(gpus)}"),
        (PoolObstacle.MEMORY, "has", "have", memory),
        (PoolObstacle.SCHEDULER, "is", "are", "another scheduler's"),
    ):
        if count := Counter(obstacles.values())[obstacle]:
            reasons.append(f"1 pool {one} {why}" if count == 1 else f"{count} pools {many} {why}")
    return f"{'; '.join(reasons)}." if reasons else "No pool is known."


def gpus_text(count: float) -> str:
    """`2 GPUs`, `0.5 GPUs`."""
    return f"{count:,.4g} GPU{'' if count == 1 else 's'}"


_PLACES: Final = 6


class PoolOffer(Struct, frozen=True):
    """GPUs of one pool for a piece of waiting work."""

    pool: str
    gpus: float
    is_now: bool
    """Whether they are free now; otherwise after the steps."""
    nodes: tuple[tuple[str, float], ...]
    """GPUs by node."""
    steps: tuple[ReclaimStep, ...] = ()
    """Steps required first; a step also named by an earlier offer is done once for both."""


class WaitingOutcome(Struct, frozen=True):
    """Result for a piece of waiting work."""

    waiting: WaitingWork
    offers: tuple[PoolOffer, ...]
    memory_bytes: float | None
    """GPU memory that it requires, as far as known."""
    why_left: str = ""
    """Why the rest cannot be placed; empty if all is placed."""

    @property
    def now_gpus(self) -> float:
        """GPUs available now."""
        return round(sum(offer.gpus for offer in self.offers if offer.is_now), _PLACES)

    @property
    def after_gpus(self) -> float:
        """Additional GPUs available after the steps."""
        return round(sum(offer.gpus for offer in self.offers if not offer.is_now), _PLACES)

    @property
    def left_gpus(self) -> float:
        """GPUs that cannot be provided."""
        return max(0.0, round(self.waiting.gpus - self.now_gpus - self.after_gpus, _PLACES))


def place_waiting(view: FleetView, judgements: Iterable[Judgement]) -> tuple[WaitingOutcome, ...]:
    """Place each piece of waiting work, longest waiting first.

    Its own pool comes first, then others of the same scheduler whose GPUs have enough memory;
    free GPUs before those that a step would free; steps by fewest moves, least disturbance by
    class, then most idle GPU-hours.
    """
    reclaims = reclaims_of(view, judgements)
    rooms = {
        pool.name: PoolRoom(
            pool,
            [reclaim for reclaim in reclaims if reclaim.pool == pool.name],
            workloads_in(view, pool),
        )
        for pool in (view.pools if view.waiting else ())
    }
    choice = PoolChoice(view)

    def turn(waiting: WaitingWork) -> tuple[float, str, str]:
        since = waiting.since_seconds
        return inf if since is None else -since, waiting.key, waiting.pool

    return tuple(
        _serve(waiting_work, rooms, choice) for waiting_work in sorted(view.waiting, key=turn)
    )


def _serve(
    waiting: WaitingWork, all_rooms: Mapping[str, PoolRoom], choice: PoolChoice
) -> WaitingOutcome:
    rooms = [all_rooms[name] for name in choice.pools_for(waiting)]
    left = waiting.gpus
    offers: list[PoolOffer] = []
    for room in rooms:
        nodes = room.give_now(part_of(waiting, room.pool), left)
        given = sum(gpus for _, gpus in nodes)
        if nodes:
            offers.append(PoolOffer(room.pool.name, round(given, _PLACES), True, tuple(nodes)))
            left = round(left - given, _PLACES)
    for room in rooms:
        while left > 0:
            part = min(part_of(waiting, room.pool), left)
            if (way := room.cheapest(part)) is None:
                break
            given, steps = room.give_after(way, part, left)
            if not given:
                break
            offers.append(PoolOffer(room.pool.name, given, False, ((way.node, given),), steps))
            left = round(left - given, _PLACES)
    memory = choice.memory_of(waiting)
    tried = [room.pool for room in rooms]
    why = why_left(waiting, tried, choice.obstacles(waiting), memory) if left > 0 else ""
    return WaitingOutcome(waiting, tuple(offers), memory, why)
