"""JSON lines of Weights & Biases system metrics: `system.gpu.0.gpu` and the like."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from rightsizer.model.units import NANOSECONDS_PER_SECOND, Nanoseconds
from rightsizer.telemetry.recordings.nvidia_smi_columns import signal_columns
from rightsizer.telemetry.recordings.row import RecordingDeviceFacts, RecordingNotes, RecordingRow
from rightsizer.telemetry.recordings.table import CellColumn, read_cells
from rightsizer.telemetry.recordings.text_file import RecordingFormat, TextFile
from rightsizer.telemetry.recordings.timestamps import parse_timestamp

_KEY: Final = re.compile(r"(?:system[./])?gpu\.(?P<index>\d+)\.(?P<metric>\w+)(?P<node>/l:.+)?")
_METRICS: Final = signal_columns("wandb")
"""By the names of https://docs.wandb.ai/ref/system-metrics; those of one process's GPUs repeat
them."""
_TIMES: Final = ("_timestamp", "timestamp", "_runtime")


def _rows(text: TextFile, notes: RecordingNotes) -> Iterator[RecordingRow]:
    reader = _KeyReader(notes)
    for number, line in text.lines(notes):
        if not line.strip():
            continue
        try:
            said = json.loads(line)
        except (ValueError, RecursionError):
            notes.count("damaged or torn JSON", number, line.strip())
            continue
        if not isinstance(said, dict) or not (cells := reader.cells(said)):
            continue  # Other lines tell of the host, or of the training itself.
        time = _time(said, notes)
        if time is None:
            notes.count("line of GPU metrics without a time that can be read", number, line)
            continue
        for device, signals in cells.items():
            yield RecordingRow(time, device, *read_cells(signals, number, notes), text.name)


SYSTEM_METRICS_JSON: Final = RecordingFormat(
    "Weights & Biases JSON lines",
    lambda head: any(line.startswith("{") and bool(_KEY.search(line)) for line in head),
    _rows,
)
"""`_timestamp` or `_runtime` in seconds, GPUs in the keys; what is null was not read."""


def _time(said: Mapping[str, Any], notes: RecordingNotes) -> Nanoseconds | None:
    name = next((name for name in _TIMES if said.get(name) is not None), None)
    try:
        if name == "_runtime":
            notes.remark("has no '_timestamp': times are counted from 1970-01-01 on by '_runtime'")
            return round(float(said[name]) * NANOSECONDS_PER_SECOND)
        return None if name is None else parse_timestamp(str(said[name]))
    except (ValueError, TypeError, OverflowError):
        return None


class _KeyReader:
    """The device and column of each key, which is taken apart once."""

    def __init__(self, notes: RecordingNotes) -> None:
        self._notes = notes
        self._known: dict[str, tuple[str, CellColumn] | None] = {}

    def cells(self, said: Mapping[str, Any]) -> dict[str, list[tuple[CellColumn, Any]]]:
        found: dict[str, list[tuple[CellColumn, Any]]] = {}
        for key, value in said.items():
            if key not in self._known:
                self._known[key] = self._place(key)
            if (place := self._known[key]) is not None:
                device, column = place
                found.setdefault(device, []).append((column, value))
        return found

    def _place(self, key: str) -> tuple[str, CellColumn] | None:
        match = _KEY.fullmatch(key)
        held = None if match is None else _METRICS.get(match["metric"])
        if match is None or held is None:
            return None
        index, node = int(match["index"]), match["node"] or ""
        device = f"index:{index}{node}"
        self._notes.learn(device, RecordingDeviceFacts(index=None if node else index))
        return device, CellColumn(0, key, *held[:2])
