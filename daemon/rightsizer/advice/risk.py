"""How likely an action hurts: the share of five-minute blocks in which it would have."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from rightsizer.advice.beta import upper_bound
from rightsizer.domain.finding import Risk

__all__ = ["RiskLevel", "rank_of", "risk_of", "worst"]

_LEVEL: Final = 0.9
_MINIMUM_BLOCKS: Final = 20
_LIMITS: Final = ((0.01, Risk.VERY_LOW), (0.05, Risk.LOW), (0.15, Risk.MEDIUM))
"""docs/definitions.md, conduct."""
_RANKS: Final = {Risk.VERY_LOW: 0, Risk.LOW: 1, Risk.MEDIUM: 2, Risk.HIGH: 3, Risk.UNKNOWN: 3}
"""What nobody knows is ranked as what is likely to hurt."""


@dataclass(frozen=True, slots=True)
class RiskLevel:
    """A risk with the bound that it rests on."""

    risk: Risk
    upper_bound_ratio: float | None
    """`None` where too few blocks are known to say."""


def risk_of(harmed_share: float, effective_blocks: float) -> RiskLevel:
    """The risk of an action that would have hurt in a share of some five-minute blocks.

    The bound is the upper 90 % one of the share; fewer than 20 independent blocks say nothing.
    """
    if effective_blocks < _MINIMUM_BLOCKS:
        return RiskLevel(Risk.UNKNOWN, None)
    bound = upper_bound(harmed_share, effective_blocks, _LEVEL)
    for limit, risk in _LIMITS:
        if bound < limit:
            return RiskLevel(risk, bound)
    return RiskLevel(Risk.HIGH, bound)


def rank_of(risk: Risk) -> int:
    """A number that is greater for what is riskier."""
    return _RANKS[risk]


def worst(risks: Iterable[Risk]) -> Risk:
    """The greatest of some risks; unknown where there are none."""
    return max(risks, key=lambda risk: (rank_of(risk), risk is Risk.UNKNOWN), default=Risk.UNKNOWN)
