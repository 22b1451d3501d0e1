"""Recommendations in a terminal: order and lines."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from rightsizer.console.text import wrapped
from rightsizer.model.finding import Action, Finding, Rank, typical, worth_rank
from rightsizer.model.units import percent_text
from rightsizer.report.labels import (
    HOURS_A_DAY,
    action_label,
    dollars_label,
    gpus_label,
    reason_label,
)

_LEAST_GPUS: Final = 0.005
"""Smaller values round to 0 in two decimals."""


def dearest_first(advice: Mapping[str, Any]) -> Rank:
    """Sort key: critical first, then by savings."""
    return worth_rank(advice["severity"], dollars_per_day(advice), advice["confidence"])


def dollars_per_day(advice: Mapping[str, Any]) -> float:
    """Return the typical savings; 0 without a price."""
    return typical(*_hourly_dollars(advice["savings"])) * HOURS_A_DAY


def _hourly_dollars(savings: Mapping[str, Any]) -> tuple[float | None, ...]:
    """Return the ends of the range, and the point if the agent states it."""
    return tuple(savings.get(f"dollars_per_hour_{end}") for end in ("low", "high", "typical"))


def advice_lines(advice: Mapping[str, Any], action: str, subject: str) -> Iterator[str]:
    """Yield lines: action and subject, reason, savings and confidence."""
    by = f" by {advice['actor']}" if advice["actor"] else ""
    title = f"{action[:1].upper()}{action[1:]}" + (f": {subject}" if subject else "")
    yield from wrapped(f"{title}  {advice['severity']}, {advice['state']}{by}  {advice['id']}", 2)
    yield from wrapped(advice["summary"], 4, 0)
    best = next((each["description"] for each in advice["options"] if each["target"]), "")
    best_text = f"best: {best}; " if best and best not in advice["summary"] else ""
    risk = reason_label(advice["risk"]).lower()
    rest = f"confidence {percent_text(advice['confidence'])}, risk {risk}"
    yield from wrapped(f"{best_text}{_savings(advice['savings'])}; {rest}", 4, 0)


def finding_line(finding: Finding) -> str:
    """Format a finding in one line."""
    action = (
        "" if finding.action is Action.NONE else f"{action_label(finding.action, finding.kind)}; "
    )
    sure = f"confidence {percent_text(finding.confidence)}"
    return f"{finding.id}  {finding.summary} [{action}{sure}]"


def _savings(savings: Mapping[str, Any]) -> str:
    parts = []
    low, high, point = _hourly_dollars(savings)
    if low is not None and high is not None:
        parts.append(dollars_label(low, high, point))
    if savings["gpus_low"] is not None and (savings["gpus_high"] or 0.0) >= _LEAST_GPUS:
        parts.append(gpus_label(savings["gpus_low"], savings["gpus_high"]))
    reason = savings["reason"] or "not known"
    amounts = ", ".join(parts)
    saves = "" if amounts.startswith(("costs", "from")) else "saves "
    return f"{saves}{amounts}" if parts else f"savings: n/a ({reason})"
