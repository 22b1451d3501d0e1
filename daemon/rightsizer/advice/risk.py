"""Confidence bounds of shares by Beta quantiles; risk and order of options."""

import math
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Final

from rightsizer.model.values import Case, Exceedance, Measure, Option, Resource, Risk, Savings

_STEPS: Final = 200
_PRECISION: Final = 1e-12
_TINY: Final = 1e-300
_JEFFREYS: Final = 0.5


@lru_cache(maxsize=128)
def probability_above(share: float, blocks: float, threshold: float) -> float:
    """Probability that the true share exceeds a threshold, 0 to 1.

    The posterior is Beta(0.5 + share x blocks, 0.5 + (1 - share) x blocks): Jeffreys' prior, which
    favors no threshold, and one independent observation per block. A uniform prior would not
    accept 90 % after half an hour without a single exception.
    """
    hits = share * blocks
    return 1.0 - _cumulative(threshold, _JEFFREYS + hits, _JEFFREYS + blocks - hits)


@lru_cache(maxsize=128)
def upper_bound(share: float, blocks: float, level: float) -> float:
    """Upper bound of the true share with probability `level`.

    The prior is uniform, so that a share of zero observations is not considered impossible.
    """
    hits = share * blocks
    low = 0.0
    high = 1.0
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
    """Regularized incomplete beta function I_x(a, b)."""
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
    """Continued fraction of I_x(a, b) by Lentz's method (DLMF 8.17.22)."""
    c = 1.0
    d = 1.0 - (a + b) * x / (a + 1.0)
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


_LEVEL: Final = 0.9
_MINIMUM_BLOCKS: Final = 20
_LIMITS: Final = ((0.01, Risk.VERY_LOW), (0.05, Risk.LOW), (0.15, Risk.MEDIUM))
"""docs/definitions.md, conduct."""


def risk_of(harmed_share: float, effective_blocks: float) -> Risk:
    """Risk of an action that would have done harm in a share of five-minute blocks.

    Uses the 90 % upper bound of the share; fewer than 20 independent blocks are inconclusive.
    """
    if effective_blocks < _MINIMUM_BLOCKS:
        return Risk.UNKNOWN
    limits = (
        risk for limit, risk in _LIMITS if is_below(harmed_share, effective_blocks, limit, _LEVEL)
    )
    return next(limits, Risk.HIGH)


def risk_under(bound_ratio: float) -> Risk:
    """Risk of harm with a probability below a certain bound."""
    return next((risk for limit, risk in _LIMITS if bound_ratio < limit), Risk.HIGH)


def worst(risks: Iterable[Risk]) -> Risk:
    """Highest of some risks; unknown if there are none."""
    return max(risks, key=lambda risk: (risk.rank, risk is Risk.UNKNOWN), default=Risk.UNKNOWN)


_MEASURES: Final = {
    Resource.COMPUTE: Measure.COMPUTE,
    Resource.MEMORY: Measure.MEMORY,
    Resource.MEMORY_BANDWIDTH: Measure.MEMORY_BANDWIDTH,
    Resource.PCIE: Measure.PCIE,
    Resource.NVLINK: Measure.NVLINK,
}
_INDISPENSABLE: Final = frozenset({Resource.COMPUTE, Resource.MEMORY})
"""Without these it is unknown whether something smaller suffices."""


def risks_beyond(case: Case, capacities: Mapping[Resource, float]) -> dict[str, Risk]:
    """Risk by resource, from the share of blocks with a peak above the new capacity.

    Capacities are relative to the present ones (docs/definitions.md, conduct). Unmeasured
    resources are omitted, except for compute and memory.
    """
    risks: dict[str, Risk] = {}
    for resource, capacity in capacities.items():
        if capacity >= 1.0:  # Not reduced, so never exceeded, however little was observed.
            risks[str(resource)] = Risk.VERY_LOW
            continue
        exceedance = case.exceedance(_MEASURES[resource], capacity)
        if exceedance is not None or resource in _INDISPENSABLE:
            risks[str(resource)] = _risk(exceedance)
    return risks


def group_risks(case: Case, devices: int) -> dict[str, Risk]:
    """Risks for all of a workload's devices together, with fewer of them."""
    return {
        str(resource): _risk(case.group_exceedance(_MEASURES[resource], devices))
        for resource in (Resource.COMPUTE, Resource.MEMORY)
    }


def _risk(excess: Exceedance | None) -> Risk:
    return Risk.UNKNOWN if excess is None else risk_of(excess.share, excess.effective_blocks)


def ranked(options: Iterable[Option]) -> tuple[Option, ...]:
    """Options by risk, then by savings; equal ones keep their order, mildest first.

    Savings are compared in money if every option has a price, else in GPUs.
    """
    given = [(option, option.savings or Savings()) for option in options]
    has_prices = all(savings.dollars_per_hour_high is not None for _, savings in given)

    def saved(savings: Savings) -> float:
        return savings.dollars_per_hour if has_prices else savings.gpus

    given.sort(key=lambda pair: (pair[0].risk.rank, -saved(pair[1])))
    return tuple(option for option, _ in given)
