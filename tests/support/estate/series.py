"""The samples of the fleet, one stretch of time after the other to bound memory."""

from array import array
from collections.abc import Iterator, Sequence
from itertools import accumulate

from msgspec import Struct

from estate.character import SLOTS, Character
from estate.life import Gpu, Life, Part

__all__ = ["Counters", "Pairs", "Piece", "Run", "pieces", "sliced"]

Pairs = tuple[tuple[str, str], ...]


class Run(Struct, frozen=True):
    """Consecutive samples of one series."""

    name: str
    labels: Pairs
    first: int
    """The slot that ends with the first value."""
    values: Sequence[float]
    """One a slot."""
    before: float | None = None
    """A counter's value at the start of the first slot; `None` for a gauge."""
    is_steady: bool = False
    """Whether it is constant: then half the samples, and a fifth of those of the last day, give the
    same answer, also with a lookback of ten minutes."""

    @property
    def slots(self) -> range:
        """The slots with values."""
        return range(self.first, self.first + len(self.values))


class Piece(Struct, frozen=True):
    """A part of a GPU's life within one day, and its activity there."""

    part: Part
    first: int
    last: int
    character: Character
    moved: int


def pieces(life: Life, gpu: Gpu, first: int, last: int) -> list[Piece]:
    """A GPU's life between two slots, day by day."""
    found = []
    for part in gpu.parts:
        at = max(first, part.first)
        end = min(last, part.last)
        while at < end:
            day = at // SLOTS
            until = min(end, (day + 1) * SLOTS)
            found.append(Piece(part, at, until, *life.character(gpu, part, day)))
            at = until
    return found


def sliced(values: "array[float]", piece: Piece) -> "array[float]":
    """A piece's values of its character's day."""
    start = (piece.first + piece.moved) % SLOTS
    end = start + piece.last - piece.first
    return values[start:end] if end <= SLOTS else values[start:] + values[: end - SLOTS]


class Counters:
    """Running sums over all of a life, continued from one stretch of time to the next."""

    def __init__(self) -> None:
        self._sums: dict[tuple[int, object], float] = {}

    def grown(
        self,
        gpu: Gpu,
        key: object,
        growth: Sequence[tuple[int, "array[float]"]],
        *,
        resets: bool = True,
    ) -> Iterator[tuple[int, float, Sequence[float]]]:
        """A counter's values over adjoining stretches, reset at restarts; preceded by one value.

        Args:
            gpu: The GPU.
            key: The counter's key.
            growth: The first slot of each stretch, and its growth in each slot.
            resets: Whether it restarts with the agent.
        """
        place = (gpu.number, key)
        restarts = gpu.restarts if resets else ()
        for first, grown in _joined(growth, restarts):
            before = 0.0 if first in restarts else self._sums.get(place, 0.0)
            values = list(accumulate(grown, initial=before))
            self._sums[place] = values[-1]
            yield first, before, values[1:]


def _joined(
    growth: Sequence[tuple[int, "array[float]"]], breaks: Sequence[int]
) -> Iterator[tuple[int, "array[float]"]]:
    """Stretches joined where one ends as the next begins, and divided at breaks."""
    start = 0
    joined = array("d")
    for first, grown in growth:
        cuts = [first, *(at for at in breaks if first < at < first + len(grown))]
        for cut, end in zip(cuts, [*cuts[1:], first + len(grown)], strict=True):
            if joined and (cut != start + len(joined) or cut in breaks):
                yield start, joined
                joined = array("d")
            if not joined:
                start = cut
            joined = joined + grown[cut - first : end - first]
    if joined:
        yield start, joined
