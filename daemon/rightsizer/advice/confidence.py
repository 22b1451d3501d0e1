"""Confidence of a finding: product of published factors; quantiles of the Beta distribution."""

import math
from collections.abc import Mapping
from typing import Final

from rightsizer.model.finding import Case
from rightsizer.model.state import Tier

_STEPS: Final = 200
_PRECISION: Final = 1e-12
_TINY: Final = 1e-300
_JEFFREYS: Final = 0.5


def probability_above(share: float, blocks: float, threshold: float) -> float:
    """The probability that the true share passes a threshold, 0 to 1.

    The posterior is Beta(0.5 + share x blocks, 0.5 + (1 - share) x blocks): Jeffreys' prior,
    which favors no threshold, and as many independent observations as there are blocks. A
    uniform prior would not believe in 90 % after half an hour without a single exception.
    """
    hits = share * blocks
    return 1.0 - _cumulative(threshold, _JEFFREYS + hits, _JEFFREYS + blocks - hits)


def upper_bound(share: float, blocks: float, level: float) -> float:
    """The share that the true one stays under with a probability of `level`.

    The prior is uniform: a share that was never counted is not taken for impossible.
    """
    hits = share * blocks
    low, high = 0.0, 1.0
    for _ in range(50):
        middle = (low + high) / 2
        if _cumulative(middle, 1.0 + hits, 1.0 + blocks - hits) < level:
            low = middle
        else:
            high = middle
    return high


def is_below(share: float, blocks: float, limit: float, level: float) -> bool:
    """Whether `upper_bound` is below a limit, which is told without looking for it."""
    hits = share * blocks
    return _cumulative(limit, 1.0 + hits, 1.0 + blocks - hits) > level


def _cumulative(x: float, a: float, b: float) -> float:
    """The regularized incomplete beta function I_x(a, b)."""
    if x <= 0.0:
        return 0.0
    if x >= 1.0:
        return 1.0
    front = math.exp(
        a * math.log(x) + b * math.log1p(-x) - math.lgamma(a) - math.lgamma(b) + math.lgamma(a + b)
    )
    if x < (a + 1.0) / (a + b + 2.0):
        return front * _continued_fraction(x, a, b) / a
    return 1.0 - front * _continued_fraction(1.0 - x, b, a) / b


def _continued_fraction(x: float, a: float, b: float) -> float:
    """The continued fraction of I_x(a, b) by Lentz's method (DLMF 8.17.22)."""
    c, d = 1.0, 1.0 - (a + b) * x / (a + 1.0)
    d = 1.0 / (d if abs(d) > _TINY else _TINY)
    result = d
    for step in range(1, _STEPS):
        even = step * (b - step) * x / ((a + 2 * step - 1) * (a + 2 * step))
        odd = -(a + step) * (a + b + step) * x / ((a + 2 * step) * (a + 2 * step + 1))
        for term in (even, odd):
            d = 1.0 + term * d
            d = 1.0 / (d if abs(d) > _TINY else _TINY)
            c = 1.0 + term / c
            c = c if abs(c) > _TINY else _TINY
            result *= c * d
        if abs(c * d - 1.0) < _PRECISION:
            break
    return result


_OBSERVED_TIERS: Final = {Tier.PROFILING: 1.0, Tier.POWER: 0.97, Tier.BASIC: 0.95, Tier.NONE: 0.0}
"""How often a state that a rule dares to complain of was the true one, on that telemetry.

A rule that cannot tell on a tier abstains there, so that what is left is nearly always right: all
complaints were, on the tuning seeds of the labeled scenarios. The figures stay below what that
allows (`make eval` prints the reliability), for nobody's node is in the scenarios.
"""
_SIZED_TIERS: Final = {Tier.PROFILING: 1.0, Tier.POWER: 0.85, Tier.BASIC: 0.5, Tier.NONE: 0.0}
"""How much is known of what is needed: docs/definitions.md, conduct."""

_MOST: Final = 0.999
_OBSERVATION_SECONDS: Final = 60.0
"""The span was watched, not sampled; what is unsure is how its minutes were named. Five minutes
made confidences that were .18 too low on the tuning seeds, shorter than one changes nothing."""
_HISTORY_DAYS: Final = 3.0
_HISTORY_HOURS: Final = 24.0


def direct_factors(case: Case, share: float, threshold: float) -> dict[str, float]:
    """The factors of something observed directly: idleness, a stall, memory at its end.

    Tier x coverage x certainty that the share of time passes the rule's threshold, given as
    many independent minutes as are known (at least one).
    """
    known = min((window.known_seconds for window in case.windows), default=0.0)
    minutes = max(1.0, known / _OBSERVATION_SECONDS)
    certainty = probability_above(share, minutes, threshold)
    return _telemetry(case, _OBSERVED_TIERS) | {"certainty": certainty}


def opposite(factors: Mapping[str, float]) -> dict[str, float]:
    """The factors of the contrary: as sure as the first was unsure."""
    return {**factors, "certainty": 1.0 - factors["certainty"]}


def sizing_factors(case: Case, margin: float) -> dict[str, float]:
    """The factors of a judgement of size, which needs a history.

    Args:
        case: What is judged.
        margin: How far the measured value is beyond the rule's threshold, as a ratio.

    Source: docs/definitions.md, conduct; hours stand for the effective sample size.
    """
    known = min((window.known_seconds for window in case.windows), default=0.0)
    hours = known / 3600.0
    return _telemetry(case, _SIZED_TIERS) | {
        "history": 1.0 - math.exp(-hours / 24.0 / _HISTORY_DAYS),
        "samples": hours / (hours + _HISTORY_HOURS),
        "certainty": min(1.0, 0.5 + 5.0 * max(0.0, margin)),
    }


def confidence_of(factors: Mapping[str, float]) -> float:
    """The product of the factors, to three digits; nothing is certain."""
    return min(_MOST, round(math.prod(factors.values()), 3))


def _telemetry(case: Case, tiers: Mapping[Tier, float]) -> dict[str, float]:
    return {
        "tier": min((tiers[window.tier] for window in case.windows), default=0.0),
        "coverage": min((window.coverage_ratio for window in case.windows), default=0.0),
    }
