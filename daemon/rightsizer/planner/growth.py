"""Growth of the load by month: each kind of GPU, the cheapest overall, when to switch."""

import math
from collections.abc import Callable, Iterator, Sequence

from rightsizer.catalogue.board import Board
from rightsizer.model.frozen import dataclass, replace
from rightsizer.planner.candidate import PlanCandidate
from rightsizer.planner.search import Search
from rightsizer.sizing.requirement import Requirement


@dataclass(frozen=True, slots=True)
class GrowthStep:
    """From a month on, so many GPUs."""

    month: int
    load_ratio: float
    """Of today's."""
    candidate: PlanCandidate


@dataclass(frozen=True, slots=True)
class GrowingKind:
    """One kind of GPU, with as many as each month takes."""

    gpu: str
    steps: tuple[GrowthStep, ...]
    """Every month, today first."""
    hours_per_month: float

    @property
    def months(self) -> int:
        """How long the load grows."""
        return len(self.steps) - 1

    @property
    def outgrown(self) -> int | None:
        """The first month whose load it does not hold; `None` where it holds them all."""
        return next((step.month for step in self.steps if not step.candidate.fits), None)

    def dollars(self, month: int = 0) -> float | None:
        """What all months from one on cost, each for its own load; `None` without a price."""
        total = 0.0
        for step in self.steps[month:-1]:
            hourly = step.candidate.dollars_per_hour
            if hourly is None:
                return None
            total += hourly
        return total * self.hours_per_month


def growing_kinds(
    requirement: Requirement,
    leading: Sequence[tuple[Board, PlanCandidate]],
    search: Callable[[Requirement], Search],
    hours_per_month: float,
) -> tuple[GrowingKind, ...]:
    """The leading candidates through all months, in their order.

    Requests in flight and tokens a second grow; how long a request is does not. Where the load
    tells neither, and in training, there is nothing to grow.
    """
    growth, load = requirement.growth, requirement.load
    if not growth.months or not growth.per_month_ratio or requirement.task.trains:
        return ()
    if load.concurrency is None and load.tokens_per_second is None:
        return ()
    steps = [[GrowthStep(0, 1.0, today)] for _, today in leading]
    first = search(_grown(requirement, 1.0))
    for month in range(1, growth.months + 1):
        ratio = replace(growth, months=month).factor
        asked = first.of_more(_grown(requirement, ratio))
        for kind, (board, _) in zip(steps, leading, strict=True):
            kind.append(GrowthStep(month, ratio, asked.best(board)))
    return tuple(GrowingKind(kind[0].candidate.gpu, tuple(kind), hours_per_month) for kind in steps)


def growth_steps(kind: GrowingKind) -> Iterator[GrowthStep]:
    """The months in which the number of GPUs changes, today first and the last month last."""
    before = None
    for step in kind.steps:
        now = (step.candidate.count, step.candidate.fits)
        if now != before or step.month == kind.months:
            yield step
        before = now


def _grown(requirement: Requirement, ratio: float) -> Requirement:
    """The load so much larger, with as many replicas as it takes."""
    load = requirement.load
    asked = (load.concurrency, load.tokens_per_second)
    requests, tokens = (None if each is None else each * ratio for each in asked)
    load = replace(load, concurrency=requests, tokens_per_second=tokens)
    return replace(requirement, parallel=None, load=load)


@dataclass(frozen=True, slots=True)
class GpuSwitch:
    """From a month on another kind of GPU is the better one."""

    month: int
    gpu: str
    count: int
    dollars_saved: float | None
    """Until the last month; `None` where what is left behind no longer holds the load."""


@dataclass(frozen=True, slots=True)
class GrowthOutlook:
    """The leading candidates over all months."""

    kinds: tuple[GrowingKind, ...]
    """The cheapest over the whole span first; then those without a price, and those outgrown."""
    switch: GpuSwitch | None
    """When to leave today's first in rank; `None` where it stays the better one."""

    @property
    def cheapest(self) -> GrowingKind | None:
        """What holds every month for the least money; `None` where nothing with a price does."""
        first = self.kinds[0]
        return first if math.isfinite(_span(first)) else None

    @property
    def outgrown(self) -> int | None:
        """The first month whose load none of them holds; `None` where one holds them all."""
        longest = max(map(_lasts, self.kinds))
        return None if math.isinf(longest) else int(longest)


def growth_outlook(kinds: Sequence[GrowingKind], saving_ratio: float) -> GrowthOutlook | None:
    """What to expect of candidates, today's best first; `None` of none.

    `saving_ratio`: what another kind has to save of the rest of the span to be switched to.
    """
    if not kinds:
        return None
    ordered = sorted(kinds, key=_span)
    return GrowthOutlook(tuple(ordered), _switch(kinds[0], kinds[1:], saving_ratio))


def _switch(today: GrowingKind, others: Sequence[GrowingKind], least: float) -> GpuSwitch | None:
    for month in range(1, today.months + 1):
        holding = [each for each in others if _lasts(each) > month]
        if not holding:
            return None
        best = min(holding, key=lambda each: (-_lasts(each), _span(each, month)))
        count = best.steps[month].candidate.count
        if _lasts(today) <= month:
            return GpuSwitch(month, best.gpu, count, None)
        rest = today.dollars(month)
        saved = None if rest is None else rest - _span(best, month)
        # In that very month already, so that the change is not too early.
        mine = best.steps[month].candidate.dollars_per_hour
        theirs = today.steps[month].candidate.dollars_per_hour
        is_cheaper = mine is not None and theirs is not None and mine < theirs
        if rest and saved is not None and saved >= least * rest and is_cheaper:
            return GpuSwitch(month, best.gpu, count, saved)
    return None


def _lasts(kind: GrowingKind) -> float:
    """The first month that it does not hold."""
    return math.inf if kind.outgrown is None else kind.outgrown


def _span(kind: GrowingKind, month: int = 0) -> float:
    dollars = kind.dollars(month)
    return math.inf if dollars is None or kind.outgrown is not None else dollars
