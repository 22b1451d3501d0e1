"""CSV logs of `nvidia-smi --query-gpu=... --format=csv[,nounits] -l N`."""

import contextlib
from collections.abc import Iterator, Sequence
from typing import Final

from rightsizer.model.errors import RecordingError
from rightsizer.model.signal import Signal
from rightsizer.model.units import Nanoseconds
from rightsizer.recordings.headed_table import (
    QUERY,
    HeadedTable,
    NumberedRow,
    TimeColumns,
    timed_lines,
)
from rightsizer.recordings.heading_words import (
    DEVICES,
    NODES,
    Heading,
    heading_of,
    place_of,
    time_places,
)
from rightsizer.recordings.nvidia_smi_columns import (
    FACTS,
    IDENTITY,
    REASON_BITS,
    SIGNAL_COLUMNS,
    column_name,
    is_query_column,
)
from rightsizer.recordings.row import (
    ProcessRowBuilder,
    RecordingNotes,
    RecordingRow,
    recorded_process,
)
from rightsizer.recordings.table import (
    missing_cell,
    number_in,
    read_clock_events,
    untorn,
)
from rightsizer.recordings.table_layout import LayoutColumns, TableLayout
from rightsizer.recordings.text_file import (
    RecordingFormat,
    TextFile,
    delimiter_of,
    split_csv_line,
)
from rightsizer.recordings.timestamps import leading_time, parse_timestamp
from rightsizer.telemetry.device_description import DeviceDescription, mig_profile

_MIB: Final = 2.0**20


def _rows(text: TextFile, notes: RecordingNotes) -> Iterator[RecordingRow]:
    heading = _heading_of(text.head)
    if heading is None:
        return
    delimiter = delimiter_of(heading)
    layout: _QueryLogLayout | None = None
    for number, line in _lines(text, heading, notes):
        cells = split_csv_line(line, delimiter)
        is_row = layout is not None and layout.width == len(cells)
        if layout is not None and is_row:
            with contextlib.suppress(ValueError):
                time = layout.times.parse(cells)
                yield from layout.rows(untorn(cells, line, number, notes), time, number)
                continue
        if _is_heading(line):
            # Appended logs may have other columns.
            if layout is None or tuple(cell.strip() for cell in cells) != layout.headings:
                layout = _QueryLogLayout(text, heading, line, number, notes)
        elif layout is not None and is_row:
            notes.count("unreadable timestamp", number, layout.times.text(cells))
        elif layout is not None:
            notes.skip(number, line)


def _lines(text: TextFile, heading: str, notes: RecordingNotes) -> Iterator[tuple[int, str]]:
    """Yield lines with a time, which may be before them."""
    cells = split_csv_line(leading_time(heading, notes)[1], delimiter_of(heading))
    names = [*map(column_name, cells)]
    if time_places(names):
        return text.lines(notes)
    return timed_lines(text, names, delimiter_of(heading), _is_heading, notes)


NVIDIA_SMI_LOG: Final = RecordingFormat(
    "nvidia-smi CSV log", lambda head: _heading_of(head) is not None, _rows
)
"""Any columns in any order, units in heading or cell, several devices per poll."""


def _process_rows(text: TextFile, notes: RecordingNotes) -> Iterator[RecordingRow]:
    """Yield rows of `--query-compute-apps`, which has a line for each process."""
    names: list[str] = []
    rows = ProcessRowBuilder(text.name)
    for number, line in text.lines(notes):
        cells = [cell.strip() for cell in split_csv_line(line, delimiter_of(line))]
        if _is_process_heading(line):
            names = [column_name(cell) for cell in cells]
            continue
        cell = dict(zip(names, cells, strict=False))
        device = next((cell[name] for name in IDENTITY if cell.get(name)), "")
        if len(cells) != len(names) or not device or not cell["pid"].isdecimal():
            notes.skip(number, line)
            continue
        try:
            time = parse_timestamp(cell["timestamp"])
        except ValueError:
            notes.count("unreadable timestamp", number, cell["timestamp"])
            continue
        process = recorded_process(
            cell["pid"],
            cell.get("used_gpu_memory") or cell.get("used_memory") or "",
            program=cell.get("process_name") or cell.get("name") or "",
        )
        yield from rows.add(time, device, process)
    yield from rows.finish()


def _is_process_heading(line: str) -> bool:
    headings = split_csv_line(line, delimiter_of(line))
    names = {column_name(heading) for heading in headings}
    # Scripts write the GPU's load beside each process.
    has_load = any(
        heading and heading.signal is Signal.GPU_BUSY for heading in map(heading_of, headings)
    )
    return {"timestamp", "pid"} <= names and not names.isdisjoint(IDENTITY) and not has_load


NVIDIA_SMI_PROCESSES: Final = RecordingFormat(
    "nvidia-smi log of processes", lambda head: _is_process_heading(head[0]), _process_rows
)
"""Processes on each GPU, beside a log of the GPUs."""


class _QueryLogLayout:
    """Columns of one heading, prepared for reading rows."""

    def __init__(
        self,
        text: TextFile,
        first: str,
        heading: str,
        line: int,
        notes: RecordingNotes,
    ) -> None:
        self._first = first
        self._delimiter = delimiter_of(heading)
        cells = split_csv_line(heading, self._delimiter)
        self._text = text
        self._line = line
        self.width = len(cells)
        self.headings = tuple(cell.strip() for cell in cells)
        at = self._at = {column_name(cell): place for place, cell in enumerate(cells)}
        identity = [name for name in IDENTITY if name in at]
        known = at.keys() & SIGNAL_COLUMNS
        self._reasons = [(at[name], bit) for name, bit in REASON_BITS.items() if name in at]
        if not known and not self._reasons:
            raise RecordingError(
                f"{text.name}:{line}: none of the columns {', '.join(self.headings)} "
                f"tells how busy a GPU is; {QUERY}"
            )
        self._has_mask = "clocks_event_reasons.active" in at
        ranked = sorted(known, key=lambda name: (SIGNAL_COLUMNS[name].rank, at[name]))
        columns = LayoutColumns(
            {at[name]: Heading(*SIGNAL_COLUMNS[name][:2]) for name in ranked},
            uuid=at[identity[0]] if identity and identity[0] != "index" else None,
            device=at.get("index", place_of(cells, DEVICES)),
            node=place_of(cells, NODES),
            count=at.get("count"),
            facts=tuple(place for name, place in at.items() if name in FACTS),
            learn=self._learned,
        )
        stated = (at["timestamp"], parse_timestamp) if "timestamp" in at else None
        table = HeadedTable(text, self.headings, self._rows_below)
        self.times = TimeColumns(self.headings, notes, stated, table.cells)
        self._layout = TableLayout(table, columns, self.times, notes)

    def _rows_below(self, notes: RecordingNotes) -> Iterator[NumberedRow]:
        """Yield the rows below the heading, also those of other headings as wide."""
        for number, line in _lines(self._text, self._first, notes):
            cells = split_csv_line(line, self._delimiter)
            if number > self._line and len(cells) == self.width:
                yield number, cells

    def rows(self, cells: Sequence[str], time: Nanoseconds, line: int) -> Iterator[RecordingRow]:
        """Yield the reading of a row."""
        if not self._reasons or self._has_mask:
            yield from self._layout.read(line, cells, time)
            return
        states: dict[int, str] = {bit: cells[at] for at, bit in self._reasons}
        for row in self._layout.read(line, cells, time):
            values = {**row.values}
            missing = {**row.missing}
            read_clock_events(states, values, missing)
            yield row._replace(values=values, missing=missing)

    def _learned(self, device: str, cells: Sequence[str]) -> DeviceDescription:
        def cell(name: str) -> str | None:
            at = self._at.get(name)
            return None if at is None or missing_cell(cells[at]) else cells[at].strip()

        def number(*names: str) -> float | None:
            found = (number_in(cell(name) or "") for name in names)
            return min((each for each in found if each is not None), default=None)

        def whole_number(*names: str) -> int | None:
            return None if (found := number(*names)) is None else int(found)

        generation = whole_number("pcie.link.gen.max")
        if generation is None:
            generation = whole_number("pcie.link.gen.gpumax", "pcie.link.gen.hostmax")
        whole = None
        free = number("memory.free")
        used = number("memory.used")
        if free is not None and used is not None and "memory.total" not in self._at:
            whole = (free + used + (number("memory.reserved") or 0.0)) * _MIB
        name = cell("name")
        return DeviceDescription(
            index=whole_number("index"),
            name=name,
            pci_bus_id=cell("pci.bus_id"),
            power_limit_watts=number("power.default_limit"),
            memory_total_bytes=whole,
            pcie_generation_maximum=generation,
            pcie_width_maximum=whole_number("pcie.link.width.max"),
            mig_profile=mig_profile(name) if device.startswith("MIG-") else None,
        )


def _heading_of(head: Sequence[str]) -> str | None:
    return next((line for line in head if _is_heading(line)), None)


def _is_heading(line: str) -> bool:
    headings = split_csv_line(line, delimiter_of(line))
    names = [column_name(heading) for heading in headings]
    if "device" in names:
        return False
    return any(is_query_column(heading) for heading in headings) or (
        "timestamp" in names and any(name in FACTS or name in IDENTITY for name in names)
    )
