"""Reader of MLPerf training logs: `result_*.txt`."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any, Final

from rightsizer.model.errors import ProfileError
from rightsizer.model.profile import BenchmarkResult, Profile, ProfileFormat
from rightsizer.telemetry.profiles.limits import ReadLimits
from rightsizer.telemetry.profiles.mlperf.figures import MlperfRecord, finite, mlperf_records
from rightsizer.telemetry.profiles.printed_text import PrintedText
from rightsizer.telemetry.profiles.reader import Head, ProfileReader

_SPANS: Final = {"init": "init_seconds", "eval": "evaluation_seconds", "block": "block_seconds"}
_NUMBERS: Final = ("global_batch_size", "eval_accuracy", "gradient_accumulation_steps")
_LINE: Final = re.compile(rb':::(MLLOG|SYSJSON) \{"|:::ML(L|Pv[\d.]+ \w+) \d{9,}[\d.]* ')
_THROUGHPUTS_KEPT: Final = 10_000
_LATEST_MILLISECONDS: Final = 1e15


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
        """Takes one line."""
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
            self.stop, self.status = time, str(entry.metadata.get("status", ""))[:20].lower()
        elif entry.key == "tracked_stats" and isinstance(entry.value, Mapping):
            self._track(entry.value)
        elif entry.key in _NUMBERS:
            number = finite(entry.value)
            if number is not None:
                self.figures[entry.key] = number
        elif time is not None:
            self._span(entry.key, time)

    def _begin(self, time: float | None) -> None:
        """Starts over where a file holds several runs, so that the last is told of."""
        if time is not None and time == self.start and self.stop is None:
            return  # Printed, and logged by another program once more.
        self.runs += 1
        self.start, self.stop, self.status = time, None, ""
        self.throughputs.clear()
        for name in ("evaluation_seconds", "block_seconds"):
            self.figures.pop(name, None)

    def _track(self, stats: Mapping[str, Any]) -> None:
        throughput = finite(stats.get("throughput"))
        if throughput is not None and len(self.throughputs) < _THROUGHPUTS_KEPT:
            self.throughputs.append(throughput)

    def _span(self, key: str, time: float) -> None:
        what, _, edge = key.rpartition("_")
        if what in _SPANS and edge == "start":
            self._open[what] = time
        elif edge == "stop" and what in self._open:
            took = max(0.0, time - self._open.pop(what)) / 1e3
            self.figures[_SPANS[what]] = self.figures.get(_SPANS[what], 0.0) + took

    def _describe(self, system: Mapping[str, Any]) -> None:
        nodes = finite(system.get("number_of_nodes"))
        each = finite(system.get("accelerators_per_node"))
        if nodes and each:
            self.figures["accelerators"] = nodes * each
        name = str(system.get("accelerator_model_name", ""))
        self.system = "".join(part for part in name if part.isalnum() or part in " -_.")[:60]


def recognizes(head: Head) -> bool:
    """Whether it holds lines of a training run."""
    return _LINE.search(head.data) is not None and b"mlperf::logging" not in head.data


def _read(path: Path, limits: ReadLimits) -> Profile:
    """A training run's log."""
    text, run = PrintedText(path, limits), _TrainingRun()
    for entry in mlperf_records(text):
        run.take(entry)
    if not run.events:
        raise ProfileError(f"{path}: no line of it begins with :::MLLOG; name a result_*.txt")
    figures = dict(run.figures)
    if run.throughputs:
        figures["samples_per_second"] = median(run.throughputs)
    if run.start is not None and run.stop is not None and run.stop >= run.start:
        name = "time_to_train_seconds" if run.status == "success" else "run_seconds"
        figures[name] = (run.stop - run.start) / 1e3
    is_valid = run.status == "success" if run.status else None
    return Profile(
        format=ProfileFormat.MLPERF_TRAINING,
        source=path.name,
        start=None if run.start is None else round(run.start * 1e3) * 1000,
        benchmark=BenchmarkResult(run.benchmark, "Training", is_valid, figures),
        events=run.events,
        unread=dict(text.unread),
        notes=tuple(_notes(run)),
    )


def _notes(run: _TrainingRun) -> list[str]:
    notes = []
    if run.system:
        notes.append(f"Its accelerators, as the log names them: {run.system}.")
    if run.runs > 1:
        notes.append(f"It holds {run.runs} runs; this is the last.")
    if run.start is None:
        notes.append("The run did not start.")
    elif run.stop is None:
        notes.append("The run did not stop: its log ends before.")
    elif not run.status:
        notes.append("Its log does not say whether the run succeeded.")
    elif run.status != "success":
        notes.append("The run was aborted, so that its time is no time to train.")
    return notes


MLPERF_TRAINING: Final = ProfileReader(ProfileFormat.MLPERF_TRAINING, recognizes, _read)
"""`result_*.txt`."""
