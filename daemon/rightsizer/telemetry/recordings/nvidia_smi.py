"""CSV logs of `nvidia-smi --query-gpu=... --format=csv[,nounits] -l N`."""

import contextlib
import math
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Final, TypeAlias

from rightsizer.model.device import BY_INDEX
from rightsizer.model.errors import RecordingError
from rightsizer.model.units import Nanoseconds
from rightsizer.telemetry.recordings.nvidia_smi_columns import (
    FACTS,
    IDENTITY,
    REASON_BITS,
    SIGNAL_COLUMNS,
    column_name,
    is_query_column,
)
from rightsizer.telemetry.recordings.row import (
    ProcessRowBuilder,
    RecordingDeviceFacts,
    RecordingNotes,
    RecordingRow,
    mig_profile,
    recorded_process,
)
from rightsizer.telemetry.recordings.table import (
    CellColumn,
    CellTable,
    cells_at,
    missing_cell,
    read_clock_events,
    sampled_rows,
    untorn,
)
from rightsizer.telemetry.recordings.text_file import (
    RecordingFormat,
    TextFile,
    delimiter_of,
    split_csv_line,
)
from rightsizer.telemetry.recordings.timestamps import page_time, parse_timestamp
from rightsizer.telemetry.recordings.unnamed_devices import device_order

_DeviceOf: TypeAlias = Callable[[Sequence[str], Nanoseconds, int], str]
_DATA_START: Final = re.compile(r"\d{4}/\d\d/\d\d \d\d:\d\d:\d\d(\.\d+)?\s*,")
_MIB: Final = 2.0**20
_REMEDY: Final = (
    "record with --query-gpu=timestamp,index,uuid,name,utilization.gpu,memory.used,memory.total,"
    "power.draw --format=csv"
)
_FIELDS: Final = "--fields timestamp,index,utilization.gpu,memory.used,power.draw"


def _by_cell(at: int, name: str, index_at: int | None) -> _DeviceOf:
    keys: dict[str, str] = {}

    def device(cells: Sequence[str], _: Nanoseconds, __: int) -> str:
        cell = cells[at]
        if (key := keys.get(cell)) is not None:
            return key
        if missing_cell(cell) and index_at is not None:
            return f"{BY_INDEX}{cells[index_at].strip()}"
        plain = cell.strip()
        key = keys[cell] = f"{BY_INDEX}{plain}" if name == "index" else plain
        return key

    return device


def _rows(text: TextFile, notes: RecordingNotes) -> Iterator[RecordingRow]:
    heading = _heading_of(text.head)
    if heading is None:
        raise RecordingError(
            f"{text.name}:1: this nvidia-smi log has no heading; name its columns in their order, "
            f"like {_FIELDS}, or record without 'noheader'"
        )
    delimiter = delimiter_of(heading)
    layout: _QueryLogLayout | None = None
    of_page: Nanoseconds | None = None
    for number, line in text.lines(notes):
        cells = split_csv_line(line, delimiter)
        is_row = layout is not None and layout.width == len(cells)
        if layout is not None and is_row:
            with contextlib.suppress(ValueError):
                time = layout.time_of(cells, of_page)
                yield layout.row(untorn(cells, line, number, notes), time, number, notes)
                continue
        if _is_heading(line):
            # Appended logs may have other columns.
            if layout is None or tuple(cell.strip() for cell in cells) != layout.headings:
                layout = _QueryLogLayout(text, line, number, notes, of_page)
        elif (dated := page_time(line)) is not None:
            of_page = dated
        elif layout is not None and is_row:
            notes.count("unreadable timestamp", number, layout.time_text(cells))
        elif layout is not None:
            notes.skip(number, line)


NVIDIA_SMI_LOG: Final = RecordingFormat(
    "nvidia-smi CSV log", lambda head: bool(_heading_of(head) or _DATA_START.match(head[0])), _rows
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
    names = {column_name(heading) for heading in split_csv_line(line, delimiter_of(line))}
    return {"timestamp", "pid"} <= names and not names.isdisjoint(IDENTITY)


NVIDIA_SMI_PROCESSES: Final = RecordingFormat(
    "nvidia-smi log of processes", lambda head: _is_process_heading(head[0]), _process_rows
)
"""Processes on each GPU, beside a log of the GPUs."""


class _QueryLogLayout:
    """Columns of one heading, prepared for reading rows."""

    def __init__(
        self,
        text: TextFile,
        heading: str,
        line: int,
        notes: RecordingNotes,
        of_page: Nanoseconds | None,
    ) -> None:
        delimiter = delimiter_of(heading)
        headings = split_csv_line(heading, delimiter)
        self.width = len(headings)
        self._text = text
        self.headings = tuple(heading.strip() for heading in headings)
        self._at = {column_name(heading): at for at, heading in enumerate(headings)}
        is_named = not self._at.keys().isdisjoint(IDENTITY)
        if "timestamp" not in self._at and (of_page is None or not is_named):
            raise RecordingError(
                f"{text.name}:{line}: there is no timestamp among the columns "
                f"{', '.join(self.headings)}; {_REMEDY}"
            )
        self._timestamp = self._at.get("timestamp")
        known = self._at.keys() & SIGNAL_COLUMNS
        ranked = sorted(known, key=lambda name: (SIGNAL_COLUMNS[name].rank, self._at[name]))
        self._table = CellTable(
            CellColumn(self._at[name], name, *SIGNAL_COLUMNS[name][:2]) for name in ranked
        )
        self._reasons = [
            (at, REASON_BITS[name]) for name, at in self._at.items() if name in REASON_BITS
        ]
        if not known and not self._reasons:
            raise RecordingError(
                f"{text.name}:{line}: none of the columns {', '.join(self.headings)} "
                f"tells how busy a GPU is; {_REMEDY}"
            )
        self._has_mask = "clocks_event_reasons.active" in self._at
        self._facts_at = [at for name, at in self._at.items() if name in FACTS]
        self._facts_of = cells_at(self._facts_at)
        self._facts: dict[str, tuple[str, ...]] = {}
        self._device = self._identifier(line, delimiter, notes)

    def time_text(self, cells: Sequence[str]) -> str:
        """Return the time of a row as written; empty if it is above its page."""
        return "" if self._timestamp is None else cells[self._timestamp].strip()

    def time_of(self, cells: Sequence[str], of_page: Nanoseconds | None = None) -> Nanoseconds:
        """Return the time of a row; raise `ValueError` for a heading, or a date that is none."""
        is_heading = of_page is not None and cells[0].strip() == self.headings[0]
        if self._timestamp is not None or of_page is None or is_heading:
            return parse_timestamp(self.time_text(cells))
        return of_page

    def row(
        self, cells: Sequence[str], time: Nanoseconds, line: int, notes: RecordingNotes
    ) -> RecordingRow:
        device = self._device(cells, time, line)
        facts = self._facts_of(cells)
        if self._facts.get(device) != facts:
            self._facts[device] = facts
            notes.learn(device, self._learned(device, cells))
        values, missing = self._table.read(cells, line, notes)
        if self._reasons and not self._has_mask:
            read_clock_events({bit: cells[at] for at, bit in self._reasons}, values, missing)
        return RecordingRow(time, device, values, missing, self._text.name)

    def _identifier(self, heading: int, delimiter: str, notes: RecordingNotes) -> _DeviceOf:
        """Return what identifies a row's device: a column, else its position in the poll."""
        for name in IDENTITY:
            if name in self._at:
                return _by_cell(self._at[name], name, self._at.get("index"))
        count_at = self._at.get("count")
        sample = sampled_rows(
            self._text,
            self._table,
            self.time_of,
            width=self.width,
            delimiter=delimiter,
            behind=heading,
            facts=self._facts_at,
        )
        order = device_order(sample, self._text.stated, notes, has_count=count_at is not None)

        def device(cells: Sequence[str], time: Nanoseconds, line: int) -> str:
            count = None if count_at is None else _number(cells[count_at])
            return order(time, None if count is None else int(count), line)

        return device

    def _learned(self, device: str, cells: Sequence[str]) -> RecordingDeviceFacts:
        def cell(name: str) -> str | None:
            at = self._at.get(name)
            return None if at is None or missing_cell(cells[at]) else cells[at].strip()

        def number(*names: str) -> float | None:
            found = (_number(cell(name)) for name in names)
            return min((each for each in found if each is not None), default=None)

        def whole_number(*names: str) -> int | None:
            return None if (found := number(*names)) is None else int(found)

        generation = whole_number("pcie.link.gen.max")
        if generation is None:
            generation = whole_number("pcie.link.gen.gpumax", "pcie.link.gen.hostmax")
        whole = None
        free, used = number("memory.free"), number("memory.used")
        if free is not None and used is not None and "memory.total" not in self._at:
            whole = (free + used + (number("memory.reserved") or 0.0)) * _MIB
        name = cell("name")
        return RecordingDeviceFacts(
            index=whole_number("index"),
            name=name,
            pci_bus_id=cell("pci.bus_id"),
            power_limit_watts=number("power.default_limit"),
            memory_total_bytes=whole,
            pcie_generation_maximum=generation,
            pcie_width_maximum=whole_number("pcie.link.width.max"),
            mig_profile=mig_profile(name) if device.startswith("MIG-") else None,
        )


def _number(cell: str | None) -> float | None:
    try:
        number = float("nan" if cell is None else cell.split()[0])
    except (ValueError, IndexError):
        return None
    return number if math.isfinite(number) else None


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
