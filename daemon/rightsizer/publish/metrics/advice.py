"""The metrics of open advice."""

from collections.abc import Sequence
from typing import Final

from rightsizer.domain.advice import Advice
from rightsizer.domain.finding import Risk
from rightsizer.domain.units import seconds
from rightsizer.publish.metrics.families import Families

__all__ = ["RISK_BOUNDS", "add_advice"]

RISK_BOUNDS: Final = {Risk.VERY_LOW: 0.01, Risk.LOW: 0.05, Risk.MEDIUM: 0.15, Risk.HIGH: 1.0}
"""The upper bound of each class; an unknown risk has none."""


def add_advice(families: Families, advice: Sequence[Advice], limit: int) -> None:
    """Add the pieces of open advice that save most, and how many there are in all."""
    opened = [piece for piece in advice if piece.is_open]
    families.add("rightsizer_advice_open", float(len(opened)))
    opened.sort(key=_rank)
    for piece in opened[:limit]:
        _add_piece(families, piece)


def _rank(piece: Advice) -> tuple[float, float, float, int, str]:
    """What saves most comes first; where nobody knows what, the surest."""
    finding, savings = piece.finding, piece.finding.savings
    return (
        -(savings.dollars_per_hour_low or 0.0),
        -(savings.gpus_low or 0.0),
        -finding.confidence,
        piece.opened,
        piece.id,
    )


def _add_piece(families: Families, piece: Advice) -> None:
    finding, savings = piece.finding, piece.finding.savings
    reason = finding.reasons[0] if finding.reasons else ""
    for uuid in finding.devices or ("",):
        families.add_info(
            "rightsizer_advice_info",
            finding.id,
            finding.finding,
            reason,
            finding.action,
            finding.severity,
            piece.state,
            uuid,
            finding.workload or "",
        )
    families.add("rightsizer_advice_confidence_ratio", finding.confidence, finding.id)
    families.add("rightsizer_advice_risk_ratio", RISK_BOUNDS.get(finding.risk), finding.id)
    families.add("rightsizer_advice_savings_gpus", savings.gpus_low, finding.id)
    families.add(
        "rightsizer_advice_savings_dollars_per_hour", savings.dollars_per_hour_low, finding.id
    )
    families.add("rightsizer_advice_opened_timestamp_seconds", seconds(piece.opened), finding.id)
