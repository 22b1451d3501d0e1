"""Format of `gpustat --json`: a sequence of answers."""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from rightsizer.model.device import BY_INDEX
from rightsizer.model.reading import Process
from rightsizer.model.units import Nanoseconds
from rightsizer.telemetry.recordings.nvidia_smi_columns import SIGNAL_COLUMNS
from rightsizer.telemetry.recordings.row import (
    RecordingDeviceFacts,
    RecordingNotes,
    RecordingRow,
    recorded_process,
)
from rightsizer.telemetry.recordings.table import CellColumn, read_cells
from rightsizer.telemetry.recordings.text_file import RecordingFormat, TextFile, json_objects
from rightsizer.telemetry.recordings.timestamps import parse_timestamp

_ANSWER: Final = re.compile(r'\{\s*"(?:hostname|driver_version|query_time)"\s*:')
_START: Final = re.compile(r'\s*\[?\s*\{.*"query_time"\s*:.*"gpus"\s*:', re.DOTALL)
_RENAMED: Final = {
    "utilization.encoder": "utilization.enc",
    "utilization.decoder": "utilization.dec",
}
_COLUMNS: Final = {
    spelling: CellColumn(0, spelling, column.signal, column.unit)
    for name, column in SIGNAL_COLUMNS.items()
    for spelling in (name, _RENAMED.get(name, name))
}


def _rows(text: TextFile, notes: RecordingNotes) -> Iterator[RecordingRow]:
    for number, answer in json_objects(text, _ANSWER, notes):
        try:
            time = parse_timestamp(str(answer.get("query_time")))
        except ValueError:
            notes.count("unreadable timestamp", number, str(answer.get("query_time")))
            continue
        gpus = answer.get("gpus")
        for gpu in gpus if isinstance(gpus, list) else ():
            if isinstance(gpu, dict) and (gpu.get("uuid") or gpu.get("index") is not None):
                yield _row(gpu, time, number, notes)
            else:
                notes.count("GPU without a uuid and an index", number)


GPUSTAT_JSON: Final = RecordingFormat(
    "gpustat JSON", lambda head: bool(_START.match("\n".join(head))), _rows
)
"""Names and units of nvidia-smi's queries, and a time for each answer."""


def _row(
    gpu: Mapping[str, Any], time: Nanoseconds, number: int, notes: RecordingNotes
) -> RecordingRow:
    index = gpu.get("index")
    device = str(gpu.get("uuid") or f"{BY_INDEX}{index}")
    notes.learn(
        device,
        RecordingDeviceFacts(
            index=index if isinstance(index, int) else None, name=str(gpu.get("name") or "")
        ),
    )
    cells = ((_COLUMNS[name], cell) for name, cell in gpu.items() if name in _COLUMNS)
    values, missing = read_cells(cells, number, notes)
    processes = _processes(gpu.get("processes"))
    return RecordingRow(time, device, values, missing, notes.file, processes=processes)


def _processes(listed: Any) -> tuple[Process, ...] | None:
    """Return the compute processes; pids of a graphics or MPS server identify no job."""
    if not isinstance(listed, list):
        return None
    found = (each for each in listed if isinstance(each, dict) and isinstance(each.get("pid"), int))
    return tuple(
        recorded_process(
            str(each["pid"]),
            str(each.get("gpu_memory_usage")),
            program=str(each.get("command") or ""),
        )
        for each in found
    )
