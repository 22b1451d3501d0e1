"""Arithmetic on figures by the hour: what is known of them, their days, and how they repeat."""

from collections.abc import Sequence
from typing import Final

from rightsizer.accounting.load_patterns import covers_week, effective_samples, shape_of
from rightsizer.fleet.model import HourlySeries
from rightsizer.model.block import BLOCK_SPAN, Series
from rightsizer.model.pattern import Shape
from rightsizer.model.units import NANOSECONDS_PER_SECOND

HOUR: Final = 3600 * NANOSECONDS_PER_SECOND
_HOUR_SECONDS: Final = 3600.0


def known_values(hours: HourlySeries) -> list[float]:
    """What is known, in the order of time."""
    return [value for value in hours.values if value is not None]


def known_ratio(hours: HourlySeries) -> float:
    """Known hours, of all of them."""
    return len(known_values(hours)) / len(hours.values) if hours.values else 0.0


def filled(hours: HourlySeries) -> list[float] | None:
    """An hour of which nothing is known counts as the worst that is; `None` where none is."""
    known = known_values(hours)
    if not known:
        return None
    most = max(known)
    return [most if value is None else value for value in hours.values]


def series_of(hours: HourlySeries) -> Series:
    """The known hours, each by the five minutes that it begins with."""
    first, each = hours.start // BLOCK_SPAN, HOUR // BLOCK_SPAN
    places = [at for at, value in enumerate(hours.values) if value is not None]
    values = known_values(hours)
    return Series(
        [first + at * each for at in places], [_HOUR_SECONDS] * len(places), values, values
    )


def shape_by_hour(hours: HourlySeries) -> Shape | None:
    """How the figure repeats itself; `None` where nothing is known."""
    return shape_of(series_of(hours))


def covers_cycle(hours: HourlySeries) -> bool:
    """Whether nearly every hour of a week was seen."""
    first = hours.start // HOUR
    return covers_week(
        hour for hour, value in enumerate(hours.values, start=first) if value is not None
    )


def independent_hours(values: Sequence[float | None]) -> float:
    """How many independent hours they are worth."""
    return effective_samples(values) if any(value is not None for value in values) else 0.0
