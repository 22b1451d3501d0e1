"""Search for the best sets of free slots, with scores packed into integers."""

from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from heapq import nlargest
from itertools import accumulate
from math import comb, prod
from operator import add, itemgetter, or_
from typing import Final

from rightsizer.broker.scoring import CRITERIA, CandidateTable, SlotCandidate
from rightsizer.broker.settings import SearchSettings
from rightsizer.model.frozen import dataclass

_NO_LINK: Final = 1 << 20
"""Weakest link of a set without links; above any link score."""
_NO_SLOT: Final = 1 << 14
"""The same for headrooms."""

_WIDTHS: Final = {name: bits for name, _, bits, _ in reversed(CRITERIA)}
_ONE: Final = {
    name: 1 << at
    for name, at in zip(_WIDTHS, accumulate(_WIDTHS.values(), initial=0), strict=False)
}
"""Weight of one unit of each criterion in a packed score."""
_WEAKEST: Final = _ONE["weakest"]
_POWER: Final = _ONE["power_steps"]


@dataclass(slots=True)
class PartialSet:
    """Partial set of slots; never modified, but not frozen, for speed."""

    places: tuple[int, ...]
    bits: int
    """Bit mask of the places."""
    sum: int
    """Additive part of the score."""
    power: int
    temperature: int
    groups: int
    """Bit mask of the kinds of its slots and links."""
    allowed: int
    """Bit mask of the places that may follow."""
    first: int
    """First place that may follow."""
    added: list[int]
    """Contribution of each slot from `first` on to the sum."""
    ways: list[int]
    """Bit masks of the kinds of links from there to its slots."""


class PackedTable:
    """Candidate table as packed scores.

    The score of a set is a sum over its slots and pairs, plus the minimum of its links and
    headrooms and the number of its groups.
    """

    def __init__(self, table: CandidateTable, *, must_be_joined: bool, in_order: bool) -> None:
        """Compute the packed score of each slot, pair and group.

        `must_be_joined` requires NVLink between all pairs; `in_order` builds sets only in place
        order, which is faster.
        """
        candidates = table.candidates
        places = range(len(candidates))
        self.size = len(candidates)
        self._power = [each.power_steps for each in candidates]
        self._temperature = [each.temperature_steps for each in candidates]
        everyone = (1 << self.size) - 1
        self._partners = [
            sum(1 << other for other in places if row[other]) if must_be_joined else everyone
            for row in table.joined
        ]
        """Bit masks of the places that a slot may be combined with."""
        on_gpu = Counter(each.slot.device.board_uuid for each in candidates)
        self._alone = [_alone(at, table, on_gpu) for at in places]
        self._pairs = [[_pair(one, other, table) for other in places] for one in places]
        self._best_pair = max(map(max, self._pairs), default=0)
        self._kinds = _Kinds()
        self._groups = [self._kinds.of_slot(each, on_gpu) for each in candidates]
        ways = [[self._kinds.of_link(score) for score in row] for row in table.links]
        self._together: dict[int, int] = {}
        self.classes: list[int] = self._classes()
        """First equivalent place for each place."""
        self._before = [
            max((1 << other for other in range(at) if self.classes[other] == mine), default=0)
            for at, mine in enumerate(self.classes)
        ]
        """Bit of the previous place of the same class, or 0."""
        self._starts = [at + 1 if in_order else 0 for at in places]
        self._added = [row[first:] for row, first in zip(self._pairs, self._starts, strict=True)]
        self._ways = [row[first:] for row, first in zip(ways, self._starts, strict=True)]

    def empty(self) -> PartialSet:
        """Empty set."""
        return PartialSet(
            places=(),
            bits=0,
            sum=0,
            power=_NO_SLOT,
            temperature=_NO_SLOT,
            groups=0,
            allowed=(1 << self.size) - 1,
            first=0,
            added=list(self._alone),
            ways=[0] * self.size,
        )

    def followers(self, partial: PartialSet) -> Iterator[int]:
        """Places that may be added; only the next one of a class."""
        bits, allowed, before = partial.bits, partial.allowed, self._before
        for at in range(partial.first, self.size):
            if allowed >> at & 1 and (not before[at] or bits & before[at]):
                yield at

    def extended(self, partial: PartialSet, at: int) -> PartialSet:
        """Copy with one more slot."""
        index, first = at - partial.first, self._starts[at]
        skipped = first - partial.first
        return PartialSet(
            (*partial.places, at),
            partial.bits | 1 << at,
            partial.sum + partial.added[index],
            min(partial.power, self._power[at]),
            min(partial.temperature, self._temperature[at]),
            partial.groups | self._groups[at] | partial.ways[index],
            partial.allowed & self._partners[at] & ~(1 << at),
            first,
            list(map(add, partial.added[skipped:], self._added[at])),
            list(map(or_, partial.ways[skipped:], self._ways[at])),
        )

    def score(self, partial: PartialSet) -> int:
        """Score of the set; a single slot without links gets the best link value."""
        return partial.sum + self._bounded(partial.power, partial.temperature, partial.groups)

    def bound(self, partial: PartialSet, missing: int) -> int:
        """Upper bound of the scores of sets with `missing` more slots."""
        most = sum(sorted(partial.added)[-missing:])
        return self.score(partial) + most + comb(missing, 2) * self._best_pair

    def scores_with_one_more(self, partial: PartialSet) -> Iterator[tuple[int, int]]:
        """Scores of sets with one more slot, each with its place."""
        first, added, ways = partial.first, partial.added, partial.ways
        for at in self.followers(partial):
            yield (
                partial.sum
                + added[at - first]
                + self._bounded(
                    min(partial.power, self._power[at]),
                    min(partial.temperature, self._temperature[at]),
                    partial.groups | self._groups[at] | ways[at - first],
                ),
                at,
            )

    def _bounded(self, power: int, temperature: int, groups: int) -> int:
        """Non-additive part of the score: groups, weakest link and headrooms."""
        together = self._together.get(groups)
        if together is None:
            together = self._together[groups] = self._kinds.score_of(groups)
        return together + power * _POWER + temperature

    def _classes(self) -> list[int]:
        found: list[int] = []
        for at in range(self.size):
            same = (first for first in found if found[first] == first and self._alike(first, at))
            found.append(next(same, at))
        return found

    def _alike(self, one: int, other: int) -> bool:
        both = ~(1 << one | 1 << other)
        return (
            self._alone[one] == self._alone[other]
            and self._power[one] == self._power[other]
            and self._temperature[one] == self._temperature[other]
            and self._groups[one] == self._groups[other]
            and self._partners[one] & both == self._partners[other] & both
            and all(
                self._pairs[one][at] == self._pairs[other][at]
                for at in range(self.size)
                if at not in (one, other)
            )
        )


def _alone(at: int, table: CandidateTable, on_gpu: Mapping[str, int]) -> int:
    candidate = table.candidates[at]
    opens = candidate.is_opened and on_gpu[candidate.slot.device.board_uuid] == 1
    return -(
        candidate.is_instance * _ONE["instances"]
        + (not candidate.verdict.is_certain) * _ONE["uncertain"]
        + candidate.is_impaired * _ONE["impaired"]
        + candidate.spare_gibibytes * _ONE["spare_gibibytes"]
        + opens * _ONE["opened"]
        + sum(table.empty_links[at]) * _ONE["kept"]
        + sum(table.empty_pcie[at]) * _ONE["kept_pcie"]
    )


def _pair(one: int, other: int, table: CandidateTable) -> int:
    # The remaining pairs are all pairs minus those of each chosen slot; pairs of two chosen slots
    # are subtracted twice and added back here.
    return (
        table.links[one][other] * _ONE["total"]
        + table.empty_links[one][other] * _ONE["kept"]
        + table.empty_pcie[one][other] * _ONE["kept_pcie"]
    )


class _Kinds:
    """Bits of properties shared by slots and links, so that a union of sets is an OR."""

    def __init__(self) -> None:
        self._bits: dict[tuple[str, Hashable], int] = {}
        self._masks = dict.fromkeys(("models", "numa_nodes", "opened"), 0)
        self._links: dict[int, int] = {}

    def of_slot(self, candidate: SlotCandidate, on_gpu: Mapping[str, int]) -> int:
        """Bits of its model and NUMA node, and of its GPU if it has several candidates."""
        uuid = candidate.slot.device.board_uuid
        bits = self._bit("models", candidate.model)
        bits |= self._bit("numa_nodes", candidate.slot.numa_node)
        if candidate.is_opened and on_gpu[uuid] > 1:
            bits |= self._bit("opened", uuid)
        return bits

    def of_link(self, score: int) -> int:
        """Bit of a link's score."""
        bit = self._links[score] = self._new(("links", score))
        return bit

    def score_of(self, bits: int) -> int:
        """Score of a union; no link at all counts as the best."""
        counted = sum((bits & mask).bit_count() * _ONE[name] for name, mask in self._masks.items())
        weakest = min((score for score, bit in self._links.items() if bits & bit), default=_NO_LINK)
        return weakest * _WEAKEST - counted

    def _bit(self, name: str, key: Hashable) -> int:
        bit = self._new((name, key))
        self._masks[name] |= bit
        return bit

    def _new(self, key: tuple[str, Hashable]) -> int:
        return self._bits.setdefault(key, 1 << len(self._bits))


@dataclass(frozen=True, slots=True)
class SearchResult:
    """Sets by the places of their slots in the table."""

    sets: tuple[tuple[int, ...], ...]
    """Best first; the first set of each score."""
    equals: int
    """Number of other examined sets with the score of the first."""
    is_exact: bool


def best_sets(
    table: CandidateTable, count: int, settings: SearchSettings, *, must_be_joined: bool = False
) -> SearchResult:
    """Best sets of `count` slots, one per score; raises `ValueError` if `count` is below 1."""
    if count < 1:
        raise ValueError(f"a set needs at least one slot, not {count}")
    best = _Best(1 + settings.rejected_maximum)
    packed = PackedTable(table, must_be_joined=must_be_joined, in_order=True)
    is_exact = _number_of_sets(packed.classes, count) <= settings.sets_maximum
    if count > packed.size:
        return SearchResult((), 0, is_exact=True)
    if is_exact:
        _search_all(packed, packed.empty(), count, best)
    else:
        packed = PackedTable(table, must_be_joined=must_be_joined, in_order=False)
        _search_beam(packed, count, best, settings.beginnings)
    equals = sum(_repetitions(places, packed.classes) for places in best.equal)
    return SearchResult(best.sets, max(0, equals - 1), is_exact)


class _Best:
    """Best scores so far, with the first set of each."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._first: dict[int, tuple[int, ...]] = {}
        self._highest: int | None = None
        self.equal: list[tuple[int, ...]] = []
        """All sets with the best score."""
        self.least: int | None = None
        """Minimum score to be kept; `None` if there is no bound yet."""

    @property
    def sets(self) -> tuple[tuple[int, ...], ...]:
        """Best first."""
        return tuple(self._first[score] for score in sorted(self._first, reverse=True))

    def offer(self, score: int, places: tuple[int, ...]) -> None:
        """Add a set; only the first of each score is kept."""
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


def _search_all(packed: PackedTable, partial: PartialSet, missing: int, best: _Best) -> None:
    """Depth-first search in place order, pruned by bounds."""
    if missing == 1:
        for score, at in packed.scores_with_one_more(partial):
            if best.least is None or score >= best.least:
                best.offer(score, (*partial.places, at))
        return
    for at in packed.followers(partial):
        if packed.size - at < missing:
            return
        longer = packed.extended(partial, at)
        if best.least is None or packed.bound(longer, missing - 1) >= best.least:
            _search_all(packed, longer, missing - 1, best)


def _search_beam(packed: PackedTable, count: int, best: _Best, most: int) -> None:
    """Beam search: extends the best sets of each size, in any place order."""
    followed = [packed.empty()]
    for _ in range(count):
        longer: dict[int, tuple[int, PartialSet, int]] = {}
        for each in followed:
            for score, at in packed.scores_with_one_more(each):
                longer.setdefault(each.bits | 1 << at, (score, each, at))
        chosen = nlargest(most, longer.values(), key=itemgetter(0))
        followed = [packed.extended(each, at) for _, each, at in chosen]
    for each in followed:
        best.offer(packed.score(each), tuple(sorted(each.places)))


def _number_of_sets(classes: Sequence[int], count: int) -> int:
    """Number of sets of a size, counting equivalent members once."""
    ways = [1] + [0] * count
    for size in Counter(classes).values():
        ways = [sum(ways[max(0, at - size) : at + 1]) for at in range(count + 1)]
    return ways[count]


def _repetitions(places: Sequence[int], classes: Sequence[int]) -> int:
    sizes = Counter(classes)
    taken = Counter(classes[at] for at in places)
    return prod(comb(sizes[each], number) for each, number in taken.items())
