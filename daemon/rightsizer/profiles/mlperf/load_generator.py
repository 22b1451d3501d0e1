"""Readers of the load generator's summary and detail logs, merged if both are of one run."""

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from rightsizer.model.profile import BenchmarkResult, Profile, ProfileFormat
from rightsizer.model.table import table_rows
from rightsizer.model.values import Nanoseconds, ProfileError, nanoseconds
from rightsizer.profiles.limits import ReadLimits
from rightsizer.profiles.mlperf.training import finite, mlperf_records
from rightsizer.profiles.printed_text import PrintedText
from rightsizer.profiles.reader import Head, ProfileReader

_FIGURES: Final = {
    row["printed"]: (row["figure"], row["kind"] == "time")
    for row in table_rows(__file__, "figures.csv")
}
"""Figures by their printed name, and whether they are times."""
_STANDING: Final = re.compile(r"^(?:result|effective) ")
"""Prefix in detail logs that summaries do not have."""
_TARGETS_OF_NOTHING: Final = frozenset(
    {"target_latency_seconds", "target_ttft_seconds", "target_tpot_seconds"}
)
"""Figures for which 0 means none."""
_PER_SECOND: Final = {"ns": 1e9, "us": 1e6, "ms": 1e3}
_UNIT: Final = re.compile(r"[ _]\(?(ns|us|ms)\)?$")
_SUBJECTS: Final = (
    ("ttft", re.compile(r"first token")),
    ("tpot", re.compile(r"(time to output token|time per output token|tpot)")),
)
_NOT_MEASURED: Final = re.compile(r"requested|effective|overlatency")
_PERCENTILE: Final = re.compile(r"(\d{1,3}(?:\.\d{1,4})?)(?:th|st|nd|rd)? percentile")
_EDGE: Final = re.compile(r"\b(min|max|mean)\b")
_ESTIMATE: Final = re.compile(r"early stopping (\d{1,3})(?:th|st|nd|rd) percentile estimate")
_VALIDITY: Final = {"VALID": True, "INVALID": False}
_NAME_CHARACTERS: Final = 80
_HEADLINES: Final = (
    ("samples_per_second", ("completed_samples_per_second", "scheduled_samples_per_second")),
    ("tokens_per_second", ("completed_tokens_per_second", "inferred_tokens_per_second")),
)
"""Names of every scenario's rate, best first."""
_FIELDS: Final = {
    **dict.fromkeys(("sut_name", "system under test (sut) name", "sut name"), "system"),
    **dict.fromkeys(("effective_scenario", "scenario"), "scenario"),
    **dict.fromkeys(("effective_test_mode", "test mode", "mode"), "mode"),
    **dict.fromkeys(("result_validity", "result is"), "validity"),
    **dict.fromkeys(("loadgen_version", "version"), "version"),
}
"""Fields of `LoadGeneratorFindings` by key in detail logs, in those before 1.0, in summaries."""
_REQUIREMENTS: Final = {
    "result_perf_constraints_met": "Performance constraints",
    "result_min_duration_met": "Min duration",
    "result_min_queries_met": "Min queries",
    "early_stopping_met": "Early stopping",
}
_FAULTS: Final = ("is_error", "is_warning")
_TEXT: Final = re.compile(r'^"pid": \d+, "tid": \d+, "ts": \d+ns : ?(.*)$')
_TEXT_HEAD: Final = re.compile(rb'(?m)^"pid": \d+, "tid": \d+, "ts": \d+ns : ')
_TEXT_DATE: Final = "Date + time of test:"
_LOADGEN: Final = (b'"loadgen_version"', b'"mlperf::logging"')


def percentile_name(percentile: str) -> str:
    """Convert `99.00` to `p99`, `99.90` to `p999`."""
    whole, _, rest = percentile.partition(".")
    return f"p{int(whole)}{rest.rstrip('0')}"


def named_figure(key: str, value: object) -> tuple[str, float] | None:
    """Return name and value of a figure; `None` if the key is unknown."""
    number = finite(value)
    if number is None or number < 0:
        return None
    plain = " ".join(key.lower().replace("_", " ").split())
    unit = _UNIT.search(plain)
    plain = _UNIT.sub("", plain)
    key_words = _STANDING.sub("", plain)
    name, is_time = _FIGURES.get(key_words, ("", True))
    if not is_time:
        return name, number
    name = name or _measured_time(plain, has_unit=unit is not None)
    if not name or (number == 0 and name in _TARGETS_OF_NOTHING):
        return None
    return name, number / _PER_SECOND[unit[1] if unit else "ns"]


def _measured_time(plain: str, *, has_unit: bool) -> str:
    if estimate := _ESTIMATE.search(plain):
        return f"early_stopping_latency_{percentile_name(estimate[1])}_seconds"
    subject = next((name for name, words in _SUBJECTS if words.search(plain)), "latency")
    is_time = subject != "latency" or (has_unit and "latency" in plain)
    if not is_time or _NOT_MEASURED.search(plain):
        return ""
    if percentile := _PERCENTILE.search(plain):
        return f"{subject}_{percentile_name(percentile[1])}_seconds"
    edge = _EDGE.search(plain)
    return f"{subject}_{edge[1]}_seconds" if edge else ""


@dataclass(slots=True)
class LoadGeneratorFindings:
    """Findings collected line by line."""

    system: str = ""
    scenario: str = ""
    mode: str = ""
    validity: str = ""
    version: str = ""
    start: Nanoseconds | None = None
    figures: dict[str, float] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    events: int = 0
    may_hold_result: bool = True
    """Round 0.7 wrote results only into the summary."""

    def take(self, key: str, field_key: str, value: object) -> None:
        """Take a value of a detail log; the first figure of a name wins."""
        if (word := _FIELDS.get(field_key)) is not None:
            setattr(self, word, str(value)[:200])
        elif figure := named_figure(key, value):
            self.figures.setdefault(*figure)

    def line(self, key: str, value: str, group: str) -> None:
        """Take a line of a summary, under a heading."""
        requirement = _REQUIREMENT.match(key)
        if (word := _FIELDS.get(key.strip().lower())) is not None:
            setattr(self, word, getattr(self, word) or value)
        elif requirement is not None and value.lower() in _BINDING:
            self.notes.append(f"Not satisfied: {requirement[1][:80]}.")
        elif not group.startswith(("intervals", "ttft", "tpot")) and (
            figure := named_figure(key.strip(" *"), value)
        ):
            is_of_samples = group.startswith("per-sample latency")
            sample = "sample_" if is_of_samples and figure[0].startswith("latency_") else ""
            self.figures.setdefault(sample + figure[0], figure[1])

    def profile(self, source: str, unread: Mapping[str, int]) -> Profile:
        """Build the profile."""
        figures = self.figures
        notes = self.notes
        for name, others in _HEADLINES:
            if values := [figures[other] for other in others if other in figures]:
                figures.setdefault(name, values[0])
        has_result = self.validity != "" or any(name.startswith("latency") for name in figures)
        if "accuracy" in self.mode.lower():
            notes.append("An accuracy run: it measures no speed.")
        elif not self.may_hold_result:
            notes.append("Its round wrote results into mlperf_log_summary.txt alone.")
        elif not has_result:
            notes.append("It holds no result: an accuracy run, or a run that did not end.")
        return Profile(
            format=ProfileFormat.MLPERF_INFERENCE,
            source=source,
            version=_shown(self.version),
            start=self.start,
            benchmark=BenchmarkResult(
                _shown(self.system),
                _shown(self.scenario.replace(" ", "")),
                _VALIDITY.get(self.validity.strip().upper()),
                figures,
            ),
            events=self.events,
            unread=dict(unread),
            notes=tuple(notes),
        )


def _shown(text: str) -> str:
    return "".join(letter for letter in text.strip() if letter.isprintable())[:_NAME_CHARACTERS]


def _recognizes_detail(head: Head) -> bool:
    if b":::MLLOG" in head.data:
        return any(mark in head.data for mark in _LOADGEN)
    return _TEXT_HEAD.search(head.data) is not None


def _read_detail(path: Path, limits: ReadLimits) -> Profile:
    text = PrintedText(path, limits)
    marked = (line for line in text.lines() if ":::MLLOG" in line or _TEXT.match(line))
    first = next(marked, "")
    text.unread.clear()
    findings = _from_text(text) if _TEXT.match(first) else _from_json(text)
    if not findings.events:
        raise ProfileError(
            "none of its lines is the load generator's; name the run's mlperf_log_detail.txt"
        )
    return findings.profile(path.name, text.unread)


def _from_json(text: PrintedText) -> LoadGeneratorFindings:
    findings = LoadGeneratorFindings()
    faults: Counter[str] = Counter()
    for entry in mlperf_records(text):
        findings.events += 1
        faults.update(name for name in _FAULTS if entry.metadata.get(name) is True)
        if entry.key == "test_datetime":
            findings.start = _time(str(entry.value))
        elif entry.key in _REQUIREMENTS and entry.value is False:
            findings.notes.append(f"Not satisfied: {_REQUIREMENTS[entry.key]}.")
        else:
            findings.take(entry.key, entry.key, entry.value)
    for name in filter(faults.get, _FAULTS):
        findings.notes.append(f"The load generator counted {faults[name]} {name[3:]}(s).")
    return findings


def _from_text(text: PrintedText) -> LoadGeneratorFindings:
    findings = LoadGeneratorFindings(may_hold_result=False)
    is_effective = True
    for line in text.lines():
        match = _TEXT.match(line)
        if match is None:
            text.unread["other lines"] += bool(line.strip())
            continue
        findings.events += 1
        said = match[1].strip()
        if said.startswith(_TEXT_DATE):
            findings.start = _time(said.removeprefix(_TEXT_DATE).strip())
        elif said in {"Effective Settings:", "Requested Settings:"}:
            is_effective = said.startswith("Effective")
        elif is_effective and ":" in said:
            key, _, value = map(str.strip, said.partition(":"))
            findings.take(key, key.lower(), value)
    return findings


def _time(text: str) -> Nanoseconds | None:
    """Parse an ISO 8601 date; UTC by default."""
    try:
        moment = datetime.fromisoformat(text)
        return nanoseconds(moment.replace(tzinfo=moment.tzinfo or UTC).timestamp())
    except (ValueError, OverflowError):
        return None


MLPERF_DETAIL: Final = ProfileReader(
    ProfileFormat.MLPERF_INFERENCE, _recognizes_detail, _read_detail
)
"""`mlperf_log_detail.txt`."""

_TITLE: Final = b"MLPerf Results Summary"
_COUNTS: Final = re.compile(r"(No|\d+) (warning|error)s? encountered", re.IGNORECASE)
_BINARY_COUNTS: Final = re.compile(rb"(?m)^(No|\d+) (warning|error)s? encountered", re.IGNORECASE)
_HEADING: Final = re.compile(r"^\S.*(latency|IssueQuery|Result):", re.IGNORECASE)
_REQUIREMENT: Final = re.compile(r"^\s+(.+?) satisfied\s*$")
_BINDING: Final = frozenset({"no", "false"})


def _recognizes_summary(head: Head) -> bool:
    """Whether it has a summary's title, or the closing lines unique to an accuracy run."""
    if b":::MLLOG" in head.data:
        return False
    return _TITLE in head.data or _BINARY_COUNTS.search(head.data) is not None


def _read_summary(path: Path, limits: ReadLimits) -> Profile:
    findings = LoadGeneratorFindings()
    text = PrintedText(path, limits)
    is_summary = False
    group = ""
    for line in text.lines():
        plain = line.strip()
        findings.events += bool(plain)
        key, colon, value = line.partition(":")
        counted = _COUNTS.match(plain)
        is_title = "MLPerf Results Summary" in plain
        is_summary = is_summary or is_title or counted is not None
        if counted is not None and counted[1].lower() != "no":
            count = counted[1][:9]
            what = counted[2].lower()
            findings.notes.append(f"The load generator counted {count} {what}(s).")
        elif counted is not None or is_title:
            continue
        elif plain.startswith("==="):
            group = ""
        elif _HEADING.match(line):
            group = plain.lower()
        elif colon:
            findings.line(key, value.strip(), group)
    if not is_summary:
        raise ProfileError(
            "no summary of the load generator: neither its title nor its closing lines are there; "
            "the run did not end, or the file was cut"
        )
    return findings.profile(path.name, text.unread)


MLPERF_SUMMARY: Final = ProfileReader(
    ProfileFormat.MLPERF_INFERENCE, _recognizes_summary, _read_summary
)
"""`mlperf_log_summary.txt`."""

_NO_RESULT: Final = ("It holds no result", "Its round wrote")
_ROUNDING_RATIO: Final = 1e-3
"""Summaries print at least four digits."""


def merged(summary: Profile, detail: Profile) -> Profile:
    """Merge both profiles; the summary's figures win, since they are the published ones."""
    ours = summary.benchmark
    theirs = detail.benchmark
    if ours is None or theirs is None:
        return summary
    notes = [*summary.notes, *(note for note in detail.notes if note not in summary.notes)]
    if ours.figures:
        notes = [note for note in notes if not note.startswith(_NO_RESULT)]
    unstated = ("", None)
    differing = [
        word
        for word, one, other in (
            ("the scenario", ours.scenario, theirs.scenario),
            ("whether it is valid", ours.is_valid, theirs.is_valid),
        )
        if one not in unstated and other not in unstated and one != other
    ]
    differing += [
        name
        for name, figure in ours.figures.items()
        if abs(figure - theirs.figures.get(name, figure)) > _ROUNDING_RATIO * abs(figure)
    ]
    if differing:
        notes.append(
            f"The summary and the detail log differ in {', '.join(differing)}: they may be of "
            "two runs."
        )
    return replace(
        summary,
        source=f"{summary.source}, {detail.source}",
        version=detail.version,
        start=detail.start,
        benchmark=BenchmarkResult(
            ours.benchmark or theirs.benchmark,
            ours.scenario or theirs.scenario,
            theirs.is_valid if ours.is_valid is None else ours.is_valid,
            {**theirs.figures, **ours.figures},
        ),
        events=summary.events + detail.events,
        unread=dict(Counter(summary.unread) + Counter(detail.unread)),
        notes=tuple(notes),
    )
