"""Advice in a terminal: its order, and its lines."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from rightsizer.console.text import wrapped
from rightsizer.model.finding import Finding, FindingKind, Severity

_KINDS: Final = tuple(FindingKind)
_SEVERITIES: Final = tuple(Severity)


def severest_first(advice: Mapping[str, Any]) -> tuple[int, int]:
    """Sorts by kind, and in a kind by severity."""
    return _KINDS.index(advice["finding"]), -_SEVERITIES.index(advice["severity"])


def advice_lines(advice: Mapping[str, Any], action: str, about: str = "") -> Iterator[str]:
    """What one piece says, how sure it is, and what it saves; `about` goes behind its state."""
    by = f" by {advice['actor']}" if advice["actor"] else ""
    yield from wrapped(f"{advice['id']}  {advice['severity']}, {advice['state']}{by}{about}", 2)
    yield from wrapped(advice["summary"], 4, 0)
    rest = f"confidence {advice['confidence']:.2f}, risk {advice['risk']}"
    yield from wrapped(f"{action}; {rest}{_savings(advice['savings'])}", 4, 0)


def finding_line(finding: Finding) -> str:
    """One finding in one line."""
    return f"{finding.id}  {finding.summary} [{finding.action}, {finding.confidence:.2f}]"


def _savings(savings: Mapping[str, Any]) -> str:
    if savings["gpus_low"] is None or savings["gpus_high"] is None:
        return f"; savings: {savings['reason']}" if savings["reason"] else ""
    told = f"; saves {_range(savings['gpus_low'], savings['gpus_high'])} GPUs"
    low, high = savings["dollars_per_hour_low"], savings["dollars_per_hour_high"]
    return told if low is None or high is None else f"{told}, {_range(low, high)} $/h"


def _range(low: float, high: float) -> str:
    return f"{low:,.2f}" if low == high else f"{low:,.2f} to {high:,.2f}"
