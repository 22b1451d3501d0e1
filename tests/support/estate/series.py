"""The samples of the estate, a stretch of time after the other, so that none is kept for long."""

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

from estate.character import SLOTS, Character
from estate.life import Gpu, Life, Part

__all__ = ["Counters", "Pairs", "Piece", "Run", "pieces", "sliced"]

Pairs = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Run:
    """Samples of one series, one after the other without a gap."""

    name: str
    labels: Pairs
    first: int
    """The slot at whose end the first value stood."""
    values: Sequence[float]
    """One a slot."""
    before: float | None = None
    """A counter's value when the first slot began; `None` for what does not count."""
    is_steady: bool = False
    """Whether it stays as it is, so that half the samples, and of the last day a fifth, give the
    same answer, also to the one who looks back ten minutes."""

    @property
    def slots(self) -> range:
        """The slots that it has values of."""
        return range(self.first, self.first + len(self.values))


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a GPU's life within one day, and what it does there."""

    part: Part
    first: int
    last: int
    character: Character
    moved: int


def pieces(life: Life, gpu: Gpu, first: int, last: int) -> list[Piece]:
    """A GPU's life from a slot to another, day by day."""
    found = []
    for part in gpu.parts:
        at, end = max(first, part.first), min(last, part.last)
        while at < end:
            day = at // SLOTS
            until = min(end, (day + 1) * SLOTS)
            found.append(Piece(part, at, until, *life.character(gpu, part, day)))
            at = until
    return found


def sliced(values: "array[float]", piece: Piece) -> "array[float]":
    """The figures of a character's day that belong to a piece."""
    start = (piece.first + piece.moved) % SLOTS
    end = start + piece.last - piece.first
    return values[start:end] if end <= SLOTS else values[start:] + values[: end - SLOTS]


class Counters:
    """Running sums over all of a life, which go on from one stretch of time to the next."""

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
        """A counter's values over adjoining stretches, begun again at restarts; one before them.

        Args:
            gpu: Whose it is.
            key: Which of its counters.
            growth: The first slot of each stretch, and by how much it grew in each slot.
            resets: Whether it begins again with the agent.
        """
        place, restarts = (gpu.number, key), gpu.restarts if resets else ()
        for first, grown in _joined(growth, restarts):
            before = 0.0 if first in restarts else self._sums.get(place, 0.0)
            values = list(accumulate(grown, initial=before))
            self._sums[place] = values[-1]
            yield first, before, values[1:]


def _joined(
    growth: Sequence[tuple[int, "array[float]"]], breaks: Sequence[int]
) -> Iterator[tuple[int, "array[float]"]]:
    """Stretches joined where one ends as the next begins, and parted at breaks."""
    start, joined = 0, array("d")
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
