"""Rows of GPUs by those of their processes, and lists of processes within a row."""

import contextlib
import json
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from itertools import groupby
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from rightsizer.model.values import Process, Signal, count_computing
from rightsizer.recordings.headed_table import HeadedTable, TimeColumns
from rightsizer.recordings.heading_words import PIDS, place_of
from rightsizer.recordings.nvidia_smi_columns import column_name
from rightsizer.recordings.row import SUMMED, RecordingNotes, RecordingRow, recorded_process
from rightsizer.recordings.table_layout import LayoutColumns, LayoutRow, TableLayout

_SHARED: Final = (Signal.GPU_BUSY, Signal.MEMORY_USED_BYTES)
"""Signals of which each process has a part."""
PARTS: Final = frozenset({"used_gpu_memory", "used_memory", "dmon.sm", "dmon.fb"})
"""Columns of nvidia-smi that are of a process, and never of its GPU."""
_KINDS: Final = frozenset({"type"})
_PROGRAMS: Final = frozenset({"command", "process name", "program"})

Poll = list[LayoutRow]
"""Rows of one GPU at one time, with their cells."""


class ProcessParts(Struct, frozen=True):
    """Signals of which each process has a part, by all rows of a table."""

    signals: AbstractSet[Signal]
    are_listed: bool
    """Whether rows are known to be of processes."""
    rank: int


def process_parts(
    table: HeadedTable, columns: LayoutColumns, times: TimeColumns, notes: RecordingNotes
) -> ProcessParts:
    """Return the parts that processes have.

    A signal that is always equal for all processes of a GPU is the GPU's, unless nvidia-smi has it
    for processes alone.
    """
    stated = {
        heading.signal
        for at, heading in columns.headings.items()
        if column_name(table.headings[at]) in PARTS
    }
    parts = {*stated}
    signals: set[Signal] = set()
    for poll in _polls(table, columns, times, RecordingNotes(table.text.name)):
        signals.update(*(row.values for row, _ in poll))
        parts.update(s for s in _SHARED if len({row.values.get(s) for row, _ in poll}) > 1)
    parts &= signals
    if parts - stated:
        notes.remark("its rows are of processes: the parts of a GPU at one time are added up")
    return ProcessParts(parts, bool(parts or stated), SUMMED if signals <= parts else 0)


def process_rows(
    table: HeadedTable,
    columns: LayoutColumns,
    parts: ProcessParts,
    times: TimeColumns,
    notes: RecordingNotes,
) -> Iterator[RecordingRow]:
    """Yield the rows of GPUs by those of their processes, whose parts are added up."""
    pid, kind, program = (place_of(table.headings, of) for of in (PIDS, _KINDS, _PROGRAMS))
    for poll in _polls(table, columns, times, notes):
        row = replace(_joined(poll, parts.signals), rank=parts.rank)
        if not parts.are_listed:
            yield row
            continue
        processes = tuple(_processes(poll, parts.signals, (pid, kind, program)))
        count = {Signal.PROCESS_COUNT: float(count_computing(processes))}
        yield replace(row, values={**row.values, **count}, processes=processes)


def _polls(
    table: HeadedTable, columns: LayoutColumns, times: TimeColumns, notes: RecordingNotes
) -> Iterator[Poll]:
    layout = TableLayout(table, columns, times.again(notes), notes)
    for _, at_once in groupby(layout.rows(table.rows(notes)), lambda pair: pair[0].time):
        by_device: dict[str, Poll] = {}
        for row, cells in at_once:
            by_device.setdefault(row.device, []).append((row, cells))
        yield from by_device.values()


def _joined(poll: Poll, parts: AbstractSet[Signal]) -> RecordingRow:
    """Return one row for those of a GPU's processes; memory only where all have theirs."""
    first, _ = poll[0]
    values = {signal: value for row, _ in reversed(poll) for signal, value in row.values.items()}
    for signal in parts:
        shares = [row.values[signal] for row, _ in poll if signal in row.values]
        if signal is Signal.GPU_BUSY:
            values[signal] = min(1.0, sum(shares))
        elif len(shares) == len(poll):
            values[signal] = sum(shares)
        else:
            values.pop(signal, None)
    missing = {signal: why for signal, why in first.missing.items() if signal not in values}
    return replace(first, values=values, missing=missing)


def _processes(
    poll: Poll, parts: AbstractSet[Signal], places: Sequence[int | None]
) -> Iterator[Process]:
    """Yield the processes of a poll; a dash in the place of a pid is of none."""
    for row, cells in poll:
        pid, letters, program = ("" if at is None else cells[at].strip() for at in places)
        if pid.isdecimal():
            shares = {signal: row.values.get(signal) for signal in parts}
            yield recorded_process(
                pid,
                shares.get(Signal.MEMORY_USED_BYTES),
                letters=letters,
                program=program,
                gpu_busy=shares.get(Signal.GPU_BUSY),
            )


def listed_processes(listed: str) -> tuple[Process, ...] | None:
    """Return the processes of a GPU by a list in JSON, as of gpustat; `None` without one."""
    decoded = None
    with contextlib.suppress(ValueError):
        decoded = json.loads(listed)
    if not isinstance(decoded, list):
        return None
    return tuple(
        recorded_process(
            str(process["pid"]),
            int(size) << 20 if (size := _mebibytes(process)).isdecimal() else None,
            letters=str(process.get("type", "")),
            program=str(process.get("command") or ""),
        )
        for process in decoded
        if isinstance(process, dict) and str(process.get("pid")).isdecimal()
    )


def _mebibytes(process: dict[str, object]) -> str:
    return str(process.get("gpu_memory_usage")).removesuffix("MiB").strip()
