"""Hourly figures of pools: known values, repetition, spare capacity and growth."""

import math
from collections.abc import Sequence
from typing import Annotated, Final

from msgspec import Struct

from rightsizer.accounting.load_patterns import (
    covers_week,
    daily_peaks,
    effective_samples,
    trend_of,
)
from rightsizer.accounting.settings import TrendSettings
from rightsizer.fleet.model import FleetPool, HourlySeries
from rightsizer.model.values import (
    BLOCK_SPAN,
    CONSTANT,
    HOUR_SECONDS,
    NANOSECONDS_PER_SECOND,
    Series,
    Spec,
    Trend,
)

HOUR: Final = 3600 * NANOSECONDS_PER_SECOND


def known_values(hours: HourlySeries) -> list[float]:
    """Return the known values, in time order."""
    return [value for value in hours.values if value is not None]


def known_ratio(hours: HourlySeries) -> float:
    """Return the share of hours that are known."""
    return len(known_values(hours)) / len(hours.values) if hours.values else 0.0


def mean_of(hours: HourlySeries | None) -> float | None:
    """Return the mean of the known hours, `None` if there are none."""
    values = known_values(hours) if hours else []
    return sum(values) / len(values) if values else None


def filled(hours: HourlySeries) -> list[float] | None:
    """Return hours with unknown ones set to the highest known value; `None` without any."""
    values = known_values(hours)
    if not values:
        return None
    highest = max(values)
    return [highest if value is None else value for value in hours.values]


def series_of(hours: HourlySeries) -> Series:
    """Return the known hours as a series, each at its first five minutes."""
    first = hours.start // BLOCK_SPAN
    blocks_per_hour = HOUR // BLOCK_SPAN
    values = known_values(hours)
    starts = [
        first + at * blocks_per_hour for at, value in enumerate(hours.values) if value is not None
    ]
    return Series(starts, [HOUR_SECONDS] * len(starts), values, values)


def covers_cycle(hours: HourlySeries) -> bool:
    """Whether nearly every hour of a week was observed."""
    numbered = enumerate(hours.values, start=hours.start // HOUR)
    return covers_week(hour for hour, value in numbered if value is not None)


def independent_hours(values: Sequence[float | None]) -> float:
    """Return the effective number of independent hours."""
    return effective_samples(values) if any(value is not None for value in values) else 0.0


_PLACES: Final = 6


class SpareSettings(Struct, frozen=True):
    """Spare capacity of a pool.

    Attributes:
        margin_ratio: GPUs to keep beyond the maximum held at once, as a share of it.
            Source: a node that fails in a pool of ten
    """

    margin_ratio: Annotated[float, Spec(within=(0, 2))] = 0.1


class SpareCapacity(Struct, frozen=True):
    """How many GPUs a pool does not need."""

    needed: int
    """Most GPUs held at once, at any known moment."""
    keep: int
    """Including the margin."""
    gpus: int
    """Beyond `keep`."""
    nodes: tuple[str, ...]
    """Whole nodes among those, emptiest first."""


def spare_of(pool: FleetPool, settings: SpareSettings, waiting_gpus: float = 0.0) -> SpareCapacity:
    """Return the capacity that was never needed, nor is for work that waits.

    None if the need is unknown.
    """
    size = pool.size
    values = known_values(pool.held_peak)
    if not values:
        return SpareCapacity(size, size, 0, ())
    held = {node: gpus - pool.free_by_node.get(node, 0) for node, gpus in pool.size_by_node.items()}
    held_now = sum(max(0, gpus) for gpus in held.values())
    needed = math.ceil(round(max(values), _PLACES))
    highest = max(*values, held_now + waiting_gpus if waiting_gpus else 0.0)
    keep = min(size, math.ceil(round(highest * (1 + settings.margin_ratio), _PLACES)))
    keep = max(keep, min(size, held_now))
    # Nodes with the least work to move, free for longest.
    free = {node: mean_of(pool.node_free.get(node)) or 0.0 for node in held}
    nodes = []
    left = size - keep
    for node in sorted(held, key=lambda name: (held[name], -free[name], name)):
        if 0 < pool.size_by_node[node] <= left:
            nodes.append(node)
            left -= pool.size_by_node[node]
    return SpareCapacity(needed, keep, size - keep, tuple(nodes))


class GrowthSettings(Struct, frozen=True):
    """Horizon and requirements of growth forecasts.

    Attributes:
        horizon_days: How far ahead exhaustion is forecast.
            Source: procurement time, and twice the history it rests on
        least_growth_ratio: Minimum growth of the trend line over the days seen, as a share of the
            pool.
            Source: assumed; less is what a week's end does to a line
    """

    horizon_days: Annotated[float, Spec(unit="days", within=(1, 365))] = 30.0
    least_growth_ratio: Annotated[float, CONSTANT] = 0.05
    trend: Annotated[TrendSettings, CONSTANT] = TrendSettings()


class PoolGrowth(Struct, frozen=True):
    """Linear trend of the daily maximum of held GPUs."""

    trend: Trend
    days_low: float | None
    """Days until it reaches the pool's size, at the earliest; `None` if not within the horizon."""
    days_high: float | None


def is_filling(pool: FleetPool, settings: GrowthSettings) -> bool:
    """Whether the trend fills the pool within the horizon."""
    growth = growth_of(pool, settings)
    return growth is not None and growth.days_low is not None


def growth_of(
    pool: FleetPool, settings: GrowthSettings, full_ratio: float = 1.0
) -> PoolGrowth | None:
    """Return the trend of a pool; `None` if too few days are known.

    `full_ratio` is the ratio of all GPUs that the trend must reach within the horizon.
    """
    size = pool.size
    trend = trend_of(daily_peaks(series_of(pool.held_peak), settings.trend), settings.trend)
    if trend is None or not size:
        return None
    days = trend.days_until(float(size))
    reached = trend.value + trend.slope_per_day * settings.horizon_days
    grown = trend.slope_per_day * trend.days
    is_slow = reached < full_ratio * size or grown < settings.least_growth_ratio * size
    return PoolGrowth(trend, *(days if days and not is_slow else (None, None)))
