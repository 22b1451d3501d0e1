"""Model of how soon idle workloads resume work.

The hazard of an idle time decreases with age: beyond half an hour, survival is a power of its
length. The exponent is learned from observed gaps, with a conjugate Gamma prior.
"""

import math
from collections import defaultdict
from collections.abc import Iterable
from typing import Final, Self

from msgspec import Struct

from rightsizer.model.values import BLOCK_SPAN, HOUR, IdleGap, Nanoseconds, Series, seconds

LEAST_SECONDS: Final = 1800.0
"""Shorter gaps are pauses of work, without information about longer ones."""
DAY_HOURS: Final = 24
_NORMAL_90: Final = 1.2816
"""90 % quantile of the normal distribution."""


_USUAL_RATIO: Final = 0.6
"""Share of days with work at an hour from which it is usual: five days a week are .71."""
_USUAL_DAYS: Final = 3
"""Days on which an hour was observed from which it can be usual."""


def usual_hour(
    series: Series, busy_ratio: float, idle_since: Nanoseconds, now: Nanoseconds
) -> int | None:
    """Hour of the day (UTC) at which work usually resumes, after an idle time.

    `None` without such an hour, or if one of them has passed without work: the habit is broken.
    """
    idle_hours = range(-(-idle_since // HOUR), now // HOUR)
    if len(idle_hours) >= DAY_HOURS:  # Any hour has passed without work.
        return None
    known_days = defaultdict[int, int](int)
    worked = defaultdict[int, int](int)
    is_idle = series.means_below(busy_ratio)
    for number, inside in series.parts(HOUR):
        hour = number % DAY_HOURS
        known_days[hour] += 1
        worked[hour] += 0 in is_idle[inside]
    usual = {
        hour
        for hour, days in known_days.items()
        if days >= _USUAL_DAYS and worked[hour] >= _USUAL_RATIO * days
    }
    if not usual or any(hour % DAY_HOURS in usual for hour in idle_hours):
        return None
    return min(usual, key=lambda hour: (hour - now // HOUR) % DAY_HOURS)


class ResumptionModel(Struct, frozen=True):
    """Gamma distribution of the exponent with which idle times end."""

    gaps: float
    """Shape: number of ended gaps, own or borrowed."""
    exposure: float
    """Rate: sum of log(length / least length) over all gaps."""

    @classmethod
    def of_prior(cls, exponent: float, gaps: float) -> Self:
        """Prior with a given mean exponent and a weight in gaps."""
        return cls(gaps, gaps / exponent)

    def after(self, gaps: Iterable[IdleGap]) -> "ResumptionModel":
        """Posterior after some gaps; unended ones are right-censored."""
        lasting = [gap for gap in gaps if gap.seconds > LEAST_SECONDS]
        return ResumptionModel(
            self.gaps + sum(gap.has_ended for gap in lasting),
            self.exposure + sum(math.log(gap.seconds / LEAST_SECONDS) for gap in lasting),
        )

    def borrowed(self, gaps: float) -> "ResumptionModel":
        """Limit the weight to a number of gaps, for use as a prior for other workloads."""
        factor = min(1.0, gaps / self.gaps)
        return ResumptionModel(self.gaps * factor, self.exposure * factor)

    def probability(self, idle_seconds: float, within_seconds: float) -> float:
        """Probability that work resumes within a time span after the given idle time."""
        more = _stretch(idle_seconds, within_seconds)
        return 1.0 - math.pow(self.exposure / (self.exposure + more), self.gaps)

    def upper_bound(self, idle_seconds: float, within_seconds: float) -> float:
        """90 % upper bound of the probability."""
        ninth = 1.0 / (9.0 * self.gaps)
        # Wilson and Hilferty (1931): the cube root of a Gamma variable is nearly normal.
        exponent = self.gaps * (1.0 - ninth + _NORMAL_90 * math.sqrt(ninth)) ** 3 / self.exposure
        return 1.0 - math.exp(-exponent * _stretch(idle_seconds, within_seconds))


def _stretch(idle_seconds: float, within_seconds: float) -> float:
    least = max(idle_seconds, seconds(BLOCK_SPAN))
    return math.log((least + within_seconds) / least)
