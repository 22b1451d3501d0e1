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
    """Add the surest pieces of open advice, and how many there are in all."""
    opened = [piece for piece in advice if piece.is_open]
    families.add("rightsizer_advice_open", float(len(opened)))
    opened.sort(key=lambda piece: (-piece.finding.confidence, piece.opened, piece.id))
    for piece in opened[:limit]:
        _add_piece(families, piece)


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
