"""How many nodes a pool needed, hour by hour, were its work packed onto as few as would do."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

from rightsizer.advice.replica_load import ReplicaLoad
from rightsizer.domain.block import BLOCK_SPAN
from rightsizer.fleet.pools.hourly import HOUR, known_values
from rightsizer.fleet.view import Hours, PoolView

__all__ = ["NodeLoad", "node_load"]

_PLACES = 6
_WHOLE = 1e-6


@dataclass(frozen=True, slots=True)
class NodeLoad:
    """A pool's load, counted in nodes."""

    load: ReplicaLoad
    """By five minutes, each as the worst moment of its hour."""
    empty_ratio: float
    """Part of the nodes' time in which a whole node was empty as the work was placed."""


def node_load(pool: PoolView) -> NodeLoad | None:
    """The load of a pool whose nodes are alike; `None` where they are not, or nothing is known."""
    sizes = {size for size in pool.size_by_node.values() if size}
    if len(sizes) != 1 or not known_values(pool.held_peak):
        return None
    (each,) = sizes
    nodes = len(pool.size_by_node)
    starts: list[int] = []
    held: list[int] = []
    needed: list[int] = []
    for at, peak in enumerate(pool.held_peak.values):
        if peak is None:
            continue
        present = pool.present.values[at] if at < len(pool.present.values) else None
        there = nodes if present is None else min(nodes, _nodes(present, each))
        blocks = range(pool.held_peak.start + at * HOUR, pool.held_peak.start + (at + 1) * HOUR)
        starts.extend(blocks[::BLOCK_SPAN])
        held.extend([there] * (HOUR // BLOCK_SPAN))
        needed.extend([min(there, _nodes(peak, each))] * (HOUR // BLOCK_SPAN))
    load = ReplicaLoad(tuple(starts), tuple(held), tuple(needed), nodes, each)
    return NodeLoad(load, _empty_ratio(pool, each))


def _nodes(gpus: float, each: int) -> int:
    return math.ceil(round(gpus / each, _PLACES))


def _empty_ratio(pool: PoolView, each: int) -> float:
    """Of all nodes; those of which nothing is known were never empty."""
    found = [_part(pool.node_free.get(node), each) for node in pool.size_by_node]
    return sum(found) / len(found)


def _part(hours: Hours | None, each: int) -> float:
    known: Iterable[float] = known_values(hours) if hours else ()
    empty = [value >= each - _WHOLE for value in known]
    return sum(empty) / len(empty) if empty else 0.0
