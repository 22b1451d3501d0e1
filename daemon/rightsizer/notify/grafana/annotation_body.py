"""Annotation of a change of advice: time, tags and text, before it is sent."""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from rightsizer.model.advice import Advice, AdviceEvent, AdviceEventKind
from rightsizer.model.frozen import dataclass
from rightsizer.model.units import NANOSECONDS_PER_SECOND, Nanoseconds
from rightsizer.report.labels import readable_name

PRODUCT: Final = "rightsizer"
"""The tag of all that we write."""
BEGINNING: Final = f"event:{AdviceEventKind.OPENED}"
"""The tag of a region, also once it has ended."""

ROLL_UP: Final = "rollup"
"""The event of a note that sums up others."""

# What Grafana's own store holds: 500 characters of serialized tags, 100 in each.
_TAGS_LENGTH: Final = 500
_TAG_LENGTH: Final = 100
_TEXT_LENGTH: Final = 2000
_NAMED_DEVICES: Final = 4
_NAMED_CHANGES: Final = 10
_ACTOR_LENGTH: Final = 100
_WHY_LENGTH: Final = 500
_NANOSECONDS_PER_MILLISECOND: Final = 1_000_000
_FOR_GOOD: Final[Nanoseconds] = 9 * 10**9 * NANOSECONDS_PER_SECOND
"""In the year 2255; calendars end before what may be asked for."""

_HEADINGS: Final = {
    AdviceEventKind.OPENED: "",
    AdviceEventKind.CLOSED: "Closed ({state}). ",
    AdviceEventKind.SEVERITY_UP: "Worse than before. ",
    AdviceEventKind.VERIFIED: "Verified: acting on it paid off. ",
    AdviceEventKind.REGRESSED: "Back again after it was dealt with. ",
    AdviceEventKind.DECIDED: "{State}. ",
}


@dataclass(frozen=True, slots=True)
class AnnotationBody:
    """One annotation to be. `start` equals `end` for a point, and for a region still open."""

    advice_id: str
    event: str
    """An `AdviceEventKind`, or `rollup`."""
    start: Nanoseconds
    end: Nanoseconds
    tags: tuple[str, ...]
    text: str
    data: Mapping[str, Any] | None = None
    """How the advice stands, for a program to read; see `region`."""

    @property
    def closes_region(self) -> bool:
        """Whether it ends what an earlier note began."""
        return self.event == AdviceEventKind.CLOSED

    @property
    def changes_region(self) -> bool:
        """Whether it makes no annotation of its own, but changes what an earlier note began."""
        return self.closes_region or self.event == AdviceEventKind.DECIDED

    @property
    def key_tags(self) -> tuple[str, str]:
        """The two tags by which the same annotation is found again."""
        return self.tags[1], self.tags[2]


def body_of(event: AdviceEvent, *, node: str = "", cluster: str = "") -> AnnotationBody:
    """The note that tells of an event, with tags of where it was."""
    advice = event.advice
    is_open = event.kind in (AdviceEventKind.OPENED, AdviceEventKind.DECIDED)
    is_region = is_open or event.kind is AdviceEventKind.CLOSED
    start = advice.opened if is_region else event.time
    # An open region has no end yet: its end is its start until it is patched.
    end = start if is_open else max(start, event.time)
    # One annotation, opened and then closed, is found by the tags it was opened with.
    kind = AdviceEventKind.OPENED if is_region else event.kind
    finding = advice.finding
    return AnnotationBody(
        advice.id,
        event.kind.value,
        start,
        end,
        _fitting(
            [
                PRODUCT,
                _tag("advice", advice.id),
                _tag("event", kind.value),
                *([_tag("node", node)] if node else []),
                *([_tag("cluster", cluster)] if cluster else []),
                _tag("finding", finding.kind.value),
                *(_tag("reason", reason.value) for reason in finding.reasons),
                _tag("severity", finding.severity.value),
                *([_tag("workload", finding.workload)] if finding.workload else []),
                *(_tag("uuid", uuid) for uuid in (*finding.culprits, *finding.devices)),
            ]
        ),
        _text(event),
        _data(event) if is_region and event.kind is not AdviceEventKind.OPENED else None,
    )


def milliseconds(time: Nanoseconds) -> int:
    """A time as Grafana knows it."""
    return time // _NANOSECONDS_PER_MILLISECOND


def roll_up(notes: Sequence[AnnotationBody]) -> AnnotationBody:
    """One note in place of many; the same notes give the same one."""
    text = "\n".join(f"{note.advice_id} {note.event} {note.start}" for note in notes)
    digest = hashlib.sha256(text.encode()).hexdigest()[:12]
    lines = [f"{len(notes)} more changes of advice:"]
    lines += [f"- {note.text.splitlines()[0]}" for note in notes[:_NAMED_CHANGES]]
    if len(notes) > _NAMED_CHANGES:
        lines.append(f"- and {len(notes) - _NAMED_CHANGES} others")
    time, id_ = max(note.end for note in notes), f"{ROLL_UP}-{digest}"
    tags = (PRODUCT, _tag("advice", id_), _tag("event", ROLL_UP))
    return AnnotationBody(id_, ROLL_UP, time, time, tags, _clipped("\n".join(lines)))


def _tag(key: str, value: str) -> str:
    """Grafana splits tags at colons and commas, so that a value may hold neither."""
    return f"{key}:{value.replace(':', '-').replace(',', '-')}"[:_TAG_LENGTH]


def _fitting(tags: Iterable[str]) -> tuple[str, ...]:
    """As many of the tags, in their order, as Grafana's store takes."""
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
    named, beyond = finding.devices[:_NAMED_DEVICES], len(finding.devices) - _NAMED_DEVICES
    more = f" and {beyond} more" if beyond > 0 else ""
    lines = [
        heading + summary,
        f"Action: {readable_name(finding.action)}",
        f"Confidence: {finding.confidence:.0%}, risk: {finding.risk.value}",
        f"Where: {finding.workload or 'no known workload'} on {', '.join(named)}{more}",
        *_decision(advice),
    ]
    if evidence := "; ".join(f"{key} {_value(value)}" for key, value in finding.evidence.items()):
        lines.append(f"Evidence: {evidence}")
    lines.append(f"Advice: {advice.id}")
    return _clipped("\n".join(lines))


def _decision(advice: Advice) -> list[str]:
    """Who put it into its state, until when, and why, as far as there is something to say."""
    parts = [] if not advice.actor else [_one_line(advice.actor, _ACTOR_LENGTH)]
    if advice.expires is not None:
        expires = min(advice.expires, _FOR_GOOD) // NANOSECONDS_PER_SECOND
        until = datetime.fromtimestamp(expires, UTC)
        parts.append(f"until {until:%Y-%m-%d %H:%M} UTC")
    lines = [f"By: {', '.join(parts)}"] if parts else []
    return [*lines, f"Why: {_one_line(advice.why, _WHY_LENGTH)}"] if advice.why else lines


def _one_line(text: str, length: int) -> str:
    return _clipped(" ".join(text.split()), length)


def _value(value: object) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def _clipped(text: str, length: int = _TEXT_LENGTH) -> str:
    return text if len(text) <= length else text[: length - 1] + "…"
