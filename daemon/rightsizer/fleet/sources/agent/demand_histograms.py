"""What was used of each resource over some days, from distributions of eleven edges."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import accumulate
from math import ceil
from typing import Final

from rightsizer.fleet.sources.agent.metrics import FIGURE
from rightsizer.fleet.store import SampledSeries
from rightsizer.model.block import Measure
from rightsizer.model.histogram import BINS, Histogram
from rightsizer.model.state import Resource
from rightsizer.model.units import NANOSECONDS_PER_SECOND, nanoseconds

_ALL: Final = BINS - 1
_ROUNDING: Final = 1e-9
_EDGES: Final = (0, 2, 5, 10, 25, 50, 65, 80, 90, 95, 100)
"""Those of the exported buckets, in percent."""

Buckets = Mapping[str, Mapping[float, float]]
"""By figure, the seconds up to each edge."""


def buckets_of(answer: Iterable[SampledSeries]) -> dict[str, dict[str, dict[float, float]]]:
    """The buckets of an answer, all its days together, by uuid, figure and edge."""
    found: dict[str, dict[str, dict[float, float]]] = {}
    for series in answer:
        labels = series.labels
        figures = found.setdefault(labels.get("uuid", ""), {})
        edges = figures.setdefault(labels.get(FIGURE, ""), {})
        edges[float(labels.get("le", "inf"))] = sum(series.values)
    return found


def demands_of(
    buckets: Buckets,
    peaks: Mapping[Measure, array[float]],
    known: array[float],
    working_power_ratio: float,
) -> dict[Resource, Histogram]:
    """The days' distributions by resource, idle time included.

    Buckets are wide: within one, time is spread as those stretches whose peaks lie in it.

    Args:
        buckets: By figure.
        peaks: Of each stretch. Those of memory, which hardly moves, are its distribution.
        known: Seconds of each stretch whose state is known.
        working_power_ratio: Power at which a busy device counts as fully used.
    """
    shapes = {measure: _peaks(values, known) for measure, values in peaks.items()}
    found: dict[Resource, Histogram] = {}
    compute = _compute(buckets, working_power_ratio)
    if compute is not None:
        found[Resource.COMPUTE] = _shaped(compute, shapes.get(Measure.COMPUTE, {}))
    if "dram" in buckets:
        traffic = _cumulative(buckets["dram"])
        shape = shapes.get(Measure.MEMORY_BANDWIDTH, {})
        found[Resource.MEMORY_BANDWIDTH] = _shaped(traffic, shape)
    if Measure.MEMORY in shapes:
        found[Resource.MEMORY] = Histogram(
            {
                percent: float(nanoseconds(length))
                for percent, length in shapes[Measure.MEMORY].items()
            }
        )
    return {resource: histogram for resource, histogram in found.items() if histogram.total > 0}


def _peaks(values: array[float], known: array[float]) -> dict[int, float]:
    """Known seconds by the percent of their stretch's peak."""
    length = known[0] if known else 0.0
    if known.count(length) == len(known):
        # Most stretches are known as a whole, and answers are rounded: few numbers tell of all.
        times = [(share, number * length) for share, number in Counter(values).items()]
    else:
        times = list(zip(values, known, strict=True))
    found: dict[int, float] = {}
    for share, time in times:
        if share >= 0 and time > 0:
            # As `bin_of`, which would be called for every stretch of an estate.
            percent = _ALL if share >= 1.0 else ceil(share * _ALL - _ROUNDING)
            found[percent] = found.get(percent, 0.0) + time
    return found


def _compute(buckets: Buckets, working_power_ratio: float) -> list[float] | None:
    if "sm_work" in buckets:
        return _cumulative(buckets["sm_work"])
    if "busy" not in buckets:
        return None
    busy = _cumulative(buckets["busy"])
    if "power" not in buckets:
        return busy
    return _weighed(busy, _cumulative(buckets["power"]), working_power_ratio)


def _weighed(busy: list[float], power: list[float], full: float) -> list[float]:
    """Up to which edge busy time times power came, at the most.

    A product of two shares is at most the lesser, so at least as much time lies below any edge
    as of either: the larger of the two holds for the product too.
    """
    if power[-1] <= 0:
        return busy
    scale = busy[-1] / power[-1]
    weighed = [_below(power, edge * full) * scale for edge in _EDGES[:-1]]
    return [max(each) for each in zip(busy, [*weighed, busy[-1]], strict=True)]


def _below(cumulative: list[float], percent: float) -> float:
    """What surely lies below any percent: all of a bucket may lie at its upper end."""
    return cumulative[bisect_right(_EDGES, percent) - 1]


def _cumulative(counts: Mapping[float, float]) -> list[float]:
    """Seconds up to each edge."""
    found = {round(edge * _ALL): count for edge, count in counts.items() if edge <= 1.0}
    # Counters of one histogram are extended to the ends of a range each by itself; one that
    # did not grow at all may be missing.
    return list(accumulate((found.get(edge, 0.0) for edge in _EDGES), max))


def _shaped(cumulative: list[float], shape: Mapping[int, float]) -> Histogram:
    """Seconds up to each edge as a histogram, spread within buckets as the shape is."""
    weights: dict[int, float] = {}
    before, low = 0.0, -1
    for count, high in zip(cumulative, _EDGES, strict=True):
        if count > before:
            inside = range(low + 1, high + 1)
            weight = (count - before) * NANOSECONDS_PER_SECOND
            own = {percent: shape[percent] for percent in inside if percent in shape}
            if own:
                unit = weight / sum(own.values())
                weights |= {percent: float(round(part * unit)) for percent, part in own.items()}
            else:
                weights |= dict.fromkeys(inside, float(round(weight / len(inside))))
        before, low = count, high
    return Histogram(weights)
