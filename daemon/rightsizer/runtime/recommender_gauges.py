"""What the last run of the rules comes to, as the agent's gauges."""

from collections import Counter
from collections.abc import Sequence

from rightsizer.advice.recommender import Judgement
from rightsizer.domain.metric_family import series_key

__all__ = ["recommender_gauges"]


def recommender_gauges(judgements: Sequence[Judgement]) -> dict[str, float]:
    """Complaints and abstentions by their first reason; there are as many as reasons at most."""
    counts: Counter[tuple[str, str]] = Counter()
    for judgement in judgements:
        finding = judgement.finding
        reason = finding.reasons[0].value if finding.reasons else ""
        if finding.is_complaint:
            counts["rightsizer_recommender_findings", reason] += 1
        elif finding.abstained is not None:
            counts["rightsizer_recommender_abstentions", reason] += 1
    return {series_key(name, reason=reason): float(n) for (name, reason), n in counts.items()}
