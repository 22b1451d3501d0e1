"""JSON encoder of the state of captures."""

from collections.abc import Sequence

from rightsizer.model.frozen import dataclass
from rightsizer.model.units import seconds
from rightsizer.profiler.capture.policy import CaptureCandidate
from rightsizer.profiler.capture.repository import CaptureRecord, ReadFile
from rightsizer.report.json_encoder import Form


@dataclass(frozen=True, slots=True)
class CaptureState:
    """As it stands."""

    kind: str = "none"
    """Who is called; `none` where nobody is."""
    captures: Sequence[CaptureRecord] = ()
    candidates: Sequence[CaptureCandidate] = ()
    files: Sequence[ReadFile] = ()


def state_form(state: CaptureState) -> Form:
    """The same as plain values for JSON; captures latest first."""
    return {
        "kind": state.kind,
        "captures": [_capture(each) for each in reversed(state.captures)],
        "candidates": [_candidate(each) for each in state.candidates],
        "files": [_file(each) for each in state.files],
    }


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


def _candidate(candidate: CaptureCandidate) -> Form:
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
