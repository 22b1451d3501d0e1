"""GPUs of a pool that were never needed, and which of its nodes they would be."""

import math
from dataclasses import dataclass
from typing import Final

from rightsizer.domain.settings import setting
from rightsizer.fleet.pools.hourly import known_values
from rightsizer.fleet.view import PoolView

__all__ = ["Spare", "SpareSettings", "spare_of"]

_PLACES: Final = 6


@dataclass(frozen=True, slots=True)
class SpareSettings:
    """How much room is left to a pool."""

    margin_ratio: float = setting(
        0.1,
        help="GPUs to keep beyond the most that were ever held at once, of these.",
        unit="ratio",
        minimum=0,
        maximum=2,
        source="a node that fails in a pool of ten",
    )


@dataclass(frozen=True, slots=True)
class Spare:
    """How many GPUs a pool could do without."""

    needed: int
    """The most that were held at once, at any moment that is known."""
    keep: int
    """With the margin."""
    gpus: int
    """Beyond that."""
    nodes: tuple[str, ...]
    """Whole nodes among those, the emptiest first."""


def spare_of(pool: PoolView, settings: SpareSettings) -> Spare:
    """What was never needed; nothing where nobody knows what was."""
    size = sum(pool.size_by_node.values())
    known = known_values(pool.held_peak)
    if not known:
        return Spare(size, size, 0, ())
    needed = math.ceil(round(max(known), _PLACES))
    keep = min(size, math.ceil(round(max(known) * (1 + settings.margin_ratio), _PLACES)))
    keep = max(keep, min(size, _held_now(pool)))
    return Spare(needed, keep, size - keep, _nodes(pool, size - keep))


def _held_now(pool: PoolView) -> int:
    sizes = pool.size_by_node
    return sum(max(0, size - pool.free_by_node.get(node, 0)) for node, size in sizes.items())


def _nodes(pool: PoolView, spare: int) -> tuple[str, ...]:
    """Those with least to move off them, as far as the spare GPUs reach."""
    by_work = sorted(
        pool.size_by_node,
        key=lambda node: (
            pool.size_by_node[node] - pool.free_by_node.get(node, 0),
            -_free_of_late(pool, node),
            node,
        ),
    )
    found, left = [], spare
    for node in by_work:
        size = pool.size_by_node[node]
        if 0 < size <= left:
            found.append(node)
            left -= size
    return tuple(found)


def _free_of_late(pool: PoolView, node: str) -> float:
    hours = pool.node_free.get(node)
    known = known_values(hours) if hours else []
    return sum(known) / len(known) if known else 0.0
