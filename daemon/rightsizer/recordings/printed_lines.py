"""What programs print, dated or not: dmon, pmon, dcgmi dmon, gpustat, nvidia-smi's table."""

import contextlib
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from rightsizer.model.dcgm_fields import DCGM_FIELDS
from rightsizer.model.reading import Process, count_computing
from rightsizer.model.signal import Signal
from rightsizer.model.units import Nanoseconds
from rightsizer.recordings.heading_words import heading_of
from rightsizer.recordings.nvidia_smi_columns import (
    IDENTITY,
    SignalColumn,
    column_name,
    signal_columns,
)
from rightsizer.recordings.row import (
    ProcessRowBuilder,
    RecordingNotes,
    RecordingRow,
    recorded_process,
)
from rightsizer.recordings.table import CellTable, signal_table, untorn
from rightsizer.recordings.text_file import RecordingFormat, TextFile, delimiter_of, split_csv_line
from rightsizer.recordings.timestamps import (
    AssumedTimes,
    DayTimes,
    leading_time,
    page_time,
    parse_time_of_day,
    parse_timestamp,
)
from rightsizer.telemetry.device_description import DeviceDescription

_HEADING: Final = re.compile(
    r"(?:.*#\s*(?=Entity\s+\S)|#\s*(?=(?:date[\s,]+)?(?:time[\s,]+)?gpu[\s,]))(?P<names>.*)",
    re.IGNORECASE,
)
_WORD: Final = re.compile(r"[^\s,]+")
_ENTITY: Final = re.compile(r"(?<!\S)(?P<kind>GPU|GPU-I|GPU-CI)\s+(?P<id>\d+)(?=\s+\S)")
_PARTS: Final = {"GPU-I": "gpu-instance:", "GPU-CI": "compute-instance:"}
# dmon's MB of memory are MiB of NVML, its 'sm' NVML's utilization: the share of time with a kernel.
_COUNTERS: Final = {
    **signal_columns("dmon"),
    **{
        field.short_name: SignalColumn(field.signal, field.unit, field.rank)
        for field in DCGM_FIELDS.values()
        if field.short_name is not None and field.signal is not None
    },
}
_REMEDIES: Final = {
    "Entity": "record with 'dcgmi dmon -e 203,252,155,1001,1002 | ts %.s'",
    "pid": "record with 'nvidia-smi pmon -o DT'",
}
"""By the names that only one of the programs has."""
_REMEDY: Final = "record with 'nvidia-smi dmon -s pucm -o DT'"
_TABLE: Final = signal_columns("table")
_TABLE_BEGINS: Final = re.compile(r"\| NVIDIA-SMI \S+ .*(?:Driver|KMD) Version")
_TABLE_DATE: Final = re.compile(r"[A-Z][a-z]{2} [A-Z][a-z]{2} +\d{1,2} \d\d:\d\d:\d\d \d{4}")
_TABLE_GPU: Final = re.compile(
    r"\| +(?P<index>\d+) +(?P<name>\S.*?)(?: +(?:On|Off|N/A|WDDM|TCC|MCDM))? *"
    r"\| *(?P<bus>[\dA-F]{4,8}:[\dA-F]{2}:[\dA-F]{2}\.\d) ",
    re.IGNORECASE,
)
_TABLE_PROCESS: Final = re.compile(
    r"\| +(?P<index>\d+) +(?:(?:N/A|\d+) +(?:N/A|\d+) +)?(?P<pid>\d+) +(?P<kind>[CGM+]+) +"
    r"(?P<name>\S.*?) +(?P<size>\d+|N/A)(?:MiB)? +\|"
)
_TABLE_CELLS: Final = (
    r"(?:.*?\b(?P<Temp>\d+C)\b)?(?:.*?(?P<draw>\S+) */ *(?P<Cap>\S+)$)?",
    r"(?:.*?(?P<used>\S+) */ *(?P<Memory>\S+)$)?",
    r"(?P<busy>\S*)",
)
"""Of the second line of a GPU: state, memory, use."""
_ERROR: Final = "ERR!"
_INSTANCES: Final = "| MIG devices:"
DIVIDED: Final = (
    "has GPUs split into MIG instances, of which {} gives no utilization: they are not read; "
    "record with 'rightsizer record'"
)
_COLOR: Final = re.compile(r"\x1b[\[(][\d;]*[A-Za-z]")
_GPUSTAT_DATE: Final = re.compile(
    r"\b[A-Z][a-z]{2} (?:[A-Z][a-z]{2} +\d{1,2} \d\d:\d\d:\d\d \d{4}\b"
    r"|\d{1,2} [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d(?: [AP]M\b)?)"
)
_GPUSTAT: Final = re.compile(
    r"\[(?P<index>\d+)\] (?P<name>\S.*?) *\| *(?P<Temp>\d+|\?+)\D{0,2}C, (?P<use>[^|]*)"
    r"\| *(?P<used>\d+|\?+) / *(?P<Memory>\d+|\?+) Mi?B"
)
_SHARE: Final = re.compile(r"(?:^|,)\s*(\d+|\?+) ?%")
"""Of the fan, if printed, then of time; those of encoder and decoder have letters."""
_POWER: Final = re.compile(r"(?P<draw>\d+|\?+)(?: / *(?P<Cap>\d+|\?+))? W")


class PrintedRows:
    """Rows of what is printed of devices, by names of columns; untimed, a poll is a second."""

    def __init__(
        self, notes: RecordingNotes, columns: Mapping[str, SignalColumn], remedy: str
    ) -> None:
        self._notes = notes
        self._columns = columns
        self._remedy = remedy
        self._tables: dict[tuple[str, ...], CellTable] = {}
        self.times = AssumedTimes(notes, remedy)

    def row(
        self, number: int, device: str, cells: Mapping[str, str], time: Nanoseconds | None
    ) -> RecordingRow:
        """Return a row; raises `RecordingError` where no column has a signal."""
        names = tuple(cells)
        if (table := self._tables.get(names)) is None:
            where = f"{self._notes.file}:{number}"
            table = signal_table(names, self._columns, where, self._remedy)
            self._tables[names] = table
        read = table.read([*cells.values()], number, self._notes, device)
        at = self.times.next(device) if time is None else time
        return RecordingRow(at, device, *read, self._notes.file)


def _counter_names(line: str) -> list[str]:
    """Return the names of a heading; empty for another line."""
    heading = _HEADING.match(line)
    names = _WORD.findall(heading["names"]) if heading else []
    return names if names[:1] == ["Entity"] else [name.lower() for name in names]


def _first_names(head: Sequence[str]) -> list[str]:
    """Return the names of the first heading; empty without one."""
    headings = (_counter_names(leading_time(line, RecordingNotes(""))[1]) for line in head)
    return next(filter(None, headings), [])


def _counter_rows(text: TextFile, notes: RecordingNotes) -> Iterator[RecordingRow]:
    """Yield a row per GPU, entity or process and poll; a repeated one starts the next poll."""
    names: list[str] = []
    first = _first_names(text.head)
    remedy = next((remedy for name, remedy in _REMEDIES.items() if name in first), _REMEDY)
    printed = PrintedRows(notes, _COUNTERS, remedy)
    processes = ProcessRowBuilder(text.name)
    days = DayTimes(notes, remedy)
    for number, line in text.lines(notes):
        time, rest = leading_time(line, notes)
        if heading := _counter_names(rest):
            names = heading
            continue
        of_entity = bool(names) and names[0] == "Entity"
        entity = _ENTITY.search(rest) if of_entity else None
        cells = _WORD.findall(rest if entity is None else f"{entity['id']}{rest[entity.end() :]}")
        if not names or not cells or rest.startswith("#") or (of_entity and entity is None):
            continue
        if len(cells) < len(names) or (len(cells) > len(names) and names[-1] != "command"):
            notes.skip(number, line)
            continue
        cell = dict(zip(names, untorn(cells, line, number, notes), strict=False))
        index = cell.pop("Entity") if entity else cell.pop("gpu")
        if part := _PARTS.get(entity["kind"] if entity else ""):
            notes.remark("which part of a GPU its MIG instances are is not in this file")
        elif not index.isdecimal():
            notes.count("row without a GPU's index", number, rest)
            continue
        device = f"{part}{index}" if part else notes.gpu(int(index))
        if time is None and "time" in cell:
            with contextlib.suppress(ValueError):
                time = _time(cell, days)
            if time is None:
                notes.count("unreadable timestamp", number, rest)
                continue
        if "pid" in cell:
            time = printed.times.next(f"{device} {cell['pid']}") if time is None else time
            yield from processes.add(time, device, _process(cell, processes))
        else:
            yield printed.row(number, device, cell, time)
    yield from processes.finish()


def _time(cell: Mapping[str, str], days: DayTimes) -> Nanoseconds:
    if "date" in cell:
        return parse_timestamp(f"{cell['date']} {cell['time']}")
    return days.of(parse_time_of_day(cell["time"]))


def _process(cell: Mapping[str, str], rows: ProcessRowBuilder) -> Process | None:
    """Parse the process of a `pmon` line, in which a dash means unused."""
    share = cell.get("sm", "")
    rows.tells_shares = rows.tells_shares or share.isdecimal()
    if not cell["pid"].isdecimal():
        return None
    return recorded_process(
        cell["pid"],
        cell.get("fb", ""),
        letters=cell.get("type", ""),
        program=cell.get("command", ""),
        gpu_busy=int(share) / 100 if share.isdecimal() else None,
    )


def _are_counters(head: Sequence[str]) -> bool:
    return bool(_first_names(head))


COUNTER_LINES: Final = RecordingFormat(
    "output of nvidia-smi dmon, pmon or dcgmi dmon", _are_counters, _counter_rows
)
"""As tables or CSV; with date and time from `-o DT`, a time before each line, or none."""


class _Table:
    """Table being read: rows of its GPUs, then their processes."""

    def __init__(self, time: Nanoseconds | None, notes: RecordingNotes) -> None:
        self._time = time
        self._notes = notes
        self.devices: dict[str, RecordingRow] = {}
        self._processes: dict[str, list[Process]] = {}
        self._device = ""

    def take(self, line: str, number: int, printed: PrintedRows) -> None:
        """Take a line; others than of GPUs and processes are of no use."""
        if device := self._device:
            parts = [part.strip() for part in line.split("|")[1:]]
            if len(parts) >= len(_TABLE_CELLS):
                matches = map(re.match, _TABLE_CELLS, parts)
                cells = {
                    k: v for match in matches if match for k, v in match.groupdict("N/A").items()
                }
                self.devices[device] = printed.row(number, device, cells, self._time)
                if _ERROR in parts[0]:
                    self._notes.fault(device, _ERROR, number)
            self._device = ""
        elif match := _TABLE_GPU.match(line):
            self._device = self._notes.gpu(int(match["index"]))
            facts = DeviceDescription(name=match["name"], pci_bus_id=match["bus"])
            self._notes.learn(self._device, facts)
        elif match := _TABLE_PROCESS.match(line):
            process = recorded_process(
                match["pid"], match["size"], letters=match["kind"], program=match["name"]
            )
            device = self._notes.gpu(int(match["index"]))
            self._processes.setdefault(device, []).append(process)
        elif line.startswith(_INSTANCES):
            self._notes.remark(DIVIDED.format("nvidia-smi's table"))

    def rows(self) -> Iterator[RecordingRow]:
        """Yield its rows; in a container no process is listed, though there may be some."""
        for device, row in self.devices.items():
            listed = tuple(self._processes.get(device, ()))
            count = {Signal.PROCESS_COUNT: float(count_computing(listed))} if listed else {}
            yield row._replace(values={**row.values, **count}, processes=listed or None)


def _table_rows(text: TextFile, notes: RecordingNotes) -> Iterator[RecordingRow]:
    printed = PrintedRows(notes, _TABLE, "record with --query-gpu=timestamp,index,...")
    time: Nanoseconds | None = None
    table = _Table(None, notes)
    before = 0
    number = 0
    line = ""
    for number, line in text.lines(notes):
        if (dated := page_time(line)) is not None:
            time = dated
        elif _TABLE_DATE.match(line):
            notes.count("unreadable timestamp", number, line.strip())
        elif _TABLE_BEGINS.match(line):
            yield from table.rows()
            before = len(table.devices)
            table = _Table(time, notes)
            time = None
        else:
            table.take(line, number, printed)
    if len(table.devices) < before:
        notes.count("torn last table", number, line.strip())
    yield from table.rows()


NVIDIA_SMI_TABLE: Final = RecordingFormat(
    "nvidia-smi's table", lambda head: any(map(_TABLE_BEGINS.match, head)), _table_rows
)
"""GPUs by index, printed without a query in a loop; the date above a table is its time."""


def _gpustat_rows(text: TextFile, notes: RecordingNotes) -> Iterator[RecordingRow]:
    remedy = "print the header too, or record with 'gpustat --json'"
    printed = PrintedRows(notes, _TABLE, remedy)
    time: Nanoseconds | None = None
    for number, written in text.lines(notes):
        line = _COLOR.sub("", written)
        if (match := _GPUSTAT.match(line)) is None:
            dated = _GPUSTAT_DATE.search(line)
            time = page_time(dated[0] if dated else line) or time
            continue
        device = notes.gpu(int(match["index"]))
        notes.learn(device, DeviceDescription(name=match["name"]))
        power = _POWER.search(match["use"])
        cells = match.groupdict("") | (power.groupdict("") if power else {})
        cells["busy"] = (_SHARE.findall(match["use"]) or [""])[-1]
        named_cells = {name: cell.strip("?") for name, cell in cells.items()}
        yield printed.row(number, device, named_cells, time)


GPUSTAT: Final = RecordingFormat(
    "gpustat's lines",
    lambda head: any(_GPUSTAT.match(_COLOR.sub("", line)) for line in head),
    _gpustat_rows,
)
"""GPUs by index, one page after the other; the date in the header above them is their time."""


def _compute_app_rows(text: TextFile, notes: RecordingNotes) -> Iterator[RecordingRow]:
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
    "nvidia-smi log of processes", lambda head: _is_process_heading(head[0]), _compute_app_rows
)
"""Processes on each GPU, beside a log of the GPUs."""
