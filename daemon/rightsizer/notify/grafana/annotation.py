"""Annotations of changes of advice: body, and region parsed back from Grafana's answer."""

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from rightsizer.model.values import (
    NANOSECONDS_PER_SECOND,
    Action,
    Advice,
    AdviceEvent,
    AdviceEventKind,
    AdviceState,
    Finding,
    FindingKind,
    Nanoseconds,
    Reason,
    Region,
    Risk,
    Savings,
    Severity,
    percent_text,
    utc_text,
)
from rightsizer.report.labels import readable_name

PRODUCT: Final = "rightsizer"
"""Tag of all our annotations."""
BEGINNING: Final = f"event:{AdviceEventKind.OPENED}"
"""Tag of a region, kept after it has ended."""

ROLL_UP: Final = "rollup"
"""Event of an annotation that summarizes others."""

# Limits of Grafana's store: 500 characters of serialized tags, 100 in each.
_TAGS_LENGTH: Final = 500
_TAG_LENGTH: Final = 100
_TEXT_LENGTH: Final = 2000
_NAMED_DEVICES: Final = 4
_NAMED_CHANGES: Final = 10
_ACTOR_LENGTH: Final = 100
_WHY_LENGTH: Final = 500
_NANOSECONDS_PER_MILLISECOND: Final = 1_000_000
_FOR_GOOD: Final[Nanoseconds] = 9 * 10**9 * NANOSECONDS_PER_SECOND
"""In the year 2255, before the end of the calendars; decisions may last longer."""

_HEADINGS: Final = {
    AdviceEventKind.OPENED: "",
    AdviceEventKind.CLOSED: "Closed ({state}). ",
    AdviceEventKind.SEVERITY_UP: "Worse than before. ",
    AdviceEventKind.VERIFIED: "Verified: acting on it paid off. ",
    AdviceEventKind.REGRESSED: "Back again after it was dealt with. ",
    AdviceEventKind.DECIDED: "{State}. ",
}


class AnnotationBody(Struct, frozen=True):
    """An annotation to post. `start` equals `end` for a point, and for an open region."""

    advice_id: str
    event: str
    """An `AdviceEventKind`, or `rollup`."""
    start: Nanoseconds
    end: Nanoseconds
    tags: tuple[str, ...]
    text: str
    data: Mapping[str, Any] | None = None
    """Machine-readable state of the advice; see `region_of`."""

    @property
    def closes_region(self) -> bool:
        """Whether it ends the region of an earlier annotation."""
        return self.event == AdviceEventKind.CLOSED

    @property
    def changes_region(self) -> bool:
        """Whether it changes the region of an earlier annotation instead of adding one."""
        return self.closes_region or self.event == AdviceEventKind.DECIDED

    @property
    def key_tags(self) -> tuple[str, str]:
        """The two tags that identify the annotation in a search."""
        return self.tags[1], self.tags[2]


def body_of(event: AdviceEvent, *, node: str = "", cluster: str = "") -> AnnotationBody:
    """Return the annotation of an event, tagged with its node and cluster."""
    advice = event.advice
    is_open = event.kind in (AdviceEventKind.OPENED, AdviceEventKind.DECIDED)
    is_region = is_open or event.kind is AdviceEventKind.CLOSED
    start = advice.opened if is_region else event.time
    # An open region ends at its start until it is patched.
    end = start if is_open else max(start, event.time)
    # A closed region is found by the tags it was opened with.
    kind = AdviceEventKind.OPENED if is_region else event.kind
    finding = advice.finding
    values = (
        ("advice", advice.id),
        ("event", kind.value),
        ("node", node),
        ("cluster", cluster),
        ("finding", finding.kind.value),
        *(("reason", reason.value) for reason in finding.reasons),
        ("severity", finding.severity.value),
        ("workload", finding.workload),
        *(("uuid", uuid) for uuid in (*finding.culprits, *finding.devices)),
    )
    tags = _fitting((PRODUCT, *(_tag(key, value) for key, value in values if value)))
    data = _data(event) if is_region and event.kind is not AdviceEventKind.OPENED else None
    return AnnotationBody(advice.id, event.kind.value, start, end, tags, _text(event), data)


def milliseconds(time: Nanoseconds) -> int:
    """Convert a time to Grafana's unit."""
    return time // _NANOSECONDS_PER_MILLISECOND


def roll_up(bodies: Sequence[AnnotationBody]) -> AnnotationBody:
    """Combine annotations into one; the same ones always give the same result."""
    text = "\n".join(f"{body.advice_id} {body.event} {body.start}" for body in bodies)
    digest = hashlib.sha256(text.encode()).hexdigest()[:12]
    lines = [f"{len(bodies)} more changes of advice:"]
    lines += [f"- {body.text.splitlines()[0]}" for body in bodies[:_NAMED_CHANGES]]
    if len(bodies) > _NAMED_CHANGES:
        lines.append(f"- and {len(bodies) - _NAMED_CHANGES} others")
    time = max(body.end for body in bodies)
    id_ = f"{ROLL_UP}-{digest}"
    tags = (PRODUCT, _tag("advice", id_), _tag("event", ROLL_UP))
    return AnnotationBody(id_, ROLL_UP, time, time, tags, _clipped("\n".join(lines)))


def _tag(key: str, value: str) -> str:
    """Return a tag without colons and commas in the value, at which Grafana splits."""
    return f"{key}:{value.replace(':', '-').replace(',', '-')}"[:_TAG_LENGTH]


def _fitting(tags: Iterable[str]) -> tuple[str, ...]:
    """Return the leading tags that fit into Grafana's store."""
    kept: list[str] = []
    for tag in dict.fromkeys(tags):
        if len(json.dumps([*kept, tag])) > _TAGS_LENGTH:
            break
        kept.append(tag)
    return tuple(kept)


def _data(event: AdviceEvent) -> dict[str, Any]:
    advice = event.advice
    return {
        "state": advice.state.value,
        "decided": milliseconds(event.time),
        "expires": None if advice.expires is None else milliseconds(min(advice.expires, _FOR_GOOD)),
        "actor": None if advice.actor is None else _clipped(advice.actor, _ACTOR_LENGTH),
        "why": _clipped(advice.why, _WHY_LENGTH),
        "rule": advice.finding.rule,
    }


def _text(event: AdviceEvent) -> str:
    advice = event.advice
    finding = advice.finding
    state = advice.state.value
    heading = _HEADINGS[event.kind].format(state=state, State=state.capitalize())
    summary = finding.summary.strip() or f"{finding.kind.value}: {', '.join(finding.reasons)}"
    named = finding.devices[:_NAMED_DEVICES]
    beyond = len(finding.devices) - _NAMED_DEVICES
    more = f" and {beyond} more" if beyond > 0 else ""
    lines = [
        heading + summary,
        f"Action: {readable_name(finding.action)}",
        f"Confidence: {percent_text(finding.confidence)}, risk: {finding.risk.value}",
        f"Where: {finding.workload or 'no known workload'} on {', '.join(named)}{more}",
        *_decision(advice),
    ]
    details = (
        f"{key} {value:.3g}" if isinstance(value, float) else f"{key} {value}"
        for key, value in finding.evidence.items()
    )
    if evidence := "; ".join(details):
        lines.append(f"Evidence: {evidence}")
    lines.append(f"Advice: {advice.id}")
    return _clipped("\n".join(lines))


def _decision(advice: Advice) -> list[str]:
    """Return lines on who decided, until when, and why, as far as known."""
    parts = [_one_line(advice.actor, _ACTOR_LENGTH)] if advice.actor else []
    if advice.expires is not None:
        expires = min(advice.expires, _FOR_GOOD) // NANOSECONDS_PER_SECOND
        parts.append(f"until {utc_text(expires)}")
    lines = [f"By: {', '.join(parts)}"] if parts else []
    return [*lines, f"Why: {_one_line(advice.why, _WHY_LENGTH)}"] if advice.why else lines


def _one_line(text: str, length: int) -> str:
    return _clipped(" ".join(text.split()), length)


def _clipped(text: str, length: int = _TEXT_LENGTH) -> str:
    return text if len(text) <= length else text[: length - 1] + "…"


_LATEST_MILLISECONDS: Final = 10**13
"""In the year 2286."""
_LONGEST: Final = 1000
_HEADING: Final = re.compile(r"(?:Closed \((?P<state>[a-z]+)\)|Claimed|Snoozed|Active)\. ")
_ACTION: Final = re.compile(r"^Action: ([a-z ]+)$", re.MULTILINE)
_SURENESS: Final = re.compile(r"^Confidence: (\d{1,3})%, risk: (\w+)$", re.MULTILINE)


def region_of(item: Any) -> Region | None:
    """Parse an annotation of Grafana's API as a region; `None` if it is not ours."""
    try:
        text = str(item["text"])
        data = item.get("data") or {}
        opened = _time(item["time"])
        end = _time(item["timeEnd"])
        finding = _finding(_tags(item["tags"]), text, data)
        heading = _HEADING.match(text)
        shown: str = (heading and heading["state"]) or AdviceState.ACTIVE
        state = AdviceState(data.get("state", shown))
        advice = Advice(finding, state, opened, updated=opened)
        if "state" not in data:
            return Region(advice, max(opened, end))
        actor = data.get("actor")
        expires = data.get("expires")
        advice = replace(
            advice,
            expires=None if expires is None else _time(expires),
            actor=None if actor is None else str(actor)[:_LONGEST],
            why=str(data.get("why", ""))[:_LONGEST],
        )
        return Region(advice, max(opened, end), _time(data["decided"]))
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def _finding(tags: Mapping[str, Sequence[str]], text: str, data: Mapping[str, Any]) -> Finding:
    heading = _HEADING.match(text)
    action = _ACTION.search(text)
    sureness = _SURENESS.search(text)
    summary = text.partition("\n")[0]
    return Finding(
        id=tags["advice"][0],
        rule=str(data.get("rule", ""))[:_LONGEST],
        kind=FindingKind(tags["finding"][0]),
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
    values_by_key: dict[str, list[str]] = {}
    for tag in tags:
        key, _, value = tag.partition(":")
        values_by_key.setdefault(key, []).append(value)
    return values_by_key


def _time(milliseconds: Any) -> Nanoseconds:
    if type(milliseconds) is not int or not 0 < milliseconds < _LATEST_MILLISECONDS:
        raise ValueError(f"{milliseconds!r} is no time")
    return milliseconds * _NANOSECONDS_PER_MILLISECOND
