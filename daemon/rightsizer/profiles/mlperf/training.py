"""Reader of MLPerf training logs, `result_*.txt`, with lines `:::MLLOG {...}`."""

import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path
from statistics import median
from typing import Any, Final

from msgspec import Struct

from rightsizer.model.profile import BenchmarkResult, Profile, ProfileFormat
from rightsizer.model.values import ProfileError
from rightsizer.profiles.limits import ReadLimits
from rightsizer.profiles.printed_text import PrintedText
from rightsizer.profiles.reader import ProfileReader

_MARK: Final = ":::MLLOG "
_SYSTEM_MARK: Final = ":::SYSJSON "
_FORMER: Final = re.compile(
    r":::ML(?:L|Pv[\d.]+ (?P<benchmark>\w+)) (?P<time>\d{1,12}(?:\.\d{1,12})?) (?:\([^()]*\) )?"
    r"(?P<key>\w+)(?:: (?P<value>.*))?"
)
_DEEPEST: Final = 50
_SPANS: Final = {"init": "init_seconds", "eval": "evaluation_seconds", "block": "block_seconds"}
_NUMBERS: Final = ("global_batch_size", "eval_accuracy", "gradient_accumulation_steps")
_LINE: Final = re.compile(rb':::(MLLOG|SYSJSON) \{"|:::ML(L|Pv[\d.]+ \w+) \d{9,}[\d.]* ')
_THROUGHPUTS_KEPT: Final = 10_000
_LATEST_MILLISECONDS: Final = 1e15


def finite(value: object) -> float | None:
    """Convert a value or text to a finite number; `None` for words, booleans and others."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


class MlperfRecord(Struct, frozen=True):
    """A line of the log."""

    key: str
    value: Any
    milliseconds: float | None
    metadata: Mapping[str, Any] = {}
    is_system: bool = False
    """Whether it describes the system, in `value`."""
    benchmark: str = ""
    """Name that round 0.5 had in each line."""


def mlperf_records(text: PrintedText) -> Iterator[MlperfRecord]:
    """Yield the records in order, even if two share a line; broken ones are counted."""
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
    """Parse a line of a round before 0.7, with times in seconds."""
    said = _object(line["value"] or "") or {}
    metadata = said.get("metadata", said)
    if not isinstance(metadata, dict):
        metadata = {}
    elif "success" in metadata:
        metadata = {**metadata, "status": "success" if metadata["success"] is True else "aborted"}
    seconds = finite(line["time"])
    return MlperfRecord(
        key=line["key"][:100],
        value=said.get("value") if said else line["value"],
        milliseconds=None if seconds is None else seconds * 1e3,
        metadata=metadata,
        benchmark=line["benchmark"] or "",
    )


def _object(text: str) -> dict[str, Any] | None:
    if text.count("[") + text.count("{") > _DEEPEST:
        # Also counts brackets in texts, so that some valid lines are rejected.
        steps = {"[": 1, "{": 1, "]": -1, "}": -1}
        if max(accumulate(steps.get(character, 0) for character in text)) > _DEEPEST:
            return None
    try:
        # Other loggers append text, such as a change of color.
        entry, _ = json.JSONDecoder().raw_decode(text.lstrip())
    except (ValueError, RecursionError):
        return None
    return entry if isinstance(entry, dict) else None


@dataclass(slots=True)
class _TrainingRun:
    benchmark: str = ""
    start: float | None = None
    stop: float | None = None
    status: str = ""
    runs: int = 0
    events: int = 0
    figures: dict[str, float] = field(default_factory=dict)
    throughputs: list[float] = field(default_factory=list)
    system: str = ""
    _open: dict[str, float] = field(default_factory=dict)

    def take(self, entry: MlperfRecord) -> None:
        self.events += 1
        self.benchmark = self.benchmark or entry.benchmark[:80]
        time = entry.milliseconds
        if time is not None and not 0 <= time < _LATEST_MILLISECONDS:
            time = None
        if entry.is_system:
            self._describe(entry.value)
        elif entry.key == "submission_benchmark":
            self.benchmark = str(entry.value)[:80]
        elif entry.key == "run_start":
            self._begin(time)
        elif entry.key == "run_stop":
            self.stop = time
            self.status = str(entry.metadata.get("status", ""))[:20].lower()
        elif entry.key == "tracked_stats" and isinstance(entry.value, Mapping):
            self._track(finite(entry.value.get("throughput")))
        elif entry.key in _NUMBERS:
            if (number := finite(entry.value)) is not None:
                self.figures[entry.key] = number
        elif time is not None:
            self._span(entry.key, time)

    def _track(self, throughput: float | None) -> None:
        if throughput is not None and len(self.throughputs) < _THROUGHPUTS_KEPT:
            self.throughputs.append(throughput)

    def _begin(self, time: float | None) -> None:
        """Start over at each run of a file, so that the last one is reported."""
        if time is not None and time == self.start and self.stop is None:
            return  # The same line, logged again by another program.
        self.runs += 1
        self.start = time
        self.stop = None
        self.status = ""
        self.throughputs.clear()
        for name in ("evaluation_seconds", "block_seconds"):
            self.figures.pop(name, None)

    def _span(self, key: str, time: float) -> None:
        what, _, edge = key.rpartition("_")
        if what in _SPANS and edge == "start":
            self._open[what] = time
        elif edge == "stop" and what in self._open:
            took = max(0.0, time - self._open.pop(what)) / 1e3
            self.figures[_SPANS[what]] = self.figures.get(_SPANS[what], 0.0) + took

    def _describe(self, system: Mapping[str, Any]) -> None:
        names = ("number_of_nodes", "accelerators_per_node")
        nodes, node_accelerators = (finite(system.get(name)) for name in names)
        if nodes and node_accelerators:
            self.figures["accelerators"] = nodes * node_accelerators
        name = str(system.get("accelerator_model_name", ""))
        self.system = "".join(part for part in name if part.isalnum() or part in " -_.")[:60]


def _read(path: Path, limits: ReadLimits) -> Profile:
    text = PrintedText(path, limits)
    run = _TrainingRun()
    for entry in mlperf_records(text):
        run.take(entry)
    if not run.events:
        raise ProfileError("no line of it begins with :::MLLOG; name a result_*.txt")
    figures = run.figures
    is_success = run.status == "success"
    if run.throughputs:
        figures["samples_per_second"] = median(run.throughputs)
    if run.start is not None and run.stop is not None and run.stop >= run.start:
        name = "time_to_train_seconds" if is_success else "run_seconds"
        figures[name] = (run.stop - run.start) / 1e3
    is_valid = is_success if run.status else None
    return Profile(
        format=ProfileFormat.MLPERF_TRAINING,
        source=path.name,
        start=None if run.start is None else round(run.start * 1e3) * 1000,
        benchmark=BenchmarkResult(run.benchmark, "Training", is_valid, figures, run.system),
        events=run.events,
        unread=dict(text.unread),
        notes=tuple(_notes(run)),
    )


def _notes(run: _TrainingRun) -> Iterator[str]:
    if run.system:
        yield f"Its accelerators, as the log names them: {run.system}."
    if run.runs > 1:
        yield f"It holds {run.runs} runs; this is the last."
    if run.start is None:
        yield "The run did not start."
    elif run.stop is None:
        yield "The run did not stop: its log ends before."
    elif not run.status:
        yield "Its log does not say whether the run succeeded."
    elif run.status != "success":
        yield "The run was aborted, so that its time is no time to train."


MLPERF_TRAINING: Final = ProfileReader(
    ProfileFormat.MLPERF_TRAINING,
    lambda head: _LINE.search(head.data) is not None and b"mlperf::logging" not in head.data,
    _read,
)
"""`result_*.txt`."""
