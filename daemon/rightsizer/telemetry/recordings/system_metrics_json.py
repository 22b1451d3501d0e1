"""System metrics of experiment trackers, like `system.gpu.0.gpu`: JSON lines or CSV."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Final

from rightsizer.model.device import BY_INDEX
from rightsizer.model.units import NANOSECONDS_PER_SECOND, Nanoseconds
from rightsizer.telemetry.recordings.nvidia_smi_columns import signal_columns
from rightsizer.telemetry.recordings.row import RecordingDeviceFacts, RecordingNotes, RecordingRow
from rightsizer.telemetry.recordings.table import CellColumn, read_cells
from rightsizer.telemetry.recordings.text_file import RecordingFormat, TextFile, split_csv_line
from rightsizer.telemetry.recordings.timestamps import parse_timestamp

_KEY: Final = re.compile(
    r"(?>(?P<run>.+) - )?(?:.*[/ ])?(?:system\.|sys\.)?"
    r"gpu[._](?P<index>\d+)[._](?P<metric>\w+)(?P<node>/l:.+)?"
    r"|.*\(gpu:(?P<physical>\d+)\)/(?P<collected>\w+) \([^)]+\)/mean"
)
_METRICS: Final = signal_columns("tracker")
"""By the names of https://docs.wandb.ai/ref/system-metrics; those of one process's GPUs repeat
them; of MLflow's, Comet's and ClearML's system metrics; and of nvitop's collector."""
_JSON_KEY: Final = re.compile(r'"(?:[^"]*[/ ])?(?:system\.|sys\.)?gpu[._]\d+[._]\w+')
_TIMES: Final = ("_timestamp", "timestamp", "Wall Time")
_RELATIVE_TIMES: Final = ("_runtime", "Relative Time (Process)", "Relative Time (Wall)")
_LONG: Final = (("key", "value"), ("metric", "value"), ("metricName", "metricValue"))
"""Columns with one metric per line, as in MLflow's exports and chart downloads."""


def _rows(text: TextFile, notes: RecordingNotes) -> Iterator[RecordingRow]:
    reader = _KeyReader(notes)
    headings: list[str] = []
    for number, line in text.lines(notes):
        if not line.strip():
            continue
        if _is_heading(line):
            headings = split_csv_line(line)
            runs = {found["run"] for found in map(_KEY.fullmatch, headings) if found}
            reader.has_several_runs = len(runs) > 1
            continue
        for record in _records(line, headings, number, notes):
            named = {
                key: record[value]
                for name, value in _LONG
                if isinstance(key := record.get(name), str) and value in record
            }
            if not (cells := reader.cells(named or record)):
                continue  # Others are about the host, or the training itself.
            time = _time(record, notes)
            if time is None:
                notes.count("line of GPU metrics without a time that can be read", number, line)
                continue
            for device, signals in cells.items():
                stream = " ".join((text.name, *named))
                yield RecordingRow(time, device, *read_cells(signals, number, notes), stream)


def _is_heading(line: str) -> bool:
    """Whether a CSV line has a time and GPU metrics."""
    if line.startswith("{"):
        return False
    cells = {*split_csv_line(line)}
    is_long = any(cells.issuperset(pair) for pair in _LONG)
    has_metrics = is_long or any(map(_KEY.fullmatch, cells))
    return has_metrics and not cells.isdisjoint((*_TIMES, *_RELATIVE_TIMES))


def _names_metric(line: str) -> bool:
    return any(map(_KEY.fullmatch, split_csv_line(line)))


def _records(
    line: str, headings: Sequence[str], number: int, notes: RecordingNotes
) -> Iterator[dict[str, Any]]:
    """Yield the metrics of a line of JSON, or of CSV under its headings."""
    if headings:
        cells = [cell.strip() or None for cell in split_csv_line(line)]
        if len(cells) == len(headings):
            yield dict(zip(headings, cells, strict=True))
        else:
            notes.skip(number, line)
        return
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        notes.count("damaged or torn JSON", number, line.strip())
        return
    # MLflow's REST API answers with a list of metrics, Comet's export is one.
    found = record.get("metrics", [record]) if isinstance(record, dict) else record
    if not isinstance(found, list):
        return
    yield from (each for each in found if isinstance(each, dict))


SYSTEM_METRICS_JSON: Final = RecordingFormat(
    "system metrics of Weights & Biases and the like",
    lambda head: (
        (_is_heading(head[0]) and any(map(_names_metric, head)))
        or any(line.startswith(("{", "[{")) and bool(_JSON_KEY.search(line)) for line in head)
    ),
    _rows,
)
"""`_timestamp` or `_runtime` in seconds, GPUs in the keys; null means not read."""


def _time(record: Mapping[str, Any], notes: RecordingNotes) -> Nanoseconds | None:
    names = (*_TIMES, *_RELATIVE_TIMES)
    name = next((name for name in names if record.get(name) is not None), None)
    try:
        if name in _RELATIVE_TIMES:
            notes.remark(f"has no '_timestamp': times are counted from 1970-01-01 on by '{name}'")
            return round(float(record[name]) * NANOSECONDS_PER_SECOND)
        return None if name is None else parse_timestamp(str(record[name]))
    except (ValueError, TypeError, OverflowError):
        return None


class _KeyReader:
    """Device and column of each key, cached."""

    def __init__(self, notes: RecordingNotes) -> None:
        self._notes = notes
        self.has_several_runs = False
        """Whether a chart was exported with the GPUs of several runs."""
        self._place = cache(self._taken_apart)

    def cells(self, record: Mapping[str, Any]) -> dict[str, list[tuple[CellColumn, Any]]]:
        found: dict[str, list[tuple[CellColumn, Any]]] = {}
        for key, value in record.items():
            if (place := self._place(key)) is not None:
                device, column = place
                found.setdefault(device, []).append((column, value))
        return found

    def _taken_apart(self, key: str) -> tuple[str, CellColumn] | None:
        match = _KEY.fullmatch(key)
        held = None if match is None else _METRICS.get(match["metric"] or match["collected"])
        if match is None or held is None:
            return None
        index, node = int(match["index"] or match["physical"]), match["node"] or ""
        run = match["run"] if self.has_several_runs else None
        device = f"{run} GPU {index}" if run else f"{BY_INDEX}{index}{node}"
        self._notes.learn(device, RecordingDeviceFacts(index=None if node or run else index))
        return device, CellColumn(0, key, *held[:2])
