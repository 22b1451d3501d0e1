"""When a candidate is outgrown, and what it takes then."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from rightsizer.catalogue.board import Board
from rightsizer.sizing.candidates import Candidate
from rightsizer.sizing.requirement import Requirement
from rightsizer.sizing.search import Search

__all__ = ["GrowthStep", "growth_steps"]


@dataclass(frozen=True, slots=True)
class GrowthStep:
    """From a month on, so many GPUs."""

    month: int
    load_ratio: float
    """Of today's."""
    candidate: Candidate


def growth_steps(
    requirement: Requirement,
    board: Board,
    today: Candidate,
    search: Callable[[Requirement], Search],
    dollars_per_hour: float | None,
) -> Iterator[GrowthStep]:
    """The months in which the number of GPUs changes, today first and the last month last.

    Requests in flight and tokens a second grow; how long a request is does not. Where the load
    tells neither, and in training, there is nothing to grow.
    """
    growth, load = requirement.growth, requirement.load
    if not growth.months or not growth.per_month_ratio or requirement.task.trains:
        return
    if load.concurrency is None and load.tokens_per_second is None:
        return
    before = today
    yield GrowthStep(0, 1.0, today)
    for month in range(1, growth.months + 1):
        ratio = replace(growth, months=month).factor
        grown = search(_grown(requirement, ratio)).best(board, dollars_per_hour)
        changed = (grown.count, grown.fits) != (before.count, before.fits)
        if changed or month == growth.months:
            yield GrowthStep(month, ratio, grown)
        before = grown


def _grown(requirement: Requirement, ratio: float) -> Requirement:
    """The load so much larger, with as many replicas as it takes."""
    load = requirement.load
    return replace(
        requirement,
        parallel=None,
        load=replace(
            load,
            concurrency=None if load.concurrency is None else load.concurrency * ratio,
            tokens_per_second=None
            if load.tokens_per_second is None
            else load.tokens_per_second * ratio,
        ),
    )
