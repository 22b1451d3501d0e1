"""The best sets among free seats: all of them looked at, as far as anything tells them apart."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from heapq import nlargest
from math import comb, prod
from operator import itemgetter

from rightsizer.placement.packed import Beginning, PackedTable
from rightsizer.placement.scoring import Table
from rightsizer.placement.settings import SearchSettings

__all__ = ["Found", "best_sets"]


@dataclass(frozen=True, slots=True)
class Found:
    """Sets by the places of their seats in the table."""

    sets: tuple[tuple[int, ...], ...]
    """Best first, of each score the first one; empty where there is none."""
    equals: int
    """How many sets are as good as the first, itself left out, of those that were looked at."""
    is_exact: bool


def best_sets(
    table: Table, count: int, settings: SearchSettings, *, must_be_joined: bool = False
) -> Found:
    """The best sets of some size, one of each score.

    Args:
        table: The free seats.
        count: How many are wanted.
        settings: How far is looked, and how many sets are told of.
        must_be_joined: Whether NVLink has to join each to each.

    Raises:
        ValueError: less than one seat is wanted.
    """
    if count < 1:
        raise ValueError(f"{count} seats are no set; ask for one at least")
    best = _Best(1 + settings.rejected_maximum)
    packed = PackedTable(table, must_be_joined=must_be_joined, in_order=True)
    is_exact = _number_of_sets(packed.classes, count) <= settings.sets_maximum
    if count > packed.size:
        return Found((), 0, is_exact=True)
    if is_exact:
        _look_at_all(packed, packed.nothing(), count, best)
    else:
        packed = PackedTable(table, must_be_joined=must_be_joined, in_order=False)
        _follow_best(packed, count, best, settings.beginnings)
    equals = sum(_repetitions(places, packed.classes) for places in best.equal)
    return Found(best.sets, max(0, equals - 1), is_exact)


class _Best:
    """The best scores so far, and the first set that has each."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._first: dict[int, tuple[int, ...]] = {}
        self._highest: int | None = None
        self.equal: list[tuple[int, ...]] = []
        """All sets that have the best score."""
        self.least: int | None = None
        """The score that a set must reach to count; `None` while every one does."""

    @property
    def sets(self) -> tuple[tuple[int, ...], ...]:
        """Best first."""
        return tuple(self._first[score] for score in sorted(self._first, reverse=True))

    def offer(self, score: int, places: tuple[int, ...]) -> None:
        """A set; of those with one score the first to come is kept."""
        if self._highest is None or score > self._highest:
            self._highest, self.equal = score, [places]
        elif score == self._highest:
            self.equal.append(places)
        if score in self._first or (self.least is not None and score < self.least):
            return
        self._first[score] = places
        if len(self._first) > self._most:
            del self._first[min(self._first)]
        if len(self._first) == self._most:
            self.least = min(self._first)


def _look_at_all(packed: PackedTable, beginning: Beginning, missing: int, best: _Best) -> None:
    """Depth first, in the order of the places; beginnings that can only be worse are left out."""
    if missing == 1:
        for score, at in packed.scores_with_one_more(beginning):
            if best.least is None or score >= best.least:
                best.offer(score, (*beginning.places, at))
        return
    for at in packed.followers(beginning):
        if packed.size - at < missing:
            return
        longer = packed.extended(beginning, at)
        if best.least is None or packed.bound(longer, missing - 1) >= best.least:
            _look_at_all(packed, longer, missing - 1, best)


def _follow_best(packed: PackedTable, count: int, best: _Best, most: int) -> None:
    """Beginnings grow by a seat at a time, in any order of places; the best of each size stay."""
    followed = [packed.nothing()]
    for _ in range(count):
        longer: dict[int, tuple[int, Beginning, int]] = {}
        for each in followed:
            for score, at in packed.scores_with_one_more(each):
                longer.setdefault(each.bits | 1 << at, (score, each, at))
        chosen = nlargest(most, longer.values(), key=itemgetter(0))
        followed = [packed.extended(each, at) for _, each, at in chosen]
    for each in followed:
        best.offer(packed.score(each), tuple(sorted(each.places)))


def _number_of_sets(classes: Sequence[int], count: int) -> int:
    """Sets of some size where members of a class are taken in their order only."""
    ways = [1] + [0] * count
    for size in Counter(classes).values():
        ways = [sum(ways[max(0, at - size) : at + 1]) for at in range(count + 1)]
    return ways[count]


def _repetitions(places: Sequence[int], classes: Sequence[int]) -> int:
    """How many sets differ from one only in members of a class."""
    sizes = Counter(classes)
    taken = Counter(classes[at] for at in places)
    return prod(comb(sizes[each], number) for each, number in taken.items())
