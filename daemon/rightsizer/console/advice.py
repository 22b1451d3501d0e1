"""Recommendations in a terminal: order and lines."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from rightsizer.io.terminal import wrapped
from rightsizer.model.finding import Action, Finding, Rank, Savings, worth_rank
from rightsizer.model.frozen import fields
from rightsizer.model.units import percent_text
from rightsizer.report.labels import HOURS_A_DAY, action_label, reason_label, savings_label

_SAVINGS: Final = frozenset(each.name for each in fields(Savings))


def dearest_first(advice: Mapping[str, Any]) -> Rank:
    """Sort key: critical first, then by savings."""
    return worth_rank(advice["severity"], dollars_per_day(advice), advice["confidence"])


def dollars_per_day(advice: Mapping[str, Any]) -> float:
    """Return the typical savings; 0 without a price."""
    return savings_of(advice).dollars_per_hour * HOURS_A_DAY


def savings_of(advice: Mapping[str, Any]) -> Savings:
    """Return the savings that an agent states, whatever its version adds to them."""
    known = {name: value for name, value in advice["savings"].items() if name in _SAVINGS}
    return Savings(**known)


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
    yield from wrapped(f"{best_text}{_savings(savings_of(advice))}; {rest}", 4, 0)


def finding_line(finding: Finding) -> str:
    """Format a finding in one line."""
    action = (
        "" if finding.action is Action.NONE else f"{action_label(finding.action, finding.kind)}; "
    )
    sure = f"confidence {percent_text(finding.confidence)}"
    return f"{finding.id}  {finding.summary} [{action}{sure}]"


def _savings(savings: Savings) -> str:
    amounts = savings_label(savings)
    if amounts.startswith(("costs", "from")):
        return amounts
    return f"savings: {amounts}" if amounts.startswith("n/a") else f"saves {amounts}"
