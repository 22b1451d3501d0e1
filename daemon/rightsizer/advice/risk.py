"""Risk of an option: share of five-minute blocks in which it would have hurt; order of options."""

from collections.abc import Iterable, Mapping
from typing import Final

from rightsizer.advice.confidence import is_below
from rightsizer.model.block import Measure
from rightsizer.model.finding import Case, Option, Risk, Savings
from rightsizer.model.pattern import Exceedance
from rightsizer.model.state import Resource

_LEVEL: Final = 0.9
_MINIMUM_BLOCKS: Final = 20
_LIMITS: Final = ((0.01, Risk.VERY_LOW), (0.05, Risk.LOW), (0.15, Risk.MEDIUM))
"""docs/definitions.md, conduct."""
_RANKS: Final = {Risk.VERY_LOW: 0, Risk.LOW: 1, Risk.MEDIUM: 2, Risk.HIGH: 3, Risk.UNKNOWN: 3}
"""What is unknown is ranked as what is likely to hurt."""


def risk_of(harmed_share: float, effective_blocks: float) -> Risk:
    """The risk of an action that would have hurt in a share of some five-minute blocks.

    The bound is the upper 90 % one of the share; fewer than 20 independent blocks say nothing.
    """
    if effective_blocks < _MINIMUM_BLOCKS:
        return Risk.UNKNOWN
    limits = (
        risk for limit, risk in _LIMITS if is_below(harmed_share, effective_blocks, limit, _LEVEL)
    )
    return next(limits, Risk.HIGH)


def risk_under(bound_ratio: float) -> Risk:
    """The risk of what hurts with a probability that is surely under a bound."""
    return next((risk for limit, risk in _LIMITS if bound_ratio < limit), Risk.HIGH)


def rank_of(risk: Risk) -> int:
    """A number that is greater for what is riskier."""
    return _RANKS[risk]


def worst(risks: Iterable[Risk]) -> Risk:
    """The greatest of some risks; unknown where there are none."""
    return max(risks, key=lambda risk: (rank_of(risk), risk is Risk.UNKNOWN), default=Risk.UNKNOWN)


_MEASURES: Final = {
    Resource.COMPUTE: Measure.COMPUTE,
    Resource.MEMORY: Measure.MEMORY,
    Resource.MEMORY_BANDWIDTH: Measure.MEMORY_BANDWIDTH,
    Resource.PCIE: Measure.PCIE,
    Resource.NVLINK: Measure.NVLINK,
}
_INDISPENSABLE: Final = frozenset({Resource.COMPUTE, Resource.MEMORY})
"""Without these it is unknown whether something smaller is enough."""


def risks_beyond(case: Case, capacities: Mapping[Resource, float]) -> dict[str, Risk]:
    """By the share of five-minute blocks whose peak exceeds what would be there of a resource.

    Capacities are over what there is (docs/definitions.md, conduct). An unmeasured resource is
    left out, but for compute and memory.
    """
    risks: dict[str, Risk] = {}
    for resource, capacity in capacities.items():
        if capacity >= 1.0:  # What is no smaller was never exceeded, however little was seen.
            risks[str(resource)] = Risk.VERY_LOW
            continue
        found = case.exceedance(_MEASURES[resource], capacity)
        if found is not None or resource in _INDISPENSABLE:
            risks[str(resource)] = _risk(found)
    return risks


def group_risks(case: Case, devices: int) -> dict[str, Risk]:
    """The same of all of a workload's devices together, with fewer of them."""
    return {
        str(resource): _risk(case.group_exceedance(_MEASURES[resource], devices))
        for resource in (Resource.COMPUTE, Resource.MEMORY)
    }


def _risk(found: Exceedance | None) -> Risk:
    return Risk.UNKNOWN if found is None else risk_of(found.share, found.effective_blocks)


def ranked(options: Iterable[Option]) -> tuple[Option, ...]:
    """Options by risk, then by what they save; equals stay in the order given, mildest first.

    Money decides where every option has a price, GPUs otherwise.
    """
    given = [(each, each.savings or Savings()) for each in options]
    has_prices = all(savings.dollars_per_hour_high is not None for _, savings in given)

    def saved(savings: Savings) -> float:
        if has_prices:
            return (savings.dollars_per_hour_low or 0.0) + (savings.dollars_per_hour_high or 0.0)
        return (savings.gpus_low or 0.0) + (savings.gpus_high or 0.0)

    given.sort(key=lambda each: (rank_of(each[0].risk), -saved(each[1])))
    return tuple(option for option, _ in given)
