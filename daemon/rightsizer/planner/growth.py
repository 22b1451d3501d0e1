"""Monthly growth of the load: kinds of GPU, the cheapest overall, when to switch."""

import math
from collections.abc import Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from rightsizer.catalogue.board import Board
from rightsizer.planner.candidate import PlanCandidate
from rightsizer.planner.search import SearchFactory
from rightsizer.sizing.requirement import Requirement


class GrowthStep(Struct, frozen=True):
    """Number of GPUs from a month on."""

    month: int
    load_ratio: float
    """Relative to today."""
    candidate: PlanCandidate


class GrowingKind(Struct, frozen=True):
    """One kind of GPU, with the number required each month."""

    gpu: str
    steps: tuple[GrowthStep, ...]
    """Every month, today first."""
    hours_per_month: float

    @property
    def months(self) -> int:
        """Duration of the growth."""
        return len(self.steps) - 1

    @property
    def outgrown(self) -> int | None:
        """First month whose load exceeds it; `None` if there is none."""
        return next((step.month for step in self.steps if not step.candidate.fits), None)

    def dollars(self, month: int = 0) -> float | None:
        """Return the cost of all months from one on, each at its load; `None` without a price."""
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
    search: SearchFactory,
    hours_per_month: float,
) -> tuple[GrowingKind, ...]:
    """Return the leading candidates through all months, in their order.

    Requests in flight and tokens per second grow; request lengths stay. If the load has neither,
    and in training, nothing grows.
    """
    growth = requirement.growth
    load = requirement.load
    if not growth.months or not growth.per_month_ratio or requirement.task.trains:
        return ()
    if load.concurrency is None and load.units_per_second is None:
        return ()
    steps = [[GrowthStep(0, 1.0, today)] for _, today in leading]
    for month in range(1, growth.months + 1):
        ratio = replace(growth, months=month).factor
        search_of_month = search(_grown(requirement, ratio))
        for kind, (board, _) in zip(steps, leading, strict=True):
            kind.append(GrowthStep(month, ratio, search_of_month.best(board)))
    return tuple(GrowingKind(kind[0].candidate.gpu, tuple(kind), hours_per_month) for kind in steps)


def growth_steps(kind: GrowingKind) -> Iterator[GrowthStep]:
    """Yield the months in which the number of GPUs changes, with the first and the last month."""
    before = None
    for step in kind.steps:
        now = (step.candidate.count, step.candidate.fits)
        if now != before or step.month == kind.months:
            yield step
        before = now


def _grown(requirement: Requirement, ratio: float) -> Requirement:
    """Return the requirement with its load multiplied, and replicas left open."""
    load = requirement.load
    rates = (load.concurrency, load.units_per_second)
    requests, units = (None if rate is None else rate * ratio for rate in rates)
    load = replace(load, concurrency=requests, units_per_second=units)
    return replace(requirement, parallel=None, load=load)


class GpuSwitch(Struct, frozen=True):
    """Month from which another kind of GPU is better."""

    month: int
    gpu: str
    count: int
    dollars_saved: float | None
    """Until the last month; `None` if the previous kind no longer holds the load."""


class GrowthOutlook(Struct, frozen=True):
    """Leading candidates over all months."""

    kinds: tuple[GrowingKind, ...]
    """Cheapest over the whole span first; then those without a price, and those outgrown."""
    switch: GpuSwitch | None
    """When to leave today's best; `None` if it stays the best."""

    @property
    def cheapest(self) -> GrowingKind | None:
        """Kind that holds every month at the lowest cost; `None` if none with a price does."""
        first = self.kinds[0]
        return first if math.isfinite(_span(first)) else None

    @property
    def outgrown(self) -> int | None:
        """First month whose load exceeds all kinds; `None` if one holds every month."""
        longest = max(map(_lasts, self.kinds))
        return None if math.isinf(longest) else int(longest)


def growth_outlook(kinds: Sequence[GrowingKind], saving_ratio: float) -> GrowthOutlook | None:
    """Return the outlook of candidates, today's best first; `None` without any.

    `saving_ratio`: minimum saving over the rest of the span for a switch.
    """
    if not kinds:
        return None
    ordered = sorted(kinds, key=_span)
    return GrowthOutlook(tuple(ordered), _switch(kinds[0], kinds[1:], saving_ratio))


def _switch(today: GrowingKind, others: Sequence[GrowingKind], least: float) -> GpuSwitch | None:
    for month in range(1, today.months + 1):
        holding = [growing_kind for growing_kind in others if _lasts(growing_kind) > month]
        if not holding:
            return None
        best = min(
            holding, key=lambda growing_kind: (-_lasts(growing_kind), _span(growing_kind, month))
        )
        count = best.steps[month].candidate.count
        if _lasts(today) <= month:
            return GpuSwitch(month, best.gpu, count, None)
        rest = today.dollars(month)
        saved = None if rest is None else rest - _span(best, month)
        # Cheaper in that very month already, so that the switch is not too early.
        mine = best.steps[month].candidate.dollars_per_hour
        theirs = today.steps[month].candidate.dollars_per_hour
        is_cheaper = mine is not None and theirs is not None and mine < theirs
        if rest and saved is not None and saved >= least * rest and is_cheaper:
            return GpuSwitch(month, best.gpu, count, saved)
    return None


def _lasts(kind: GrowingKind) -> float:
    """Return the first month that it does not hold."""
    return math.inf if kind.outgrown is None else kind.outgrown


def _span(kind: GrowingKind, month: int = 0) -> float:
    dollars = kind.dollars(month)
    return math.inf if dollars is None or kind.outgrown is not None else dollars
