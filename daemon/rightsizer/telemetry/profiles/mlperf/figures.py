"""Figures of MLPerf logs by stable names, and lines `:::MLLOG {...}`."""

import json
import math
import re
from collections.abc import Iterator, Mapping
from itertools import accumulate
from typing import Any, Final

from rightsizer.model.frozen import dataclass, field
from rightsizer.telemetry.profiles.printed_text import PrintedText

_RATES: Final = {
    "samples per second": "samples_per_second",
    "completed samples per second": "completed_samples_per_second",
    "completed samples per sec": "completed_samples_per_second",
    "scheduled samples per second": "scheduled_samples_per_second",
    "scheduled samples per sec": "scheduled_samples_per_second",
    "tokens per second": "tokens_per_second",
    "completed tokens per second": "completed_tokens_per_second",
    "tokens per second (inferred)": "inferred_tokens_per_second",
    "completed tokens per second (inferred)": "inferred_tokens_per_second",
    "inferred tokens per second": "inferred_tokens_per_second",
    "inferred completed tokens per second": "inferred_tokens_per_second",
    "tps w/o loadgen overhead": "tokens_per_second",
    "tps w/ loadgen overhead": "tokens_per_second_with_overhead",
    "qps w/o loadgen overhead": "queries_per_second",
    "qps without loadgen overhead": "queries_per_second",
    "qps w/ loadgen overhead": "queries_per_second_with_overhead",
    "qps with loadgen overhead": "queries_per_second_with_overhead",
    "samples per query": "samples_per_query",
    "query count": "queries",
    "target qps": "target_queries_per_second",
}
_TIMES: Final = {
    "target latency": "target_latency_seconds",
    "ttft latency": "target_ttft_seconds",
    "server ttft latency": "target_ttft_seconds",
    "requested server ttft latency": "target_ttft_seconds",
    "tpot latency": "target_tpot_seconds",
    "requested server tpot latency": "target_tpot_seconds",
    "min duration": "minimum_duration_seconds",
}
_STANDING: Final = re.compile(r"^(?:result|effective) ")
"""Before the names of detail logs that summaries have alone."""
_TARGETS_OF_NOTHING: Final = frozenset(
    {"target_latency_seconds", "target_ttft_seconds", "target_tpot_seconds"}
)
"""Where 0 means that there is none."""
_PER_SECOND: Final = {"ns": 1e9, "us": 1e6, "ms": 1e3}
_UNIT: Final = re.compile(r"[ _]\(?(ns|us|ms)\)?$")
_SUBJECTS: Final = (
    ("ttft", re.compile(r"first token")),
    ("tpot", re.compile(r"(time to output token|time per output token|tpot)")),
)
_PERCENTILE: Final = re.compile(r"(\d{1,3}(?:\.\d{1,4})?)(?:th|st|nd|rd)? percentile")
_EDGE: Final = re.compile(r"\b(min|max|mean)\b")
_ESTIMATE: Final = re.compile(r"early stopping (\d{1,3})(?:th|st|nd|rd) percentile estimate")


def finite(value: object) -> float | None:
    """The number that a value or a text is; `None` for words, switches and what is not finite."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def percentile_name(percentile: str) -> str:
    """`p99` of `99.00`, `p999` of `99.90`."""
    whole, _, rest = percentile.partition(".")
    return f"p{int(whole)}{rest.rstrip('0')}"


def named_figure(key: str, value: object) -> tuple[str, float] | None:
    """Name and value of what is known by this key; `None` where it is no figure."""
    number = finite(value)
    if number is None or number < 0:
        return None
    plain = " ".join(key.lower().replace("_", " ").split())
    unit = _UNIT.search(plain)
    plain = _UNIT.sub("", plain)
    known = _STANDING.sub("", plain)
    if known in _RATES:
        return _RATES[known], number
    parts = _PER_SECOND[unit[1] if unit else "ns"]
    if known in _TIMES:
        time = _TIMES[known]
        is_none = number == 0 and time in _TARGETS_OF_NOTHING
        return None if is_none else (time, number / parts)
    name = _measured_time(plain, has_unit=unit is not None)
    return None if name is None else (name, number / parts)


def _measured_time(plain: str, *, has_unit: bool) -> str | None:
    estimate = _ESTIMATE.search(plain)
    if estimate is not None:
        return f"early_stopping_latency_{percentile_name(estimate[1])}_seconds"
    subject = next((name for name, words in _SUBJECTS if words.search(plain)), "latency")
    if subject == "latency" and not (has_unit and "latency" in plain):
        return None
    if "requested" in plain or "effective" in plain or "overlatency" in plain:
        return None
    percentile = _PERCENTILE.search(plain)
    if percentile is not None:
        return f"{subject}_{percentile_name(percentile[1])}_seconds"
    edge = _EDGE.search(plain)
    return f"{subject}_{edge[1]}_seconds" if edge else None


_MARK: Final = ":::MLLOG "
_SYSTEM_MARK: Final = ":::SYSJSON "
_FORMER: Final = re.compile(
    r":::ML(?:L|Pv[\d.]+ (?P<benchmark>\w+)) (?P<time>\d{1,12}(?:\.\d{1,12})?) (?:\([^()]*\) )?"
    r"(?P<key>\w+)(?:: (?P<value>.*))?"
)
_DEEPEST: Final = 50


@dataclass(frozen=True, slots=True)
class MlperfRecord:
    """One line."""

    key: str
    value: Any
    milliseconds: float | None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    is_system: bool = False
    """It describes the system, in `value`."""
    benchmark: str = ""
    """Round 0.5 named it in each line."""


def mlperf_records(text: PrintedText) -> Iterator[MlperfRecord]:
    """The lines in order, also where two have run together; those that are broken are counted."""
    for line in text.lines():
        is_system = _MARK not in line and _SYSTEM_MARK in line
        parts = line.split(_SYSTEM_MARK if is_system else _MARK)[1:]
        if not parts:
            if (former := _FORMER.search(line)) is not None:
                yield _logged_formerly(former)
            else:
                text.unread["other lines"] += bool(line.strip())
        for entry in map(_object, parts):
            if entry is None:
                text.unread["broken lines"] += 1
            elif is_system:
                yield MlperfRecord("system", entry, None, is_system=True)
            else:
                metadata = entry.get("metadata")
                yield MlperfRecord(
                    key=str(entry.get("key", ""))[:100],
                    value=entry.get("value"),
                    milliseconds=finite(entry.get("time_ms")),
                    metadata=metadata if isinstance(metadata, dict) else {},
                )


def _logged_formerly(line: "re.Match[str]") -> MlperfRecord:
    """A line of a round before 0.7, whose times are in seconds."""
    text = line["value"]
    said = _object(text or "") or {}
    metadata = said.get("metadata", said)
    if not isinstance(metadata, dict):
        metadata = {}
    if "success" in metadata:
        metadata = {**metadata, "status": "success" if metadata["success"] is True else "aborted"}
    seconds = finite(line["time"])
    return MlperfRecord(
        key=line["key"][:100],
        value=said.get("value") if said else text,
        milliseconds=None if seconds is None else seconds * 1e3,
        metadata=metadata,
        benchmark=line["benchmark"] or "",
    )


def _object(text: str) -> dict[str, Any] | None:
    if text.count("[") + text.count("{") > _DEEPEST:
        # Brackets in texts are counted too: more is refused than must be.
        steps = {"[": 1, "{": 1, "]": -1, "}": -1}
        if max(accumulate(steps.get(each, 0) for each in text)) > _DEEPEST:
            return None
    try:
        # Loggers of others put their own after it, as a change of color.
        entry, _ = json.JSONDecoder().raw_decode(text.lstrip())
    except (ValueError, RecursionError):
        return None
    return entry if isinstance(entry, dict) else None
