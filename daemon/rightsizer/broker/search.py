"""Search for the best sets of free slots, by rank."""

from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import nlargest
from math import comb, prod
from operator import add, itemgetter, or_
from typing import Final

from msgspec import Struct

from rightsizer.broker.scoring import CandidateTable, SlotCandidate, rank_of
from rightsizer.broker.settings import SearchSettings

_NO_LINK: Final = 1 << 20
"""Weakest link of a set without links; above any link score."""
_NO_SLOT: Final = 1 << 14
"""The same for headrooms."""
_POWER: Final = rank_of(power_steps=1)
"""Rank of one step; of temperature, the last criterion, it is 1."""


@dataclass(slots=True)
class PartialSet:
    """Partial set of slots; never modified, but not frozen, for speed."""

    places: tuple[int, ...]
    bits: int
    """Bit mask of the places."""
    sum: int
    """Additive part of the rank."""
    power: int
    temperature: int
    kinds: int
    """Bit mask of the kinds of its slots and links."""
    allowed: int
    """Bit mask of the places that may follow."""
    first: int
    """First place that may follow."""
    added: list[int]
    """Contribution of each slot from `first` on to the sum."""
    link_kinds: list[int]
    """Bit masks of the kinds of links from there to its slots."""


class RankTable:
    """Candidate table as parts of ranks.

    The rank of a set is a sum over its slots and pairs, and of the minimum of its links and
    headrooms and the number of its kinds (models, NUMA nodes, GPUs that it opens).
    """

    def __init__(self, table: CandidateTable, *, must_be_joined: bool, in_order: bool) -> None:
        """Compute the rank of each slot, pair and group.

        `must_be_joined` requires NVLink between all pairs; `in_order` builds sets only in place
        order, which is faster.
        """
        candidates = table.candidates
        places = range(len(candidates))
        self.size = len(candidates)
        self._power = [candidate.power_steps for candidate in candidates]
        self._temperature = [candidate.temperature_steps for candidate in candidates]
        everyone = (1 << self.size) - 1
        self._partners = [
            sum(1 << other for other in places if row[other]) if must_be_joined else everyone
            for row in table.joined
        ]
        """Bit masks of the places that a slot may be combined with."""
        on_gpu = Counter(candidate.slot.device.board_uuid for candidate in candidates)
        self._alone = [_alone(at, table, on_gpu) for at in places]
        self._pairs = [[_pair(one, other, table) for other in places] for one in places]
        self._best_pair = max(map(max, self._pairs), default=0)
        self._kind_bits = _Kinds()
        self._slot_kinds = [self._kind_bits.of_slot(candidate, on_gpu) for candidate in candidates]
        link_kinds = [[self._kind_bits.of_link(score) for score in row] for row in table.links]
        self._kind_ranks: dict[int, int] = {}
        self.classes: list[int] = self._classes()
        """First equivalent place for each place."""
        self._before = [
            max((1 << other for other in range(at) if self.classes[other] == mine), default=0)
            for at, mine in enumerate(self.classes)
        ]
        """Bit of the previous place of the same class, or 0."""
        self._starts = [at + 1 if in_order else 0 for at in places]
        self._added = [row[first:] for row, first in zip(self._pairs, self._starts, strict=True)]
        self._link_kinds = [
            row[first:] for row, first in zip(link_kinds, self._starts, strict=True)
        ]

    def empty(self) -> PartialSet:
        """Empty set."""
        return PartialSet(
            places=(),
            bits=0,
            sum=0,
            power=_NO_SLOT,
            temperature=_NO_SLOT,
            kinds=0,
            allowed=(1 << self.size) - 1,
            first=0,
            added=list(self._alone),
            link_kinds=[0] * self.size,
        )

    def followers(self, partial: PartialSet) -> Iterator[int]:
        """Places that may be added; only the next one of a class."""
        bits = partial.bits
        allowed = partial.allowed
        before = self._before
        for at in range(partial.first, self.size):
            if allowed >> at & 1 and (not before[at] or bits & before[at]):
                yield at

    def extended(self, partial: PartialSet, at: int) -> PartialSet:
        """Copy with one more slot."""
        index = at - partial.first
        first = self._starts[at]
        skipped = first - partial.first
        return PartialSet(
            (*partial.places, at),
            partial.bits | 1 << at,
            partial.sum + partial.added[index],
            min(partial.power, self._power[at]),
            min(partial.temperature, self._temperature[at]),
            partial.kinds | self._slot_kinds[at] | partial.link_kinds[index],
            partial.allowed & self._partners[at] & ~(1 << at),
            first,
            list(map(add, partial.added[skipped:], self._added[at])),
            list(map(or_, partial.link_kinds[skipped:], self._link_kinds[at])),
        )

    def rank(self, partial: PartialSet) -> int:
        """Rank of the set; a single slot without links gets the best link value."""
        return partial.sum + self._bounded(partial.power, partial.temperature, partial.kinds)

    def bound(self, partial: PartialSet, missing: int) -> int:
        """Upper bound of the ranks of sets with `missing` more slots."""
        gain = sum(sorted(partial.added)[-missing:])
        return self.rank(partial) + gain + comb(missing, 2) * self._best_pair

    def ranks_with_one_more(self, partial: PartialSet) -> Iterator[tuple[int, int]]:
        """Ranks of sets with one more slot, each with its place."""
        first = partial.first
        added = partial.added
        link_kinds = partial.link_kinds
        for at in self.followers(partial):
            yield (
                partial.sum
                + added[at - first]
                + self._bounded(
                    min(partial.power, self._power[at]),
                    min(partial.temperature, self._temperature[at]),
                    partial.kinds | self._slot_kinds[at] | link_kinds[at - first],
                ),
                at,
            )

    def _bounded(self, power: int, temperature: int, kinds: int) -> int:
        """Non-additive part of the rank: kinds, weakest link and headrooms."""
        rank = self._kind_ranks.get(kinds)
        if rank is None:
            rank = self._kind_ranks[kinds] = self._kind_bits.rank_of(kinds)
        return rank + power * _POWER + temperature

    def _classes(self) -> list[int]:
        classes: list[int] = []
        for at in range(self.size):
            same = (
                first for first in classes if classes[first] == first and self._alike(first, at)
            )
            classes.append(next(same, at))
        return classes

    def _alike(self, one: int, other: int) -> bool:
        both = ~(1 << one | 1 << other)
        return (
            self._alone[one] == self._alone[other]
            and self._power[one] == self._power[other]
            and self._temperature[one] == self._temperature[other]
            and self._slot_kinds[one] == self._slot_kinds[other]
            and self._partners[one] & both == self._partners[other] & both
            and all(
                self._pairs[one][at] == self._pairs[other][at]
                for at in range(self.size)
                if at not in (one, other)
            )
        )


def _alone(at: int, table: CandidateTable, on_gpu: Mapping[str, int]) -> int:
    candidate = table.candidates[at]
    return rank_of(
        instances=candidate.is_instance,
        uncertain=not candidate.verdict.is_certain,
        impaired=candidate.is_impaired,
        spare_gibibytes=candidate.spare_gibibytes,
        opened=candidate.is_opened and on_gpu[candidate.slot.device.board_uuid] == 1,
        kept=-sum(table.empty_links[at]),
        kept_pcie=-sum(table.empty_pcie[at]),
    )


def _pair(one: int, other: int, table: CandidateTable) -> int:
    # The remaining pairs are all pairs minus those of each chosen slot; pairs of two chosen slots
    # are subtracted twice and added back here.
    return rank_of(
        total=table.links[one][other],
        kept=table.empty_links[one][other],
        kept_pcie=table.empty_pcie[one][other],
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

    def rank_of(self, bits: int) -> int:
        """Rank of a union; no link at all counts as the best."""
        counts = {name: (bits & mask).bit_count() for name, mask in self._masks.items()}
        weakest = min((score for score, bit in self._links.items() if bits & bit), default=_NO_LINK)
        return rank_of(**counts, weakest=weakest)

    def _bit(self, name: str, key: Hashable) -> int:
        bit = self._new((name, key))
        self._masks[name] |= bit
        return bit

    def _new(self, key: tuple[str, Hashable]) -> int:
        return self._bits.setdefault(key, 1 << len(self._bits))


class SearchResult(Struct, frozen=True):
    """Sets by the places of their slots in the table."""

    sets: tuple[tuple[int, ...], ...]
    """Best first; the first set of each rank."""
    equals: int
    """Number of other examined sets with the rank of the first."""
    is_exact: bool


def best_sets(
    table: CandidateTable, count: int, settings: SearchSettings, *, must_be_joined: bool = False
) -> SearchResult:
    """Best sets of `count` slots, one per rank; raises `ValueError` if `count` is below 1."""
    if count < 1:
        raise ValueError(f"a set needs at least one slot, not {count}")
    best = _Best(1 + settings.rejected_maximum)
    ranks = RankTable(table, must_be_joined=must_be_joined, in_order=True)
    is_exact = _number_of_sets(ranks.classes, count) <= settings.sets_maximum
    if count > ranks.size:
        return SearchResult((), 0, is_exact=True)
    if is_exact:
        _search_all(ranks, ranks.empty(), count, best)
    else:
        ranks = RankTable(table, must_be_joined=must_be_joined, in_order=False)
        _search_beam(ranks, count, best, settings.beginnings)
    equals = sum(_repetitions(places, ranks.classes) for places in best.equal)
    return SearchResult(best.sets, max(0, equals - 1), is_exact)


class _Best:
    """Best ranks so far, with the first set of each."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._first: dict[int, tuple[int, ...]] = {}
        self._highest: int | None = None
        self.equal: list[tuple[int, ...]] = []
        """All sets with the best rank."""
        self.least: int | None = None
        """Minimum rank to be kept; `None` if there is no bound yet."""

    @property
    def sets(self) -> tuple[tuple[int, ...], ...]:
        """Best first."""
        return tuple(self._first[rank] for rank in sorted(self._first, reverse=True))

    def offer(self, rank: int, places: tuple[int, ...]) -> None:
        """Add a set; only the first of each rank is kept."""
        if self._highest is None or rank > self._highest:
            self._highest = rank
            self.equal = [places]
        elif rank == self._highest:
            self.equal.append(places)
        if rank in self._first or (self.least is not None and rank < self.least):
            return
        self._first[rank] = places
        if len(self._first) > self._limit:
            del self._first[min(self._first)]
        if len(self._first) == self._limit:
            self.least = min(self._first)


def _search_all(ranks: RankTable, partial: PartialSet, missing: int, best: _Best) -> None:
    """Depth-first search in place order, pruned by bounds."""
    if missing == 1:
        for rank, at in ranks.ranks_with_one_more(partial):
            if best.least is None or rank >= best.least:
                best.offer(rank, (*partial.places, at))
        return
    for at in ranks.followers(partial):
        if ranks.size - at < missing:
            return
        longer = ranks.extended(partial, at)
        if best.least is None or ranks.bound(longer, missing - 1) >= best.least:
            _search_all(ranks, longer, missing - 1, best)


def _search_beam(ranks: RankTable, count: int, best: _Best, width: int) -> None:
    """Beam search: extends the best sets of each size, in any place order."""
    followed = [ranks.empty()]
    for _ in range(count):
        longer: dict[int, tuple[int, PartialSet, int]] = {}
        for partial_set in followed:
            for rank, at in ranks.ranks_with_one_more(partial_set):
                longer.setdefault(partial_set.bits | 1 << at, (rank, partial_set, at))
        chosen = nlargest(width, longer.values(), key=itemgetter(0))
        followed = [ranks.extended(partial_set, at) for _, partial_set, at in chosen]
    for partial_set in followed:
        best.offer(ranks.rank(partial_set), tuple(sorted(partial_set.places)))


def _number_of_sets(classes: Sequence[int], count: int) -> int:
    """Number of sets of a size, counting equivalent members once."""
    ways = [1] + [0] * count
    for size in Counter(classes).values():
        ways = [sum(ways[max(0, at - size) : at + 1]) for at in range(count + 1)]
    return ways[count]


def _repetitions(places: Sequence[int], classes: Sequence[int]) -> int:
    sizes = Counter(classes)
    taken = Counter(classes[at] for at in places)
    return prod(comb(sizes[class_index], number) for class_index, number in taken.items())
