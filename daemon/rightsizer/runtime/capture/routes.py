"""What the API says of captures, and of what landed."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from rightsizer.advice.capture import Candidate
from rightsizer.domain.units import seconds
from rightsizer.publish.json_form import Form
from rightsizer.publish.web.message import Request, Response
from rightsizer.publish.web.routes import Route, Site
from rightsizer.runtime.capture.book import CaptureRecord, ReadFile

__all__ = ["CAPTURES_PATH", "CaptureRoutes", "CaptureState"]

CAPTURES_PATH: Final = "/api/v1/captures"


@dataclass(frozen=True, slots=True)
class CaptureState:
    """What there is to tell."""

    kind: str = "none"
    """Who is called; `none` where nobody is."""
    captures: Sequence[CaptureRecord] = ()
    candidates: Sequence[Candidate] = ()
    files: Sequence[ReadFile] = ()


class CaptureRoutes:
    """Answers from what is remembered; names files and no folders of this machine."""

    def __init__(self, state: Callable[[], CaptureState]) -> None:
        """A route over whoever knows; asked from any thread."""
        self._state = state

    @property
    def routes(self) -> tuple[Route, ...]:
        """Where it is served."""
        return (Route("GET", CAPTURES_PATH, self._answer),)

    def _answer(self, site: Site, request: Request) -> Response:
        del site, request
        state = self._state()
        return Response.of_json(
            {
                "kind": state.kind,
                "captures": [_capture(each) for each in reversed(state.captures)],
                "candidates": [_candidate(each) for each in state.candidates],
                "files": [_file(each) for each in state.files],
            }
        )


def _capture(record: CaptureRecord) -> Form:
    return {
        "id": record.id,
        "workload": record.workload,
        "finding": record.finding,
        "reason": record.reason,
        "devices": list(record.devices),
        "started": seconds(record.started),
        "ended": None if record.ended is None else seconds(record.ended),
        "outcome": record.outcome,
        "detail": record.detail,
    }


def _candidate(candidate: Candidate) -> Form:
    return {
        "workload": candidate.key,
        "finding": candidate.finding.id,
        "reasons": list(candidate.finding.reasons),
        "confidence": candidate.finding.confidence,
        "why_not": candidate.why_not,
    }


def _file(file: ReadFile) -> Form:
    return {
        "path": file.path,
        "bytes": file.size_bytes,
        "modified": seconds(file.modified),
        "fault": file.fault or None,
    }
