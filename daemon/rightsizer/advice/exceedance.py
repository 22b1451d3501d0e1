"""The risk that something smaller is too small at times, by resource."""

from collections.abc import Mapping
from typing import Final

from rightsizer.advice.risk import risk_of
from rightsizer.domain.block import Measure
from rightsizer.domain.finding import Case, Risk
from rightsizer.domain.pattern import Exceedance
from rightsizer.domain.state import Resource

__all__ = ["group_risks", "risks_beyond"]

_MEASURES: Final = {
    Resource.COMPUTE: Measure.COMPUTE,
    Resource.MEMORY: Measure.MEMORY,
    Resource.MEMORY_BANDWIDTH: Measure.MEMORY_BANDWIDTH,
    Resource.PCIE: Measure.PCIE,
    Resource.NVLINK: Measure.NVLINK,
}
_INDISPENSABLE: Final = frozenset({Resource.COMPUTE, Resource.MEMORY})
"""Without these nobody knows whether something smaller is enough."""


def risks_beyond(case: Case, capacities: Mapping[Resource, float]) -> dict[str, Risk]:
    """By the share of five-minute blocks whose peak exceeds what would be there of a resource.

    Args:
        case: What was asked for.
        capacities: What would be there, over what there is (docs/definitions.md, conduct). A
            resource of which nobody measured anything is left out, but for compute and memory.
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
    return Risk.UNKNOWN if found is None else risk_of(found.share, found.effective_blocks).risk
