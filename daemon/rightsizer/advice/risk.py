"""How likely an action hurts: the share of five-minute blocks in which it would have."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from rightsizer.advice.beta import is_below, upper_bound
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
    """A risk with what it rests on."""

    risk: Risk
    harmed_share: float
    effective_blocks: float

    @property
    def upper_bound_ratio(self) -> float | None:
        """The upper 90 % bound of the share; `None` where too few blocks are known to say."""
        if self.risk is Risk.UNKNOWN:
            return None
        return upper_bound(self.harmed_share, self.effective_blocks, _LEVEL)


def risk_of(harmed_share: float, effective_blocks: float) -> RiskLevel:
    """The risk of an action that would have hurt in a share of some five-minute blocks.

    The bound is the upper 90 % one of the share; fewer than 20 independent blocks say nothing.
    """
    return RiskLevel(_class_of(harmed_share, effective_blocks), harmed_share, effective_blocks)


def rank_of(risk: Risk) -> int:
    """A number that is greater for what is riskier."""
    return _RANKS[risk]


def worst(risks: Iterable[Risk]) -> Risk:
    """The greatest of some risks; unknown where there are none."""
    return max(risks, key=lambda risk: (rank_of(risk), risk is Risk.UNKNOWN), default=Risk.UNKNOWN)


def _class_of(share: float, blocks: float) -> Risk:
    if blocks < _MINIMUM_BLOCKS:
        return Risk.UNKNOWN
    below = (risk for limit, risk in _LIMITS if is_below(share, blocks, limit, _LEVEL))
    return next(below, Risk.HIGH)
