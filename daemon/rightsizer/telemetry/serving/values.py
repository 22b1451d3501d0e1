"""From pages to signals: what stands now, and what happened since the page before."""

from collections.abc import Mapping
from typing import Final

from rightsizer.domain.plausible import plausible
from rightsizer.domain.reading import Missing
from rightsizer.domain.signal import Signal
from rightsizer.telemetry.serving.engine import Kind, Measure
from rightsizer.telemetry.serving.page import Labels, ServingPage

__all__ = ["values_of"]

_NOT_BEFORE: Final = 0.0
"""Histograms without a series on the page before took their first value since."""


def values_of(
    page: ServingPage, before: ServingPage | None = None, elapsed_seconds: float = 0.0
) -> Mapping[Signal, float]:
    """The signals that a page gives.

    Args:
        page: The engine as it is.
        before: The engine as it was; without it, or where it was another engine, there are no
            means.
        elapsed_seconds: Between the two pages.
    """
    former = before if before is not None and before.engine is page.engine else None
    values: dict[Signal, float] = {}
    for measure in page.engine.measures:
        if measure.signal in values:
            continue
        value = _measured(measure, page, former, elapsed_seconds)
        if value is None:
            continue
        believed = plausible(measure.signal, value)
        if not isinstance(believed, Missing):
            values[measure.signal] = believed
    return values


def _measured(
    measure: Measure, page: ServingPage, former: ServingPage | None, elapsed_seconds: float
) -> float | None:
    if measure.kind in (Kind.TOTAL, Kind.LARGEST):
        found = [value * part.factor for part in measure.parts for value in page.of(part).values()]
        if not found:
            return None
        return sum(found) if measure.kind is Kind.TOTAL else max(found)
    if former is None:
        return None
    if measure.kind is Kind.MEAN:
        return _mean(measure, page, former)
    return _occupancy(measure, page, former, elapsed_seconds)


def _mean(measure: Measure, page: ServingPage, former: ServingPage) -> float | None:
    """Sum and count of a series belong together: where one has begun anew, so has the other."""
    (of_sum,), (of_count,) = measure.parts, measure.counts
    sums, counts = page.of(of_sum), page.of(of_count)
    sums_before, counts_before = former.of(of_sum), former.of(of_count)
    added = happened = 0.0
    for labels in sums.keys() & counts.keys():
        sum_before = sums_before.get(labels, _NOT_BEFORE)
        count_before = counts_before.get(labels, _NOT_BEFORE)
        if sums[labels] < sum_before or counts[labels] < count_before:
            sum_before = count_before = _NOT_BEFORE
        added += sums[labels] - sum_before
        happened += counts[labels] - count_before
    return added * of_sum.factor / happened if happened > 0 else None


def _occupancy(
    measure: Measure, page: ServingPage, former: ServingPage, elapsed_seconds: float
) -> float | None:
    if elapsed_seconds <= 0 or not all(page.of(part) for part in measure.parts):
        return None
    spent = sum(_growth(page.of(part), former.of(part)) * part.factor for part in measure.parts)
    # What is taken away may have been counted earlier than what it is a part of.
    return max(0.0, spent) / elapsed_seconds


def _growth(now: Mapping[Labels, float], before: Mapping[Labels, float]) -> float:
    """What counters have gained, each of which may have begun anew, since there is a former."""
    return sum(
        value if value < before[labels] else value - before[labels]
        for labels, value in now.items()
        if labels in before
    )
