"""The smallest set of moves that makes room for a whole job on one node."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Final

__all__ = ["Defragmentation", "Move", "Resident", "is_fragmented", "room_for"]

_MOST_RESIDENTS: Final = 12
"""Subsets of twelve are 4096; a node with more is one that packs small work already."""
_MOST_MOVES: Final = 4
"""Nobody moves more than that for one job."""


@dataclass(frozen=True, slots=True, order=True)
class Resident:
    """Work that is on one node alone and may be started elsewhere."""

    gpus: int
    key: str


@dataclass(frozen=True, slots=True)
class Move:
    """One piece of work from node to node."""

    key: str
    gpus: int
    source: str
    target: str


@dataclass(frozen=True, slots=True)
class Defragmentation:
    """Moves that leave a node with enough free GPUs."""

    node: str
    moves: tuple[Move, ...]


def is_fragmented(free: Mapping[str, float], wanted: int) -> bool:
    """Whether there are enough GPUs, and not on any one node."""
    return sum(free.values()) >= wanted > max(free.values(), default=0.0)


def room_for(
    wanted: int, free: Mapping[str, int], residents: Mapping[str, Sequence[Resident]]
) -> Defragmentation | None:
    """The fewest moves, then the fewest GPUs moved, that free so many on one node.

    Args:
        wanted: GPUs that one job takes on a node.
        free: By node, what nobody holds.
        residents: By node, what may be moved off it.
    """
    best: tuple[int, int, str] | None = None
    found: Defragmentation | None = None
    for node in sorted(free):
        for chosen in _enough(wanted - free[node], residents.get(node, ())):
            rank = (len(chosen), sum(each.gpus for each in chosen), node)
            if best is not None and rank >= best:
                continue
            moves = _placed(node, chosen, free)
            if moves is not None:
                best, found = rank, Defragmentation(node, moves)
    return found


def _enough(missing: int, residents: Sequence[Resident]) -> Iterator[tuple[Resident, ...]]:
    """Subsets that free what is missing, the smallest first."""
    ordered = sorted(residents)[:_MOST_RESIDENTS]
    for count in range(1, min(_MOST_MOVES, len(ordered)) + 1):
        for chosen in combinations(ordered, count):
            if sum(each.gpus for each in chosen) >= missing:
                yield chosen


def _placed(
    node: str, chosen: Sequence[Resident], free: Mapping[str, int]
) -> tuple[Move, ...] | None:
    """The largest first, each where it leaves the least; `None` where one finds no place."""
    left = {other: gpus for other, gpus in free.items() if other != node}
    moves = []
    for each in sorted(chosen, reverse=True):
        fitting = [(gpus, other) for other, gpus in left.items() if gpus >= each.gpus]
        if not fitting:
            return None
        gpus, target = min(fitting)
        left[target] = gpus - each.gpus
        moves.append(Move(each.key, each.gpus, node, target))
    return tuple(moves)
