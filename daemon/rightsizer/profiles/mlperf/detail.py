"""The load generator's `mlperf_log_detail.txt`: JSON lines, and the text of round 0.7."""

import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from rightsizer.domain.errors import ProfileError
from rightsizer.domain.profile import Profile, ProfileFormat
from rightsizer.domain.units import Nanoseconds, nanoseconds
from rightsizer.profiles.mlperf.figures import named_figure
from rightsizer.profiles.mlperf.findings import Findings
from rightsizer.profiles.mlperf.logged import Logged, logged
from rightsizer.profiles.printed.record import PrintedText
from rightsizer.profiles.reader import Head, ProfileReader, ReadLimits

__all__ = ["MLPERF_DETAIL", "read_detail"]

_WORDS: Final = {
    "sut_name": "system",
    "effective_scenario": "scenario",
    "effective_test_mode": "mode",
    "result_validity": "validity",
    "loadgen_version": "version",
}
_TEXT_WORDS: Final = {
    "system under test (sut) name": "system",
    "scenario": "scenario",
    "test mode": "mode",
    "version": "version",
}
_REQUIREMENTS: Final = {
    "result_perf_constraints_met": "Performance constraints",
    "result_min_duration_met": "Min duration",
    "result_min_queries_met": "Min queries",
    "early_stopping_met": "Early stopping",
}
_TEXT: Final = re.compile(r'^"pid": \d+, "tid": \d+, "ts": \d+ns : ?(.*)$')
_TEXT_HEAD: Final = re.compile(rb'(?m)^"pid": \d+, "tid": \d+, "ts": \d+ns : ')
_TEXT_DATE: Final = "Date + time of test:"
_LOADGEN: Final = (b'"loadgen_version"', b'"mlperf::logging"')


def recognizes(head: Head) -> bool:
    """Whether it holds the load generator's lines, of either form."""
    if b":::MLLOG" in head.data:
        return any(mark in head.data for mark in _LOADGEN)
    return _TEXT_HEAD.search(head.data) is not None


def read_detail(path: Path, limits: ReadLimits) -> Profile:
    """Reads a detail log.

    Raises:
        ProfileError: it cannot be read, or none of its lines is the load generator's.
    """
    text = PrintedText(path, limits)
    first = next((line for line in text.lines() if _is_marked(line)), "")
    text.unread.clear()
    findings = _from_text(text) if _TEXT.match(first) else _from_json(text)
    if not findings.events:
        raise ProfileError(
            f"{path}: none of its lines is the load generator's; name the run's "
            "mlperf_log_detail.txt"
        )
    findings.unread = dict(text.unread)
    return findings.profile(path.name)


def _is_marked(line: str) -> bool:
    return ":::MLLOG" in line or _TEXT.match(line) is not None


def _from_json(text: PrintedText) -> Findings:
    findings = Findings()
    faults = {"is_error": 0, "is_warning": 0}
    for entry in logged(text):
        findings.events += 1
        for name in faults:
            faults[name] += entry.metadata.get(name) is True
        _take(entry, findings)
    for name, count in faults.items():
        if count:
            findings.notes.append(f"The load generator counted {count} {name[3:]}(s).")
    return findings


def _take(entry: Logged, findings: Findings) -> None:
    word = _WORDS.get(entry.key)
    if word is not None:
        setattr(findings, word, str(entry.value)[:200])
    elif entry.key == "test_datetime":
        findings.start = _time(str(entry.value))
    elif entry.key in _REQUIREMENTS and entry.value is False:
        findings.notes.append(f"Not satisfied: {_REQUIREMENTS[entry.key]}.")
    else:
        findings.add(named_figure(entry.key, entry.value))


def _from_text(text: PrintedText) -> Findings:
    findings = Findings(may_hold_result=False)
    is_effective = True
    for line in text.lines():
        found = _TEXT.match(line)
        if found is None:
            text.unread["other lines"] += bool(line.strip())
            continue
        findings.events += 1
        said = found[1].strip()
        if said.startswith(_TEXT_DATE):
            findings.start = _time(said.removeprefix(_TEXT_DATE).strip())
        elif said in {"Effective Settings:", "Requested Settings:"}:
            is_effective = said.startswith("Effective")
        elif is_effective:
            _take_text(said, findings)
    return findings


def _take_text(said: str, findings: Findings) -> None:
    key, colon, value = said.partition(":")
    word = _TEXT_WORDS.get(key.strip().lower())
    if word is not None:
        setattr(findings, word, value.strip()[:200])
    elif colon:
        findings.add(named_figure(key.strip(), value.strip()))


def _time(text: str) -> Nanoseconds | None:
    """Of a date in ISO 8601, in UTC where it does not say."""
    try:
        moment = datetime.fromisoformat(text)
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        return nanoseconds(moment.timestamp())
    except (ValueError, OverflowError):
        return None


MLPERF_DETAIL: Final = ProfileReader(ProfileFormat.MLPERF_INFERENCE, recognizes, read_detail)
"""`mlperf_log_detail.txt`."""
