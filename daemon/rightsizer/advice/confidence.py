"""Confidence of verdicts: factors by telemetry, known time and distance from a threshold."""

import math
from collections.abc import Mapping
from typing import Final

from rightsizer.advice.risk import probability_above
from rightsizer.model.values import Case, Tier

_OBSERVED_TIERS: Final = {Tier.PROFILING: 1.0, Tier.POWER: 0.97, Tier.BASIC: 0.95, Tier.NONE: 0.0}
"""Probability by tier that a state that a rule complains of is the true one.

A rule that cannot tell on a tier abstains, so the remaining complaints are nearly always right:
all were, on the tuning seeds of the labeled scenarios. The figures are lower than that
(`make eval` prints the reliability), since no real node is in the scenarios.
"""
_SIZED_TIERS: Final = {Tier.PROFILING: 1.0, Tier.POWER: 0.85, Tier.BASIC: 0.5, Tier.NONE: 0.0}
"""Certainty by tier of what is needed: docs/definitions.md, conduct."""

_MOST: Final = 0.999
_OBSERVATION_SECONDS: Final = 60.0
"""The span was observed, not sampled; the uncertainty is in the state of its minutes. Five
minutes gave confidences that were .18 too low on the tuning seeds; less changes nothing."""
_HISTORY_DAYS: Final = 3.0
_HISTORY_HOURS: Final = 24.0


def direct_factors(
    case: Case, share: float, threshold: float, observed_seconds: float | None = None
) -> dict[str, float]:
    """Confidence factors of a direct observation: idleness, a stall, full memory.

    Tier x coverage x certainty that the share of time exceeds the rule's threshold, with each known
    minute as an independent observation (at least one), or each of `observed_seconds`.
    """
    known_seconds = case.known_seconds if observed_seconds is None else observed_seconds
    minutes = max(1.0, known_seconds / _OBSERVATION_SECONDS)
    certainty = probability_above(share, minutes, threshold)
    return _telemetry(case, _OBSERVED_TIERS) | {"certainty": certainty}


def opposite_factors(factors: Mapping[str, float]) -> dict[str, float]:
    """Confidence factors of the opposite verdict."""
    return {**factors, "certainty": 1.0 - factors["certainty"]}


def sizing_factors(case: Case, margin: float) -> dict[str, float]:
    """Confidence factors of a judgement of size, which needs a history.

    The margin is the ratio by which the measured value exceeds the rule's threshold.
    Source: docs/definitions.md, conduct; hours replace the effective sample size.
    """
    hours = case.known_seconds / 3600.0
    return _telemetry(case, _SIZED_TIERS) | {
        "history": 1.0 - math.exp(-hours / 24.0 / _HISTORY_DAYS),
        "samples": hours / (hours + _HISTORY_HOURS),
        "certainty": min(1.0, 0.5 + 5.0 * max(0.0, margin)),
    }


def confidence_of(factors: Mapping[str, float]) -> float:
    """Product of the factors to three digits, always below 1."""
    return min(_MOST, round(math.prod(factors.values()), 3))


def _telemetry(case: Case, tiers: Mapping[Tier, float]) -> dict[str, float]:
    factors = {
        "tier": min((tiers[window.tier] for window in case.windows), default=0.0),
        "coverage": min((window.coverage_ratio for window in case.windows), default=0.0),
    }
    if case.workload is not None and case.workload.confidence_ratio < 1.0:
        factors["workload"] = case.workload.confidence_ratio
    return factors
