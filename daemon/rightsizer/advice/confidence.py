"""How likely a finding is true, as a product of factors that are all published."""

import math
from collections.abc import Mapping
from typing import Final

from rightsizer.advice.beta import probability_above
from rightsizer.domain.finding import Case
from rightsizer.domain.state import Tier

__all__ = ["confidence_of", "direct_factors", "opposite", "sizing_factors"]

_TIER_FACTORS: Final = {Tier.PROFILING: 1.0, Tier.POWER: 0.85, Tier.BASIC: 0.5, Tier.NONE: 0.0}
"""docs/definitions.md, conduct."""

_MOST: Final = 0.999
_BLOCK_SECONDS: Final = 300.0
_HISTORY_DAYS: Final = 3.0
_HISTORY_HOURS: Final = 24.0


def direct_factors(case: Case, share: float, threshold: float) -> dict[str, float]:
    """The factors of something observed directly: idleness, a stall, memory at its end.

    Tier x coverage x certainty that the share of time passes the rule's threshold, given as
    many independent blocks of five minutes as are known (at least one).
    """
    known = min((window.known_seconds for window in case.windows), default=0.0)
    blocks = max(1.0, known / _BLOCK_SECONDS)
    return _telemetry(case) | {"certainty": probability_above(share, blocks, threshold)}


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
    return _telemetry(case) | {
        "history": 1.0 - math.exp(-hours / 24.0 / _HISTORY_DAYS),
        "samples": hours / (hours + _HISTORY_HOURS),
        "certainty": min(1.0, 0.5 + 5.0 * max(0.0, margin)),
    }


def confidence_of(factors: Mapping[str, float]) -> float:
    """The product of the factors, to three digits; nothing is certain."""
    return min(_MOST, round(math.prod(factors.values()), 3))


def _telemetry(case: Case) -> dict[str, float]:
    return {
        "tier": min((_TIER_FACTORS[window.tier] for window in case.windows), default=0.0),
        "coverage": min((window.coverage_ratio for window in case.windows), default=0.0),
    }
