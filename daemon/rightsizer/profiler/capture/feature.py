"""Context and state of captures, and their JSON route; imports no capture code."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from rightsizer.model.values import optional_seconds, seconds
from rightsizer.web.message import WebResponse
from rightsizer.web.router import Route

if TYPE_CHECKING:
    from rightsizer.advice.rules.rule import Judgement
    from rightsizer.model.values import Advice, Report
    from rightsizer.profiler.capture.policy import CaptureCandidate
    from rightsizer.profiler.capture.repository import CaptureRecord, ReadFile


class CaptureContext(Struct, frozen=True):
    """Inputs of captures, queried in each run from a job's thread."""

    report: Callable[[], Report | None]
    judgements: Callable[[], Sequence[Judgement]]
    """Judgements of the last run of the rules."""
    advice: Callable[[], Sequence[Advice]]
    """All advice, closed included."""


class CaptureState(Struct, frozen=True):
    """State of captures."""

    kind: str = "none"
    """Configured way of capturing, or `none`."""
    captures: Sequence[CaptureRecord] = ()
    candidates: Sequence[CaptureCandidate] = ()
    files: Sequence[ReadFile] = ()


def state_document(state: CaptureState) -> dict[str, object]:
    """Return the state; latest captures first."""
    return {
        "kind": state.kind,
        "captures": [
            {
                "id": capture.id,
                "workload": capture.workload,
                "finding": capture.finding,
                "reason": capture.reason,
                "devices": capture.devices,
                "started": seconds(capture.started),
                "ended": optional_seconds(capture.ended),
                "outcome": capture.outcome,
                "detail": capture.detail,
            }
            for capture in reversed(state.captures)
        ],
        "candidates": [
            {
                "workload": candidate.finding.key,
                "finding": candidate.finding.id,
                "reasons": candidate.finding.reasons,
                "confidence": candidate.finding.confidence,
                "why_not": candidate.why_not,
            }
            for candidate in state.candidates
        ],
        "files": [
            {
                "path": file.path,
                "bytes": file.size_bytes,
                "modified": seconds(file.modified),
                "fault": file.fault or None,
            }
            for file in state.files
        ],
    }


def captures_route(state: Callable[[], CaptureState]) -> Route:
    """Return the route of the state, safe from any thread; it does not expose folders."""
    return Route("GET", "/api/v1/captures", lambda _: WebResponse.of_json(state_document(state())))
