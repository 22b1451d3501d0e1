"""An entry of the audit log as plain values for JSON, wherever it is shown."""

from rightsizer.domain.units import Nanoseconds, seconds
from rightsizer.publish.json_form import Form
from rightsizer.runtime.actions.book import ActionRecord

__all__ = ["record_form"]


def record_form(record: ActionRecord) -> Form:
    """All that is kept of it, but for processes and clocks; times in seconds since the epoch."""
    return {
        "id": record.id,
        "action": record.action,
        "way": record.way,
        "advice": record.advice,
        "workload": record.workload,
        "devices": list(record.devices),
        "reason": record.reason,
        "summary": record.summary,
        "confidence": record.confidence,
        "risk": record.risk,
        "evidence": dict(record.evidence),
        "actor": record.actor,
        "at": seconds(record.at),
        "ended": _time(record.ended),
        "outcome": record.outcome,
        "verdict": record.verdict,
        "why": record.why,
        "status": record.status,
        "said": record.said,
        "result": record.result,
        "result_why": record.result_why,
        "result_at": _time(record.result_at),
    }


def _time(time: Nanoseconds | None) -> float | None:
    return None if time is None else seconds(time)
