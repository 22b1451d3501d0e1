"""The load generator's `mlperf_log_summary.txt`, of all scenarios and rounds."""

import re
from pathlib import Path
from typing import Final

from rightsizer.domain.errors import ProfileError
from rightsizer.domain.profile import Profile, ProfileFormat
from rightsizer.profiles.mlperf.figures import printed_figure
from rightsizer.profiles.mlperf.findings import Findings
from rightsizer.profiles.printed.record import PrintedText
from rightsizer.profiles.reader import Head, ProfileReader, ReadLimits

__all__ = ["MLPERF_SUMMARY", "read_summary"]

_TITLE: Final = b"MLPerf Results Summary"
_COUNTS: Final = re.compile(r"^(\d+) (warning|error)s? encountered", re.IGNORECASE)
_NO_COUNTS: Final = re.compile(r"^No (warning|error)s? encountered", re.IGNORECASE)
_BINARY_COUNTS: Final = re.compile(rb"(?m)^(No|\d+) (warning|error)s? encountered", re.IGNORECASE)
_HEADING: Final = re.compile(r"^\S.*(latency|IssueQuery|Result):", re.IGNORECASE)
_REQUIREMENT: Final = re.compile(r"^\s+(.+?) satisfied\s*$")
_WORDS: Final = {
    "sut name": "system",
    "scenario": "scenario",
    "mode": "mode",
    "result is": "validity",
}
_BINDING: Final = frozenset({"no", "false"})


def recognizes(head: Head) -> bool:
    """Whether it holds the summary's title, or the closing lines that an accuracy run has alone."""
    if b":::MLLOG" in head.data:
        return False
    return _TITLE in head.data or _BINARY_COUNTS.search(head.data) is not None


def read_summary(path: Path, limits: ReadLimits) -> Profile:
    """Reads a summary.

    Raises:
        ProfileError: it cannot be read, or is none.
    """
    findings, text = Findings(), PrintedText(path, limits)
    is_summary, group = False, ""
    for line in text.lines():
        plain = line.strip()
        findings.events += bool(plain)
        key, colon, value = line.partition(":")
        if _counted(plain, findings) or "MLPerf Results Summary" in plain:
            is_summary = True
        elif plain.startswith("==="):
            group = ""
        elif _HEADING.match(line):
            group = plain.lower()
        elif colon:
            _line(key, value, group, findings)
    if not is_summary:
        raise ProfileError(
            f"{path}: no summary of the load generator: neither its title nor its closing lines "
            "are there; the run did not end, or the file was cut"
        )
    findings.unread = dict(text.unread)
    return findings.profile(path.name)


def _line(key: str, value: str, group: str, findings: Findings) -> None:
    word = _WORDS.get(key.strip().lower())
    requirement = _REQUIREMENT.match(key)
    if word is not None:
        if not getattr(findings, word):
            setattr(findings, word, value.strip())
    elif requirement is not None and value.strip().lower() in _BINDING:
        findings.notes.append(f"Not satisfied: {requirement[1][:80]}.")
    elif not group.startswith(("intervals", "ttft", "tpot")):
        findings.add(printed_figure(key.strip(" *"), value.strip(), group))


def _counted(plain: str, findings: Findings) -> bool:
    found = _COUNTS.match(plain)
    if found is not None:
        findings.notes.append(f"The load generator counted {found[1][:9]} {found[2].lower()}(s).")
    return found is not None or _NO_COUNTS.match(plain) is not None


MLPERF_SUMMARY: Final = ProfileReader(ProfileFormat.MLPERF_INFERENCE, recognizes, read_summary)
"""`mlperf_log_summary.txt`."""
