"""A replay of production telemetry against figures computed straight from its rows.

Per-pod duty and memory every 57 seconds (cluster-trace-v2026-GenAI). Both ways are told apart on
purpose: here there are only rows, times and the words of the definitions.
"""

import csv
import gzip
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Final

from msgspec import Struct

from rightsizer.agent.replay import DeviceSummary, replay
from rightsizer.agent.settings import Settings
from rightsizer.catalogue.catalogue import built_in
from rightsizer.model.state import IDLE_STATES, State
from rightsizer.recordings.source import open_recording

_MAP: Final = Path(__file__).parents[2] / "config" / "columns" / "alibaba-genai-2026.yaml"
_DUTY: Final = "gpu_duty_cycle_pct.csv.gz"
_MEMORY: Final = "gpu_memory_used_bytes.csv.gz"
_SECOND: Final = 10**9
_IDLE_PERCENT: Final = 1.0
_EMPTY_BYTES: Final = 512 * 2**20
_HELD_INTERVALS: Final = 2
_GAP_INTERVALS: Final = 3

Series = Mapping[int, float]
"""Values by time in nanoseconds."""


class _Pod(Struct, frozen=True):
    """Rows of one pod."""

    span: int
    times: Mapping[str, int]
    """Nanoseconds of `idle_empty`, `idle_held`, `unknown` and of everything else."""


def evaluate(folder: Path) -> Iterator[str]:
    """Number of agreeing pods, and the largest difference."""
    pods = _straight(_rows(folder / _DUTY), _rows(folder / _MEMORY))
    source = open_recording([folder / _DUTY, folder / _MEMORY], catalogue=built_in(), columns=_MAP)
    try:
        result = replay(source, Settings())
    finally:
        source.close()
    found = {summary.device.uuid: summary for summary in result.devices}
    exact = [pod for pod, rows in pods.items() if found[pod].window.accounted == rows.span]
    worst = max((_difference(rows, found[pod]) for pod, rows in pods.items()), default=0)
    hours = {kind: sum(rows.times[kind] for rows in pods.values()) for kind in _KINDS}
    replayed = Counter[str]()
    for summary in found.values():
        replayed.update(_kinds(summary))
    of_kinds = (f"{kind} {_hours(hours[kind])}, {_hours(replayed[kind])}" for kind in _KINDS)
    yield (
        f"{len(pods)} pods, {len(found)} replayed, {len(exact)} with states that sum to their wall "
        f"time exactly. Hours straight from the rows, and replayed: {'; '.join(of_kinds)}. "
        f"Largest difference of a pod and kind: {worst / _SECOND:g} s.\n"
    )
    complaints = Counter(finding.rule for finding in result.findings if finding.is_actionable)
    said = ", ".join(f"{rule}: {count}" for rule, count in sorted(complaints.items())) or "none"
    yield f"Findings over the whole trace: {said}. Advice opened: {len(result.advice)}.\n"


_KINDS: Final = ("idle_empty", "idle_held", "unknown", "at_work")


def _hours(time: int) -> str:
    return f"{time / _SECOND / 3600:.3f}"


def _kinds(summary: DeviceSummary) -> Mapping[str, int]:
    kinds = Counter[str]()
    for state, time in summary.window.states.items():
        is_counted = state in IDLE_STATES or state is State.UNKNOWN
        kinds[str(state) if is_counted else "at_work"] += time
    return kinds


def _difference(rows: _Pod, summary: DeviceSummary) -> int:
    kinds = _kinds(summary)
    return max(abs(rows.times[kind] - kinds.get(kind, 0)) for kind in _KINDS)


def _rows(path: Path) -> Mapping[str, Series]:
    series: dict[str, dict[int, float]] = defaultdict(dict)
    with gzip.open(path, "rt", encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            series[row["pod"]][round(float(row["timestamp_s"]) * _SECOND)] = float(row["value"])
    return series


def _straight(duty: Mapping[str, Series], memory: Mapping[str, Series]) -> Mapping[str, _Pod]:
    """Each pod's time by its last rows, at the times of all rows."""
    pods = sorted(duty.keys() | memory.keys())
    steps = [
        after - before
        for pod in pods
        for times in [sorted(duty.get(pod, {}).keys() | memory.get(pod, {}).keys())]
        for before, after in pairwise(times)
    ]
    interval = median(steps)
    return {pod: _pod(duty.get(pod, {}), memory.get(pod, {}), interval) for pod in pods}


def _pod(duty: Series, memory: Series, interval: float) -> _Pod:
    times = sorted(duty.keys() | memory.keys())
    spent = Counter[str]()
    for before, now in pairwise(times):
        known = min(now - before, round(_GAP_INTERVALS * interval))
        spent["unknown"] += now - before - known
        spent[_kind(_held(duty, now, interval), _held(memory, now, interval))] += known
    return _Pod(times[-1] - times[0], spent)


def _kind(percent: float | None, used_bytes: float | None) -> str:
    if percent is None:
        return "unknown"
    if percent >= _IDLE_PERCENT:
        return "at_work"
    return "idle_held" if used_bytes is not None and used_bytes >= _EMPTY_BYTES else "idle_empty"


def _held(series: Series, now: int, interval: float) -> float | None:
    """The latest value that is not too old."""
    if now in series:
        return series[now]
    earlier = [time for time in series if now - _HELD_INTERVALS * interval <= time <= now]
    return series[max(earlier)] if earlier else None
