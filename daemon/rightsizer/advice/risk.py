"""How likely an action hurts: the share of five-minute blocks in which it would have."""

from dataclasses import dataclass
from typing import Final

from rightsizer.advice.beta import upper_bound
from rightsizer.domain.finding import Risk

__all__ = ["RiskLevel", "risk_of"]

_BLOCK_SECONDS: Final = 300.0
_LEVEL: Final = 0.9
_MINIMUM_BLOCKS: Final = 20
_LIMITS: Final = ((0.01, Risk.VERY_LOW), (0.05, Risk.LOW), (0.15, Risk.MEDIUM))
"""docs/definitions.md, conduct."""


@dataclass(frozen=True, slots=True)
class RiskLevel:
    """A risk with the bound that it rests on."""

    risk: Risk
    upper_bound_ratio: float | None
    """`None` where too few blocks are known to say."""


def risk_of(harmed_share: float, known_seconds: float) -> RiskLevel:
    """The risk of an action that would have hurt in a share of the known time.

    The bound is the upper 90 % one of the share of blocks; fewer than 20 blocks say nothing.
    """
    blocks = known_seconds / _BLOCK_SECONDS
    if blocks < _MINIMUM_BLOCKS:
        return RiskLevel(Risk.UNKNOWN, None)
    bound = upper_bound(harmed_share, blocks, _LEVEL)
    for limit, risk in _LIMITS:
        if bound < limit:
            return RiskLevel(risk, bound)
    return RiskLevel(Risk.HIGH, bound)
