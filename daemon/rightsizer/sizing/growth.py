"""What each kind of GPU comes to while the load grows, month by month."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from rightsizer.catalogue.board import Board
from rightsizer.sizing.candidates import Candidate
from rightsizer.sizing.requirement import Requirement
from rightsizer.sizing.search import Search

__all__ = ["GrowingKind", "GrowthStep", "growing_kinds", "growth_steps"]


@dataclass(frozen=True, slots=True)
class GrowthStep:
    """From a month on, so many GPUs."""

    month: int
    load_ratio: float
    """Of today's."""
    candidate: Candidate


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
        hourly = [step.candidate.dollars_per_hour for step in self.steps[month:-1]]
        known = [each for each in hourly if each is not None]
        return sum(known) * self.hours_per_month if len(known) == len(hourly) else None


def growing_kinds(
    requirement: Requirement,
    leading: Sequence[tuple[Board, Candidate]],
    search: Callable[[Requirement], Search],
    price: Callable[[Board], float | None],
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
            kind.append(GrowthStep(month, ratio, asked.best(board, price(board))))
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
