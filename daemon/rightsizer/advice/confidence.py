"""How likely a finding is true, as a product of factors that are all published."""

import math
from collections.abc import Mapping
from typing import Final

from rightsizer.advice.beta import probability_above
from rightsizer.domain.finding import Case
from rightsizer.domain.state import Tier

__all__ = ["confidence_of", "direct_factors", "opposite", "sizing_factors"]

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
