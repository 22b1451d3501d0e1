"""Context and state of captures, as JSON with its route; loads nothing that captures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from rightsizer.model.frozen import dataclass
from rightsizer.model.units import seconds
from rightsizer.report.json_encoder import JsonObject, attributes
from rightsizer.web.message import WebResponse
from rightsizer.web.router import Route

if TYPE_CHECKING:
    from rightsizer.advice.rules.rule import Judgement
    from rightsizer.model.advice import Advice
    from rightsizer.model.report import Report
    from rightsizer.profiler.capture.policy import CaptureCandidate
    from rightsizer.profiler.capture.repository import CaptureRecord, ReadFile


@dataclass(frozen=True, slots=True)
class CaptureContext:
    """Asked again at every look, from a thread of a job's."""

    report: Callable[[], Report | None]
    judgements: Callable[[], Sequence[Judgement]]
    """Of the last run of the rules."""
    advice: Callable[[], Sequence[Advice]]
    """All of it, what was closed too."""


@dataclass(frozen=True, slots=True)
class CaptureState:
    """How captures stand."""

    kind: str = "none"
    """What takes profiles; `none` where nothing does."""
    captures: Sequence[CaptureRecord] = ()
    candidates: Sequence[CaptureCandidate] = ()
    files: Sequence[ReadFile] = ()


def encode_state(state: CaptureState) -> JsonObject:
    """The same as plain values for JSON; captures latest first."""
    return {
        "kind": state.kind,
        "captures": [
            {
                **attributes(each, "id workload finding reason devices"),
                "started": seconds(each.started),
                "ended": None if each.ended is None else seconds(each.ended),
                **attributes(each, "outcome detail"),
            }
            for each in reversed(state.captures)
        ],
        "candidates": [
            {
                "workload": each.key,
                "finding": each.finding.id,
                **attributes(each.finding, "reasons confidence"),
                "why_not": each.why_not,
            }
            for each in state.candidates
        ],
        "files": [
            {
                "path": each.path,
                "bytes": each.size_bytes,
                "modified": seconds(each.modified),
                "fault": each.fault or None,
            }
            for each in state.files
        ],
    }


def captures_route(state: Callable[[], CaptureState]) -> Route:
    """The route that tells how captures stand, from any thread; it names no folders."""
    return Route("GET", "/api/v1/captures", lambda *_: WebResponse.of_json(encode_state(state())))
