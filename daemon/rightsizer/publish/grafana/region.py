"""Reads back what an annotation tells of advice: its tags, its text, and its data.

Those of former programs have no data; what nobody tells has the value that claims least.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from rightsizer.domain.advice import AdviceState
from rightsizer.domain.advice_trace import Region
from rightsizer.domain.finding import (
    Action,
    Finding,
    FindingKind,
    Reason,
    Risk,
    Savings,
    Severity,
)
from rightsizer.domain.units import Nanoseconds

__all__ = ["region_of"]

_NANOSECONDS_PER_MILLISECOND: Final = 1_000_000
_LATEST_MILLISECONDS: Final = 10**13
"""In the year 2286."""
_LONGEST: Final = 1000
_HEADING: Final = re.compile(r"(?:Closed \((?P<state>[a-z]+)\)|Claimed|Snoozed|Active)\. ")
_ACTION: Final = re.compile(r"^Action: ([a-z ]+)$", re.MULTILINE)
_SURENESS: Final = re.compile(r"^Confidence: (\d{1,3})%, risk: (\w+)$", re.MULTILINE)


def region_of(item: Any) -> Region | None:
    """The region that an annotation of Grafana's API is; `None` where it is none of ours."""
    try:
        return _region(item)
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def _region(item: Any) -> Region:
    text, data = str(item["text"]), item.get("data") or {}
    opened, end = _time(item["time"]), _time(item["timeEnd"])
    finding = _finding(_tags(item["tags"]), text, data)
    if "state" not in data:
        heading = _HEADING.match(text)
        told = heading and heading["state"]
        state = AdviceState(told) if told else AdviceState.ACTIVE
        return Region(finding, opened, max(opened, end), state)
    actor, expires = data.get("actor"), data.get("expires")
    return Region(
        finding,
        opened,
        max(opened, end),
        AdviceState(data["state"]),
        decided=_time(data["decided"]),
        expires=None if expires is None else _time(expires),
        actor=None if actor is None else str(actor)[:_LONGEST],
        why=str(data.get("why", ""))[:_LONGEST],
    )


def _finding(tags: Mapping[str, Sequence[str]], text: str, data: Mapping[str, Any]) -> Finding:
    heading, action, sureness = _HEADING.match(text), _ACTION.search(text), _SURENESS.search(text)
    summary = text.partition("\n")[0]
    return Finding(
        id=tags["advice"][0],
        rule=str(data.get("rule", ""))[:_LONGEST],
        finding=FindingKind(tags["finding"][0]),
        reasons=tuple(map(Reason, tags["reason"])),
        devices=tuple(tags.get("uuid", ())),
        culprits=(),
        workload=next(iter(tags.get("workload", ())), None),
        action=Action(action[1].replace(" ", "_")) if action else Action.NONE,
        summary=summary.removeprefix(heading[0]) if heading else summary,
        options=(),
        confidence=min(100, int(sureness[1])) / 100.0 if sureness else 0.0,
        confidence_factors={},
        risk=Risk(sureness[2]) if sureness else Risk.UNKNOWN,
        savings=Savings(reason="restored from an annotation"),
        severity=Severity(next(iter(tags.get("severity", ())), Severity.LOW)),
    )


def _tags(tags: Sequence[str]) -> dict[str, list[str]]:
    """Values by their keys, in their order."""
    found: dict[str, list[str]] = {}
    for tag in tags:
        key, _, value = tag.partition(":")
        found.setdefault(key, []).append(value)
    return found


def _time(milliseconds: Any) -> Nanoseconds:
    if type(milliseconds) is not int or not 0 < milliseconds < _LATEST_MILLISECONDS:
        raise ValueError(f"{milliseconds!r} is no time")
    return milliseconds * _NANOSECONDS_PER_MILLISECOND
