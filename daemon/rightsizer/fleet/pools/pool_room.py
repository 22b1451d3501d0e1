"""Room of a pool: bin packing of work onto nodes, and free capacity."""

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import cached_property
from operator import add
from typing import Annotated, Final

from msgspec import Struct

from rightsizer.fleet.model import FleetPool, FleetWorkload
from rightsizer.fleet.pools.reclaim import (
    Defragmentation,
    Reclaim,
    disruption_of,
    residents_of,
    room_for,
)
from rightsizer.model.values import Action, Spec

_PACKING_PLACES: Final = 9


class PackingLimits(Struct, frozen=True):
    """Limits for several workloads on one GPU.

    Attributes:
        compute_ratio: Maximum compute that workloads on one GPU need in the same hour.
            Source: a tenth beyond the worst hour that was seen
        memory_ratio: Maximum memory that workloads on one GPU hold in the same hour.
            Source: a context each, and growth of a tenth
        most_together: Maximum workloads on one GPU; a fault of one may end all.
            Source: assumed; MPS serves 48 clients
    """

    compute_ratio: Annotated[float, Spec(within=(0.1, 1))] = 0.9
    memory_ratio: Annotated[float, Spec(within=(0.1, 1))] = 0.9
    most_together: Annotated[int, Spec(within=(2, 48))] = 4


class HourlyLoad(Struct, frozen=True, dict=True):
    """Hourly usage of one workload, as shares of a GPU; all loads have the same hours."""

    key: str
    compute: Sequence[float]
    memory: Sequence[float]

    @cached_property
    def size(self) -> float:
        """Sort key of loads."""
        return max(max(self.compute, default=0.0), max(self.memory, default=0.0))

    @cached_property
    def worst_hour(self) -> int:
        """Hour of the highest compute."""
        return max(range(len(self.compute)), key=self.compute.__getitem__, default=0)


class Packed(Struct, frozen=True):
    """Arrangement of workloads on GPUs."""

    bins: tuple[tuple[str, ...], ...]
    """Keys of workloads on each GPU; each workload is on exactly one."""
    at_least: int
    """Lower bound of GPUs over all arrangements."""


def pack(loads: Iterable[HourlyLoad], limits: PackingLimits) -> Packed:
    """Pack workloads so that no GPU exceeds its limits at any hour.

    A workload that exceeds them by itself stays alone.
    """
    ordered = sorted(loads, key=lambda hourly_load: (-hourly_load.size, hourly_load.key))
    bins: list[_Bin] = []
    has_room: list[_Bin] = []
    for load in ordered:
        gpu = next((candidate for candidate in has_room if candidate.admits(load, limits)), None)
        if gpu is None:
            gpu = _Bin()
            bins.append(gpu)
            has_room.append(gpu)
        gpu.take(load)
        if len(gpu.keys) >= limits.most_together:
            has_room.remove(gpu)
    return Packed(tuple(tuple(gpu.keys) for gpu in bins), lower_bound(ordered, limits))


def lower_bound(loads: Sequence[HourlyLoad], limits: PackingLimits) -> int:
    """Return the lower bound of GPUs, by the hour with the highest total usage.

    Each workload that exceeds the limits by itself takes one GPU alone.
    """
    rest = [load for load in loads if _fits(load.compute, load.memory, limits)]
    alone = len(loads) - len(rest)
    if not rest:
        return alone
    compute = max(
        map(sum, zip(*(hourly_load.compute for hourly_load in rest), strict=True)), default=0.0
    )
    memory = max(
        map(sum, zip(*(hourly_load.memory for hourly_load in rest), strict=True)), default=0.0
    )
    together = len(rest) / limits.most_together
    least = max(compute / limits.compute_ratio, memory / limits.memory_ratio, together)
    return alone + max(1, math.ceil(round(least, _PACKING_PLACES)))


class _Bin:
    def __init__(self) -> None:
        self.keys: list[str] = []
        self._compute: Sequence[float] = ()
        self._memory: Sequence[float] = ()

    def admits(self, load: HourlyLoad, limits: PackingLimits) -> bool:
        """Whether there is room at every hour; the load's worst hour usually decides."""
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


_PLACES: Final = 6
_MOST_MOVE_PLANS: Final = 4
"""For one pool: each considers all nodes, and more are never emptied at once."""
Cost = tuple[int, int, float, int, str]
"""Moves, disruption, idle GPU-hours (negative, so the most comes first), steps, node."""


class ReclaimStep(Struct, frozen=True):
    """One step required first."""

    action: Action
    advice: str
    """Advice id; empty if it comes from no advice."""
    workloads: tuple[str, ...]
    frees: tuple[tuple[str, int], ...]
    """Whole GPUs by node."""
    target: str = ""
    """Node to which work is moved."""


class RoomOption(Struct, frozen=True):
    """Way to make room for one part on a node."""

    node: str
    cost: Cost
    reclaims: tuple[Reclaim, ...] = ()
    moves: Defragmentation | None = None


class GpuParts:
    """Parts of GPUs of one node that are free, each of another GPU."""

    def __init__(self, whole: int = 0, shared: Iterable[float] = ()) -> None:
        self._parts = [1.0] * whole + list(shared)

    @property
    def gpus(self) -> float:
        """Sum of all parts."""
        return sum(self._parts)

    @property
    def whole(self) -> int:
        """Number of whole GPUs."""
        return sum(part >= 1.0 for part in self._parts)

    def add(self, gpus: int) -> None:
        """Add whole GPUs."""
        self._parts += [1.0] * gpus

    def fits(self, piece: float) -> bool:
        """Whether a part of one GPU fits in what is left of one."""
        return any(round(part - piece, _PLACES) >= 0 for part in self._parts)

    def take(self, piece: float) -> bool:
        """Take whole GPUs, or a part of one, from where it leaves least; return whether it fits."""
        if piece >= 1.0:
            wanted = math.ceil(piece)
            if fits := self.whole >= wanted:
                self._parts.sort(reverse=True)
                del self._parts[:wanted]
            return fits
        # Rounding of thirds may leave slightly less than zero, which means no room.
        fitting = [part for part in self._parts if round(part - piece, _PLACES) >= 0]
        if piece > 0 and fitting:
            tightest = min(fitting)
            self._parts.remove(tightest)
            self._parts.append(max(0.0, round(tightest - piece, _PLACES)))
        return piece <= 0 or bool(fitting)


class PoolRoom:
    """Free capacity of a pool, reserved piece by piece."""

    def __init__(
        self, pool: FleetPool, reclaims: Iterable[Reclaim], workloads: Iterable[FleetWorkload]
    ) -> None:
        self.pool = pool
        self._free = defaultdict(
            GpuParts,
            {
                node: GpuParts(pool.free_by_node.get(node, 0), pool.shared_room.get(node, ()))
                for node in (*pool.free_by_node, *pool.shared_room)
            },
        )
        self._freed: defaultdict[str, GpuParts] = defaultdict(GpuParts)
        self._steps: defaultdict[str, list[ReclaimStep]] = defaultdict(list)
        self._reclaims: defaultdict[str, list[Reclaim]] = defaultdict(list)
        for reclaim in sorted(
            reclaims,
            key=lambda one: (one.moves, one.disruption, -one.idle_gpu_hours, one.workloads),
        ):
            for node in reclaim.gpus_by_node:
                self._reclaims[node].append(reclaim)
        self._gone: set[str] = set()
        self._movable = [workload for workload in workloads if workload.is_movable]
        self._move_plans = 0

    def give_now(self, part: float, gpus: float) -> list[tuple[str, float]]:
        """Reserve up to `gpus` free GPUs by node, in parts, fullest nodes first."""
        given: list[tuple[str, float]] = []
        for node in sorted(self._free, key=lambda name: (self._free[name].gpus, name)):
            here = 0.0
            while gpus > 0 and (piece := min(part, gpus)) and self._free[node].take(piece):
                here += piece
                gpus = round(gpus - piece, _PLACES)
            if here:
                given.append((node, round(here, _PLACES)))
        return given

    def cheapest(self, part: float) -> RoomOption | None:
        """Return the least disruptive way to make room for one part; `None` if there is none."""
        left = [node for node, freed in sorted(self._freed.items()) if freed.fits(part)]
        if part < 1.0 and left:
            # The rest of a GPU that the steps so far free.
            return RoomOption(left[0], (0, -1, 0.0, 0, left[0]))
        wanted = math.ceil(part)
        ways = (self._way(node, wanted) for node in {*self._reclaims, *self._freed})
        best = min(filter(None, ways), key=lambda way: way.cost, default=None)
        is_cheap = best is not None and best.cost[0] == 0
        if wanted > 1 and not is_cheap and self._move_plans < _MOST_MOVE_PLANS:
            self._move_plans += 1
            option = self._by_moves(wanted)
            if option is not None and (best is None or option.cost < best.cost):
                return option
        return best

    def give_after(
        self, way: RoomOption, part: float, gpus: float
    ) -> tuple[float, tuple[ReclaimStep, ...]]:
        """Apply an option and reserve the room it makes on its node; return all its steps."""
        for reclaim in way.reclaims:
            self._gone.update(reclaim.workloads)
            frees = tuple(reclaim.gpus_by_node.items())
            self._note(ReclaimStep(reclaim.action, reclaim.advice, reclaim.workloads, frees))
        for move in () if way.moves is None else way.moves.moves:
            self._gone.add(move.key)
            self._free[move.target].take(move.gpus)
            frees = ((move.source, move.gpus),)
            self._note(ReclaimStep(Action.MOVE_GPUS, "", (move.key,), frees, move.target))
        given = 0.0
        while gpus > 0 and (piece := min(part, gpus)) and self._take_any(way.node, piece):
            given += piece
            gpus = round(gpus - piece, _PLACES)
        return round(given, _PLACES), tuple(self._steps[way.node])

    def _take_any(self, node: str, piece: float) -> bool:
        if self._freed[node].take(piece):
            return True
        wanted = math.ceil(piece)
        freed = self._freed[node].whole
        if self._whole(node) < wanted:
            return False
        self._freed[node].take(freed)
        return self._free[node].take(wanted - freed)

    def _whole(self, node: str) -> int:
        """Return the whole GPUs of a node that are free, or freed by the steps so far."""
        return self._free[node].whole + self._freed[node].whole

    def _way(self, node: str, wanted: int) -> RoomOption | None:
        have = self._whole(node)
        chosen: list[Reclaim] = []
        for reclaim in self._reclaims[node]:
            if have >= wanted:
                break
            if self._gone.isdisjoint(reclaim.workloads):
                chosen.append(reclaim)
                have += reclaim.gpus_by_node[node]
        if have < wanted:
            return None
        disruption = max((reclaim.disruption for reclaim in chosen), default=-1)
        idle_hours = sum(reclaim.idle_gpu_hours for reclaim in chosen)
        moves = sum(reclaim.moves for reclaim in chosen)
        return RoomOption(node, (moves, disruption, -idle_hours, len(chosen), node), tuple(chosen))

    def _by_moves(self, wanted: int) -> RoomOption | None:
        free = {node: parts.whole for node, parts in self._free.items()}
        if sum(free.values()) < wanted:
            return None
        left = {
            workload.case.key: workload
            for workload in self._movable
            if workload.case.key not in self._gone
        }
        defragmentation = room_for(wanted, free, residents_of(left.values()))
        if defragmentation is None:
            return None
        disruption = max(disruption_of(left[move.key]) for move in defragmentation.moves)
        count = len(defragmentation.moves)
        return RoomOption(
            defragmentation.node,
            (count, disruption, 0.0, count, defragmentation.node),
            (),
            defragmentation,
        )

    def _note(self, step: ReclaimStep) -> None:
        for node, gpus in step.frees:
            self._freed[node].add(gpus)
            self._steps[node].append(step)
