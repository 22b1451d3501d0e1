"""Confidence of a finding: product of published factors; quantiles of the Beta distribution."""

import math
from typing import Final

_STEPS: Final = 200
_PRECISION: Final = 1e-12
_TINY: Final = 1e-300
_JEFFREYS: Final = 0.5


def probability_above(share: float, blocks: float, threshold: float) -> float:
    """The probability that the true share passes a threshold, 0 to 1.

    The posterior is Beta(0.5 + share x blocks, 0.5 + (1 - share) x blocks): Jeffreys' prior,
    which favors no threshold, and as many independent observations as there are blocks. A
    uniform prior would not accept 90 % after half an hour without a single exception.
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
    """Whether `upper_bound` is below a limit, without computing it."""
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
