"""Waiting work against what is free and what could be: which pool serves what, what to do first.

Nothing is scheduled by it. Capacity is promised in the order of waiting time and never twice: what
the first in line gets, the next does not see.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from rightsizer.advice.judgement import Judgement
from rightsizer.fleet.estate import Waiting
from rightsizer.fleet.pools.pool_choice import PoolChoice
from rightsizer.fleet.pools.pool_room import PoolRoom, Step
from rightsizer.fleet.pools.pool_subject import workloads_in
from rightsizer.fleet.pools.reclaim import reclaims_of
from rightsizer.fleet.pools.shortfall import why_left
from rightsizer.fleet.pools.waiting import part_of
from rightsizer.fleet.view import EstateView

__all__ = ["Offer", "Served", "broker"]

_PLACES: Final = 6


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
    why_left: str = ""
    """Why nothing could give the rest; empty where there is none."""

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
    choice = PoolChoice(view)
    return tuple(_serve(each, rooms, choice) for each in sorted(view.waiting, key=_turn))


def _turn(waiting: Waiting) -> tuple[float, str, str]:
    """Longest first; who does not tell comes last."""
    known = waiting.since_seconds
    return (float("inf") if known is None else -known, waiting.key, waiting.pool)


def _serve(waiting: Waiting, all_rooms: Mapping[str, PoolRoom], choice: PoolChoice) -> Served:
    rooms = [all_rooms[name] for name in choice.pools_for(waiting)]
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
    memory, why = choice.memory_of(waiting), ""
    if left > 0:
        tried = [room.pool for room in rooms]
        why = why_left(waiting, tried, choice.obstacles(waiting), memory)
    return Served(waiting, tuple(offers), memory, why)
