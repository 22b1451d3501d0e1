"""The risk that something smaller is too small at times."""

from collections.abc import Mapping

from rightsizer.advice.risk import risk_of
from rightsizer.domain.finding import Risk
from rightsizer.domain.state import Resource
from rightsizer.domain.window import Window

__all__ = ["risk_beyond"]


def risk_beyond(window: Window, capacities: Mapping[Resource, float]) -> Risk:
    """By the share of active time whose demand exceeds what would be there of a resource.

    Args:
        window: What was asked for.
        capacities: What would be there, over what there is (docs/definitions.md, conduct).
    """
    exceeding = 0.0
    for resource, capacity in capacities.items():
        histogram = window.demands.get(resource)
        if histogram is not None and histogram.total > 0:
            exceeding = max(exceeding, 1.0 - histogram.at_most(capacity) / histogram.total)
    return risk_of(exceeding, window.known_seconds).risk
