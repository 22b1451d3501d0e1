"""What is told of a change of advice: an annotation's time, tags and words, before it is sent."""

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from rightsizer.domain.advice import Advice, AdviceEvent, AdviceEventKind
from rightsizer.domain.units import Nanoseconds

__all__ = ["ROLL_UP", "Note", "note_of", "roll_up"]

ROLL_UP: Final = "rollup"
"""The event of a note that sums up others."""

# What Grafana's own store holds: 500 characters of serialized tags, 100 in each.
_TAGS_LENGTH: Final = 500
_TAG_LENGTH: Final = 100
_TEXT_LENGTH: Final = 2000
_NAMED_DEVICES: Final = 4
_NAMED_CHANGES: Final = 10

_HEADINGS: Final = {
    AdviceEventKind.OPENED: "",
    AdviceEventKind.CLOSED: "Closed ({state}). ",
    AdviceEventKind.SEVERITY_UP: "Worse than before. ",
    AdviceEventKind.VERIFIED: "Verified: acting on it paid off. ",
    AdviceEventKind.REGRESSED: "Back again after it was dealt with. ",
}


@dataclass(frozen=True, slots=True)
class Note:
    """One annotation to be. `start` equals `end` for a point, and for a region still open."""

    advice_id: str
    event: str
    """An `AdviceEventKind`, or `rollup`."""
    start: Nanoseconds
    end: Nanoseconds
    tags: tuple[str, ...]
    text: str

    @property
    def closes_region(self) -> bool:
        """Whether it ends what an earlier note began."""
        return self.event == AdviceEventKind.CLOSED

    @property
    def key_tags(self) -> tuple[str, str]:
        """The two tags by which the same annotation is found again."""
        return self.tags[1], self.tags[2]


def note_of(event: AdviceEvent) -> Note:
    """The note that tells of an event."""
    advice = event.advice
    is_region = event.kind in (AdviceEventKind.OPENED, AdviceEventKind.CLOSED)
    start = advice.opened if is_region else event.time
    # An open region has no end yet: its end is its start until it is patched.
    end = start if event.kind is AdviceEventKind.OPENED else max(start, event.time)
    # One annotation, opened and then closed, is found by the tags it was opened with.
    kind = AdviceEventKind.OPENED if is_region else event.kind
    finding = advice.finding
    return Note(
        advice.id,
        event.kind.value,
        start,
        end,
        _fitting(
            [
                "rightsizer",
                _tag("advice", advice.id),
                _tag("event", kind.value),
                _tag("finding", finding.finding.value),
                *(_tag("reason", reason.value) for reason in finding.reasons),
                _tag("severity", finding.severity.value),
                *([_tag("workload", finding.workload)] if finding.workload else []),
                *(_tag("uuid", uuid) for uuid in (*finding.culprits, *finding.devices)),
            ]
        ),
        _text(event),
    )


def roll_up(notes: Sequence[Note]) -> Note:
    """One note in place of many; the same notes give the same one."""
    told = "\n".join(f"{note.advice_id} {note.event} {note.start}" for note in notes)
    digest = hashlib.sha256(told.encode()).hexdigest()[:12]
    lines = [f"{len(notes)} more changes of advice:"]
    lines += [f"- {note.text.splitlines()[0]}" for note in notes[:_NAMED_CHANGES]]
    if len(notes) > _NAMED_CHANGES:
        lines.append(f"- and {len(notes) - _NAMED_CHANGES} others")
    time = max(note.end for note in notes)
    tags = ("rightsizer", _tag("advice", f"{ROLL_UP}-{digest}"), _tag("event", ROLL_UP))
    return Note(f"{ROLL_UP}-{digest}", ROLL_UP, time, time, tags, _clipped("\n".join(lines)))


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


def _text(event: AdviceEvent) -> str:
    advice = event.advice
    finding = advice.finding
    heading = _HEADINGS[event.kind].format(state=advice.state.value)
    summary = finding.summary.strip() or f"{finding.finding.value}: {', '.join(finding.reasons)}"
    lines = [
        heading + summary,
        f"Action: {finding.action.value.replace('_', ' ')}",
        f"Confidence: {finding.confidence:.0%}, risk: {finding.risk.value}",
        _where(advice),
    ]
    if evidence := "; ".join(f"{key} {_value(value)}" for key, value in finding.evidence.items()):
        lines.append(f"Evidence: {evidence}")
    lines.append(f"Advice: {advice.id}")
    return _clipped("\n".join(lines))


def _where(advice: Advice) -> str:
    devices = advice.finding.devices
    named = ", ".join(devices[:_NAMED_DEVICES])
    if len(devices) > _NAMED_DEVICES:
        named += f" and {len(devices) - _NAMED_DEVICES} more"
    return f"Where: {advice.finding.workload or 'no known workload'} on {named}"


def _value(value: object) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def _clipped(text: str) -> str:
    return text if len(text) <= _TEXT_LENGTH else text[: _TEXT_LENGTH - 1] + "…"
