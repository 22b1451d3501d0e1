"""How far apart samples are on each day: stores thin out what is old, and scrapes change."""

from collections.abc import Mapping
from typing import Final

from rightsizer.domain.units import NANOSECONDS_PER_SECOND, Nanoseconds
from rightsizer.fleet.kept.grid import DAY
from rightsizer.fleet.store import Store

__all__ = ["seconds_by_day"]

_LOOK_SECONDS: Final = 3600
_EVERY: Final[Nanoseconds] = 3 * _LOOK_SECONDS * NANOSECONDS_PER_SECOND
"""An eighth of all samples is looked at, of a few series."""
_OUTLIERS: Final = 1
"""An hour in which a scraper began, or was away, is no measure of its day."""


def seconds_by_day(
    store: Store, some_series: str, now: Nanoseconds, lookback: Nanoseconds
) -> Mapping[int, float]:
    """Seconds between two samples, by UTC day; days without samples are left out.

    Args:
        store: Whom to ask.
        some_series: Selects a few that are always there.
        now: Wall time.
        lookback: How far back.
    """
    query = f"max(count_over_time({some_series}[{_LOOK_SECONDS}s]))"
    hours: dict[int, list[float]] = {}
    for series in store.range(query, now - lookback, now, _EVERY):
        for time, count in zip(series.times, series.values, strict=True):
            if count > 0:
                hours.setdefault((time - 1) // DAY, []).append(_LOOK_SECONDS / count)
    return {
        day: sorted(found, reverse=True)[min(_OUTLIERS, len(found) - 1)]
        for day, found in hours.items()
    }
