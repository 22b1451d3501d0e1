"""Collectives matched over the ranks of a program, and the clocks of ranks by their ends.

A collective ends on all ranks at once, whatever their clocks say. What does not end at once is not
the same collective, as where the ranks of a group are not told.
"""

from collections.abc import Iterator, Mapping, Sequence
from statistics import median
from typing import Final

from msgspec import Struct

from rightsizer.model.profile import HostStep, StepUse
from rightsizer.model.values import Nanoseconds, seconds
from rightsizer.profiler.member import RankSteps

_A_PAIR: Final = 2


class MatchedCollective(Struct, frozen=True):
    """The n-th collective of a kernel and group in a step, by rank."""

    step: str
    intervals: Mapping[str, tuple[Nanoseconds, Nanoseconds]]

    @property
    def longest(self) -> Nanoseconds:
        """From when the first rank joined it."""
        return max(end - start for start, end in self.intervals.values())


def matched_collectives(
    ranks: Sequence[RankSteps], end_tolerance_ratio: float
) -> list[MatchedCollective]:
    """Return what several ranks ran in steps of one name, as often as each other.

    Args:
        ranks: Steps of devices, or of hosts.
        end_tolerance_ratio: Difference of ends, of the longest wait, up to which they are one.
    """
    kinds: dict[tuple[str, tuple[str, ...]], list[MatchedCollective]] = {}
    for name, steps in steps_of(ranks).items():
        for kind, collective in _collectives(name, steps):
            kinds.setdefault((kind, tuple(collective.intervals)), []).append(collective)
    return [
        collective
        for of_kind in kinds.values()
        for collective in _ending_at_once(of_kind, end_tolerance_ratio)
    ]


def steps_of(ranks: Sequence[RankSteps]) -> dict[str, dict[str, StepUse | HostStep]]:
    """Return the steps of all ranks by their name."""
    by_step: dict[str, dict[str, StepUse | HostStep]] = {}
    for rank in ranks:
        for step in rank.steps:
            by_step.setdefault(step.name, {})[rank.key] = step
    return by_step


def clock_offsets(ranks: Sequence[RankSteps], end_tolerance_ratio: float) -> dict[str, float]:
    """Return by how many seconds the clock of each rank is ahead of the first one's.

    Empty without collectives of several ranks; without the ranks that share none with the first.
    """
    later: dict[str, list[Nanoseconds]] = {}
    for collective in matched_collectives(ranks, end_tolerance_ratio):
        first = collective.intervals.get(ranks[0].key)
        for rank, (_, end) in collective.intervals.items() if first else ():
            later.setdefault(rank, []).append(end - first[1] if first else 0)
    return {rank: seconds(round(median(differences))) for rank, differences in later.items()}


def _collectives(
    name: str, steps: Mapping[str, StepUse | HostStep]
) -> Iterator[tuple[str, MatchedCollective]]:
    """Yield what several ranks ran as often as each other in a step."""
    for kind in dict.fromkeys(kind for step in steps.values() for kind in step.collectives):
        ran = {
            rank: step.collectives[kind] for rank, step in steps.items() if kind in step.collectives
        }
        counts = {len(intervals) for intervals in ran.values()}
        if len(ran) >= _A_PAIR and len(counts) == 1:
            for intervals in zip(*ran.values(), strict=True):
                yield kind, MatchedCollective(name, dict(zip(ran, intervals, strict=True)))


def _ending_at_once(
    collectives: Sequence[MatchedCollective], tolerance_ratio: float
) -> Iterator[MatchedCollective]:
    """Yield those that end at once on all ranks but for their clocks; others are of two groups."""
    first = next(iter(collectives[0].intervals))
    offsets = {
        rank: median(
            matched_collective.intervals[rank][1] - matched_collective.intervals[first][1]
            for matched_collective in collectives
        )
        for rank in collectives[0].intervals
    }
    for collective in collectives:
        ends = [end - offsets[rank] for rank, (_, end) in collective.intervals.items()]
        if max(ends) - min(ends) <= tolerance_ratio * collective.longest:
            yield collective
