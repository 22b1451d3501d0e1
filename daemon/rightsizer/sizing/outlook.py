"""Which GPUs are the cheapest over all the months that a load grows, and when to change over."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from rightsizer.sizing.growth import GrowingKind

__all__ = ["Outlook", "Switch", "look_ahead"]


@dataclass(frozen=True, slots=True)
class Switch:
    """From a month on another kind of GPU is the better one."""

    month: int
    gpu: str
    count: int
    """How many it takes then."""
    dollars_saved: float | None
    """Until the last month; `None` where what is left behind no longer holds the load."""


@dataclass(frozen=True, slots=True)
class Outlook:
    """The leading candidates over all months."""

    kinds: tuple[GrowingKind, ...]
    """The cheapest over the whole span first; then those without a price, and those outgrown."""
    switch: Switch | None
    """When to leave today's first in rank; `None` where it stays the better one."""

    @property
    def cheapest(self) -> GrowingKind | None:
        """What holds every month for the least money; `None` where nothing with a price does."""
        first = self.kinds[0]
        return first if math.isfinite(_span(first)) else None

    @property
    def outgrown(self) -> int | None:
        """The first month whose load none of them holds; `None` where one holds them all."""
        months = [each.outgrown for each in self.kinds]
        known = [each for each in months if each is not None]
        return max(known) if len(known) == len(months) else None


def look_ahead(kinds: Sequence[GrowingKind], switch_saving_ratio: float) -> Outlook | None:
    """What to expect of candidates, today's best first; `None` of none.

    Args:
        kinds: The candidates through all months.
        switch_saving_ratio: What another kind has to save of the rest of the span, that changing
            over is worth it.
    """
    if not kinds:
        return None
    ordered = sorted(kinds, key=_span)
    return Outlook(tuple(ordered), _switch(kinds[0], kinds[1:], switch_saving_ratio))


def _switch(today: GrowingKind, others: Sequence[GrowingKind], least: float) -> Switch | None:
    for month in range(1, today.months + 1):
        is_outgrown = today.outgrown is not None and today.outgrown <= month
        holding = [each for each in others if _lasts(each) > month]
        if not holding:
            return None
        best = min(holding, key=lambda each: (-_lasts(each), _span(each, month)))
        count = best.steps[month].candidate.count
        if is_outgrown:
            return Switch(month, best.gpu, count, None)
        rest = today.dollars(month)
        saved = None if rest is None else rest - _span(best, month)
        if rest and saved is not None and saved >= least * rest and _is_cheaper(best, today, month):
            return Switch(month, best.gpu, count, saved)
    return None


def _lasts(kind: GrowingKind) -> float:
    """The first month that it does not hold."""
    return math.inf if kind.outgrown is None else kind.outgrown


def _is_cheaper(one: GrowingKind, other: GrowingKind, month: int) -> bool:
    """In that very month already, so that nobody changes over too early."""
    mine = one.steps[month].candidate.dollars_per_hour
    theirs = other.steps[month].candidate.dollars_per_hour
    return mine is not None and theirs is not None and mine < theirs


def _span(kind: GrowingKind, month: int = 0) -> float:
    dollars = kind.dollars(month)
    return math.inf if dollars is None or kind.outgrown is not None else dollars
