"""What programs print, dated or not: nvidia-smi, its dmon and pmon, dcgmi dmon, gpustat."""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final

from rightsizer.model.dcgm_fields import DCGM_FIELDS
from rightsizer.model.table import table_rows
from rightsizer.model.values import Nanoseconds, RecordingError
from rightsizer.recordings.headed_table import DMON_QUERY, PMON_QUERY
from rightsizer.recordings.heading_words import DMON
from rightsizer.recordings.json_records import PROCESSES, Record
from rightsizer.recordings.nvidia_smi_columns import REASON_BITS, SIGNAL_COLUMNS, signal_columns
from rightsizer.recordings.records import records_table_rows
from rightsizer.recordings.row import RecordingNotes
from rightsizer.recordings.table import untorn
from rightsizer.recordings.text_file import RecordingFormat, TextFile
from rightsizer.recordings.timestamps import AssumedTimes, leading_time, page_time

_HEADING: Final = re.compile(
    r"(?:.*#\s*(?=Entity\s+\S)|#\s*(?=(?:date[\s,]+)?(?:time[\s,]+)?gpu[\s,]))(?P<names>.*)",
    re.IGNORECASE,
)
_ENTITY: Final = re.compile(r"(?<!\S)(?P<kind>GPU|GPU-I|GPU-CI)\s+(?P<id>\d+)(?=\s+\S)")
_PARTS: Final = {"GPU-I": "gpu-instance:", "GPU-CI": "compute-instance:"}
# dmon's MB of memory are MiB of NVML, its 'sm' NVML's utilization: the share of time with a kernel.
_COUNTERS: Final = {
    *signal_columns("dmon"),
    *(field.short_name for field in DCGM_FIELDS.values() if field.signal is not None),
}
_OF_PROCESSES: Final = ("gpu", "pid", "type", "sm", "fb", "command", "date", "time")
"""Columns of pmon that are read."""
_REMEDIES: Final = {
    "Entity": "record with 'dcgmi dmon -e 203,252,155,1001,1002 | ts %.s'",
    "pid": PMON_QUERY,
}
"""By the names that only one of the programs has."""


def _words(line: str) -> list[str]:
    return line.replace(",", " ").split()


def _counter_names(line: str) -> list[str]:
    """Return the names of a heading; empty for another line."""
    heading = _HEADING.match(line)
    names = _words(heading["names"]) if heading else []
    return names if names[:1] == ["Entity"] else [name.lower() for name in names]


def _first_names(head: Sequence[str]) -> list[str]:
    """Return the names of the first heading; empty without one."""
    headings = (_counter_names(leading_time(line, RecordingNotes(""))[1]) for line in head)
    return next(filter(None, headings), [])


def _counter_records(text: TextFile, notes: RecordingNotes) -> Iterator[tuple[int, Record]]:
    """Yield a record per GPU, entity or process and poll; a repeated one starts the next poll."""
    names: list[str] = []
    columns: list[tuple[str, int]] = []
    first = _first_names(text.head)
    remedy = next((remedy for name, remedy in _REMEDIES.items() if name in first), DMON_QUERY)
    times = AssumedTimes(notes, remedy)
    for number, line in text.lines(notes):
        time, rest = leading_time(line, notes)
        if "#" in rest and (heading := _counter_names(rest)):
            names = heading
            read = _OF_PROCESSES if "pid" in names else names
            columns = [(DMON.get(name, name), at) for at, name in enumerate(names) if name in read]
            continue
        entity = _ENTITY.search(rest) if "Entity" in names else None
        cells = _words(rest if entity is None else f"{entity['id']}{rest[entity.end() :]}")
        if not names or not cells or rest.startswith("#") or (not entity and "Entity" in names):
            continue
        if len(cells) < len(names) or (len(cells) > len(names) and names[-1] != "command"):
            notes.skip(number, line)
            continue
        if _COUNTERS.isdisjoint(names):
            raise RecordingError(
                f"{text.name}:{number}: none of the columns {', '.join(names[1:])} says how busy a "
                f"GPU is; {remedy}"
            )
        whole = untorn(cells, line, number, notes)
        record = {name: whole[at] for name, at in columns}
        if not _names_device(record, entity, notes):
            notes.count("row without a GPU's index", number, rest)
        elif "time" in record and time is None:
            yield number, record
        else:
            key = f"{record.get('uuid', record.get('gpu'))} {record.get('pid')}"
            yield number, times.dated(record, time, key)


def _names_device(record: Record, entity: re.Match[str] | None, notes: RecordingNotes) -> bool:
    """Whether a record is of a GPU or a part of one, whose name it gets."""
    if "Entity" in record:
        record["gpu"] = record.pop("Entity")
    if part := _PARTS.get(entity["kind"] if entity else ""):
        notes.remark("which part of a GPU its MIG instances are is not in this file")
        record["uuid"] = f"{part}{record.pop('gpu')}"
        return True
    return record.get("gpu", "").isdecimal()


COUNTER_LINES: Final = RecordingFormat(
    "output of nvidia-smi dmon, pmon or dcgmi dmon",
    lambda head: bool(_first_names(head)),
    records_table_rows(_counter_records, None),
)
"""As tables or CSV; with date and time from `-o DT`, a time before each line, or none."""

_COLOR: Final = re.compile(r"\x1b[\[(][\d;]*[A-Za-z]")
_DATE: Final = re.compile(
    r"\b[A-Z][a-z]{2} (?:[A-Z][a-z]{2} +\d{1,2} \d\d:\d\d:\d\d \d{4}\b"
    r"|\d{1,2} [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d(?: [AP]M\b)?)"
)
_TABLE_BEGINS: Final = re.compile(r"\| NVIDIA-SMI \S+ .*(?:Driver|KMD) Version")
_REPORT_BEGINS: Final = re.compile(r"=+NVSMI LOG=+")
_DIVIDED: Final = re.compile(r"\| MIG devices:|    MIG Device$")
_DIVIDED_REMARK: Final = (
    "has GPUs split into MIG instances, of which nvidia-smi gives no utilization here: they are "
    "not read; record with 'rightsizer record'"
)
_ERROR: Final = "ERR!"
_TABLE_COLUMNS: Final = {
    "bus": "pci.bus_id",
    "temperature": "temperature.gpu",
    "draw": "power.draw",
    "cap": "power.limit",
    "used": "memory.used",
    "total": "memory.total",
    "busy": "utilization.gpu",
}
"""Columns of a query by the names of cells here; others are named alike."""
_TABLE_LINES: Final = (
    re.compile(
        r"\| +(?P<index>\d+) +(?P<name>\S.*?)(?: +(?:On|Off|N/A|WDDM|TCC|MCDM))? *"
        r"\| *(?P<bus>[\dA-F]{4,8}:[\dA-F]{2}:[\dA-F]{2}\.\d) ",
        re.IGNORECASE,
    ),
    re.compile(
        r"\| +(?P<index>\d+) +(?:(?:N/A|\d+) +(?:N/A|\d+) +)?(?P<pid>\d+) +(?P<type>[CGM+]+) +"
        r"(?P<command>\S.*?) +(?P<gpu_memory_usage>\d+|N/A)(?:MiB)? +\|"
    ),
    re.compile(
        r"\|(?:[^|]*?\b(?P<temperature>\d+C)\b)?(?:[^|]*?(?P<draw>[^\s|]+)"
        r" */ *(?P<cap>[^\s|]+) *(?=\|))?"
        r"[^|]*\|(?:[^|]*?(?P<used>[^\s|]+) */ *(?P<total>[^\s|]+) *(?=\|))?"
        r"[^|]*\| *(?P<busy>[^\s|]*)[^|]*\|"
    ),
)
"""Of a GPU's first line, of a process, and of a GPU's second line: state, memory, use."""
_GPUSTAT_LINES: Final = (
    re.compile(
        r"\[(?P<index>\d+)\] (?P<name>\S.*?) *\| *(?P<temperature>\d+|\?+)\D{0,2}C, "
        r"(?: *(?:\d+|\?+) ?%,)? *(?P<busy>\d+|\?+) ?%"
        r"(?:[^|]*?, *(?P<draw>\d+|\?+)(?: / *(?P<cap>\d+|\?+))? W)?[^|]*"
        r"\| *(?P<used>\d+|\?+) / *(?P<total>\d+|\?+) Mi?B"
    ),
)
"""The fan may stand before the use."""
_REPORT_LINE: Final = re.compile(r"(?P<indent> *)(?P<name>\S.*?)(?:\s+:(?:\s(?P<value>.*))?)?")
_NO_WORD: Final = re.compile(r"\W+")
_BUS_ID: Final = re.compile(r"[0-9A-F]{4,8}:[0-9A-F]{2}:[0-9A-F]{2}\.\d", re.IGNORECASE)
_INDENT: Final = 4
_REPORT_COLUMNS: Final = {
    **{row["key"]: row["column"] for row in table_rows(__file__, "report_columns.csv")},
    **dict(zip(REASON_BITS, REASON_BITS, strict=True)),
}
"""Columns of a query by section and name."""
_OTHERS: Final = {"mig_device", "accounted_processes", "module_power_readings"}
"""Sections whose values are not of the whole GPU."""
_REASONS: Final = re.compile(r"clocks_(?:event|throttle)_reasons/")


def _cells_by(patterns: Sequence[re.Pattern[str]], missing: str, line: str) -> Record:
    """Return the cells of a line that one of the patterns matches, by columns of a query."""
    match = next(filter(None, (pattern.match(line) for pattern in patterns)), None)
    cells = match.groupdict(missing) if match else {}
    return {_TABLE_COLUMNS.get(name, name): cell.strip("?") for name, cell in cells.items()}


class _Report:
    """Reads the lines of a report, whose indentation gives their sections."""

    def __init__(self) -> None:
        self._sections: list[str] = []

    def cells(self, line: str) -> Record:
        """Return the column and value of a line, or the address that begins a GPU."""
        if (match := _REPORT_LINE.fullmatch(line.rstrip())) is None:
            return {}
        if line.startswith("GPU ") and (bus_id := _BUS_ID.search(line)):
            self._sections = ["gpu"]
            return {"pci.bus_id": bus_id[0]}
        name = _NO_WORD.sub("_", match["name"].lower())
        value = (match["value"] or "").strip()
        del self._sections[max(1, len(match["indent"]) // _INDENT) :]
        if match["value"] is None:
            self._sections.append(name)
        section = "process" if "processes" in self._sections else "".join(self._sections[-1:])
        column = _REPORT_COLUMNS.get(_REASONS.sub("clocks_event_reasons.", f"{section}/{name}"))
        if column is None or not _OTHERS.isdisjoint(self._sections):
            return {}
        return {column: value.removesuffix("x") if "width" in column else value}


Page = dict[str, tuple[int, Record]]
"""Records of the GPUs of a node at one time, by name, with their lines."""
Cells = Callable[[str], Record]
"""Reads the cells of a line; those of a GPU's first line, or of a process, begin with its name."""


def _page_records(
    begins: re.Pattern[str],
    reader: Callable[[], Cells],
    remedy: str,
    text: TextFile,
    notes: RecordingNotes,
) -> Iterator[tuple[int, Record]]:
    """Yield a record per GPU and page, with the date above or within it.

    A date, or a line like `begins` that is of no GPU, or a GPU again, begins one.
    """
    times = AssumedTimes(notes, remedy)
    cells_of = reader()
    time: Nanoseconds | None = None
    unread: tuple[int, str] | None = None
    page: Page = {}
    processes: dict[str, list[Record]] = {}
    current: Record = {}
    gpu = ""
    before = 0
    number = 0
    for number, written in text.lines(notes):
        line = _COLOR.sub("", written)
        dated = _DATE.search(line)
        page_begins = page_time(dated[0] if dated else line)
        cells = {} if page_begins else cells_of(line)
        named = cells.get("index") or cells.get("pci.bus_id")
        gpu = named or gpu
        is_again = named in page and "pid" not in cells
        if page and (dated or page_begins or is_again or (not named and begins.match(line))):
            yield from _dated(page, processes, time, unread, times)
            before = _count_whole(page)
            page = {}
            processes = {}
            time = None
            unread = None
        if dated or page_begins:
            time = page_begins
            unread = (number, dated[0]) if dated and time is None else None
        if "pid" in cells:
            current = cells
            processes.setdefault(gpu, []).append(cells)
        elif named:
            current = cells
            page[gpu] = number, cells
        for column, cell in cells.items():
            current.setdefault(column, cell)
        if _ERROR in line and "index" in current:
            notes.fault(notes.gpu(int(current["index"])), _ERROR, number)
        if _DIVIDED.match(line):
            notes.remark(_DIVIDED_REMARK)
    if _count_whole(page) < before:
        notes.count("torn last page", number)
    yield from _dated(page, processes, time, unread, times)


def _has_signals(record: Record) -> bool:
    return not SIGNAL_COLUMNS.keys().isdisjoint(record)


def _count_whole(page: Page) -> int:
    """Return how many GPUs have more than their first line."""
    return sum(_has_signals(record) for _, record in page.values())


def _dated(
    page: Page,
    processes: Mapping[str, Sequence[Record]],
    time: Nanoseconds | None,
    unread: tuple[int, str] | None,
    times: AssumedTimes,
) -> Iterator[tuple[int, Record]]:
    """Yield the records of a page; in a container it lists no process, though there may be some.

    `unread` is the line and text of a date that is none, to be reported there.
    """
    for gpu, (number, record) in page.items():
        if listed := processes.get(gpu):
            record[PROCESSES] = json.dumps(listed)
        if not _has_signals(record):
            continue
        if unread is not None:
            yield unread[0], {"timestamp": unread[1], **record}
        else:
            yield number, times.dated(record, time, gpu)


def _pages(
    name: str, begins: re.Pattern[str], reader: Callable[[], Cells], remedy: str
) -> RecordingFormat:
    return RecordingFormat(
        name,
        lambda head: any(begins.match(_COLOR.sub("", line)) for line in head),
        records_table_rows(partial(_page_records, begins, reader, remedy)),
    )


NVIDIA_SMI_TABLE: Final = _pages(
    "nvidia-smi's table",
    _TABLE_BEGINS,
    lambda: partial(_cells_by, _TABLE_LINES, "N/A"),
    "record with --query-gpu=timestamp,index,...",
)
"""GPUs by index, printed without a query in a loop; the date above a table is its time."""
NVIDIA_SMI_REPORT: Final = _pages(
    "nvidia-smi -q", _REPORT_BEGINS, lambda: _Report().cells, "keep its line 'Timestamp'"
)
"""What nvidia-smi reports of each GPU, with the time of the report."""
GPUSTAT: Final = _pages(
    "gpustat's lines",
    _GPUSTAT_LINES[0],
    lambda: partial(_cells_by, _GPUSTAT_LINES, ""),
    "print the header too, or record with 'gpustat --json'",
)
"""GPUs by index, one page after the other; the date in the header above them is their time."""
