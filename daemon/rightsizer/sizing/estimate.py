"""Estimates with 90% intervals, and the probabilities that follow from them."""

import math
from collections.abc import Callable
from functools import cache
from typing import Final

from msgspec import Struct

_HALVINGS: Final = 50
_MOST_DEVIATIONS: Final = 8.0


class EstimateInterval(Struct, frozen=True, gc=False):
    """Estimate with its 90% interval."""

    value: float
    low: float
    high: float

    @classmethod
    def around(cls, value: float, factor: float) -> "EstimateInterval":
        """Estimate with the same error factor in both directions."""
        return cls(value, value / factor, value * factor)

    @classmethod
    def exactly(cls, value: float) -> "EstimateInterval":
        """Value known exactly."""
        return cls(value, value, value)

    def plus(self, other: "EstimateInterval") -> "EstimateInterval":
        """Sum, bound by bound."""
        return EstimateInterval(
            self.value + other.value, self.low + other.low, self.high + other.high
        )

    def scaled(self, by: float) -> "EstimateInterval":
        """Product with an exact factor."""
        return EstimateInterval(self.value * by, self.low * by, self.high * by)

    def at_least(self, least: float) -> "EstimateInterval":
        """Interval of what is known to be no less."""
        ends = (max(least, end) for end in (self.value, self.low, self.high))
        return EstimateInterval(*ends)

    def at_most(self, largest: float) -> "EstimateInterval":
        """Interval of what is known to be no more."""
        ends = (min(largest, end) for end in (self.value, self.low, self.high))
        return EstimateInterval(*ends)

    def times(self, other: "EstimateInterval") -> "EstimateInterval":
        """Product of two values with independent errors: log errors add in quadrature."""
        value = self.value * other.value
        if value <= 0.0 or min(self.low, other.low) <= 0.0:
            return EstimateInterval(value, self.low * other.low, self.high * other.high)
        below = math.hypot(math.log(self.value / self.low), math.log(other.value / other.low))
        above = math.hypot(math.log(self.high / self.value), math.log(other.high / other.value))
        return EstimateInterval(value, value * math.exp(-below), value * math.exp(above))

    def inverse(self) -> "EstimateInterval":
        """Reciprocal; the value must be positive."""
        return EstimateInterval(1.0 / self.value, 1.0 / self.high, 1.0 / self.low)

    def met_probability(self, limit: float) -> float:
        """Probability that it is at most a limit."""
        end = self.high if limit > self.value else self.low
        if self.value <= 0.0 or end <= 0.0 or end == self.value:
            return 1.0 if self.value <= limit else 0.0
        deviation = abs(math.log(end / self.value)) / END_DEVIATIONS
        return normal_part(math.log(limit / self.value) / deviation)

    def quantile(self, probability: float) -> float:
        """Value that is not exceeded with a probability: the inverse of `met_probability`."""
        deviations = normal_quantile(probability)
        end = self.high if deviations > 0.0 else self.low
        if min(self.value, end) <= 0.0:
            return self.value
        return float(self.value * (end / self.value) ** (abs(deviations) / END_DEVIATIONS))


def joint_error_factor(*factors: float) -> float:
    """Error factor of several independent errors: their logarithms add in quadrature."""
    return math.exp(math.hypot(*map(math.log, factors)))


def halved(
    low: float, high: float, is_below: Callable[[float], bool], times: int = _HALVINGS
) -> tuple[float, float]:
    """Bracket of the threshold of a predicate after the given number of bisections."""
    for _ in range(times):
        middle = (low + high) / 2.0
        low, high = (middle, high) if is_below(middle) else (low, middle)
    return low, high


def interpolated(
    low: float, high: float, excess: Callable[[float], float], times: int
) -> tuple[float, float]:
    """The bracket of as many bisections of the zero of an increasing function, in fewer steps.

    Found by false positions, rounded away from the nearer end; an end that stays twice counts half
    as much, so that it moves.
    """
    below = 0
    above = 2**times
    width = (high - low) / above
    excess_below = excess(low)
    excess_above = excess(high)
    last_step = 0
    while above - below > 1:
        zero_ratio = (
            excess_below / (excess_below - excess_above) if excess_below < excess_above else 0.5
        )
        place = below + zero_ratio * (above - below)
        middle = math.floor(place) if place - below > above - place else math.ceil(place)
        middle = min(max(middle, below + 1), above - 1)
        value = excess(low + middle * width)
        if value < 0.0:
            below = middle
            excess_below = value
            excess_above *= 0.5 if last_step < 0 else 1.0
            last_step = -1
        else:
            above = middle
            excess_above = value
            excess_below *= 0.5 if last_step > 0 else 1.0
            last_step = 1
    return low + below * width, low + above * width


def normal_part(deviations: float) -> float:
    """Cumulative normal distribution at a number of standard deviations."""
    return math.erfc(-deviations / math.sqrt(2.0)) / 2.0


@cache
def normal_quantile(part: float) -> float:
    """Inverse of `normal_part`; `statistics` is slow to import."""
    return halved(
        -_MOST_DEVIATIONS, _MOST_DEVIATIONS, lambda deviations: normal_part(deviations) < part
    )[1]


END_DEVIATIONS: Final = normal_quantile(0.95)
"""From the center of a 90% interval to its ends."""
