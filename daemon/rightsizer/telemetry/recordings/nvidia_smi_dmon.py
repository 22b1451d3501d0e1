"""What `nvidia-smi dmon` prints: columns under a heading of two lines, one line a GPU."""

import re
from collections.abc import Iterator
from typing import Final

from rightsizer.model.errors import RecordingError
from rightsizer.model.units import NANOSECONDS_PER_SECOND, Nanoseconds
from rightsizer.telemetry.recordings.nvidia_smi_columns import signal_columns
from rightsizer.telemetry.recordings.row import RecordingDeviceFacts, RecordingNotes, RecordingRow
from rightsizer.telemetry.recordings.table import CellColumn, CellTable
from rightsizer.telemetry.recordings.text_file import RecordingFormat, TextFile
from rightsizer.telemetry.recordings.timestamps import AssumedTimes, DayTimes, parse_calendar

_HEADING: Final = re.compile(r"#\s*(?:date[\s,]+)?(?:time[\s,]+)?gpu(?=[\s,])", re.IGNORECASE)
_BETWEEN: Final = re.compile(r"[\s,]+")
_DATE: Final = re.compile(r"(\d{4})[-/]?(\d\d)[-/]?(\d\d)")
_TIME_OF_DAY: Final = re.compile(r"(\d\d):(\d\d):(\d\d)")
_REMEDY: Final = "record with 'nvidia-smi dmon -s pucm -o DT'"
# Its MB of memory are MiB of NVML. Its 'sm' is NVML's utilization: the share of time with a kernel.
_COLUMNS: Final = signal_columns("dmon")


def _rows(text: TextFile, notes: RecordingNotes) -> Iterator[RecordingRow]:
    names: list[str] = []
    table = CellTable(())
    assumed, days = AssumedTimes(notes, _REMEDY), DayTimes(notes, _REMEDY)
    for number, line in text.lines(notes):
        stripped = line.strip()
        if stripped.startswith("#"):
            if _HEADING.match(stripped):
                names, table = _layout(text, stripped, number)
            continue
        cells = _cells(stripped)
        if not names or not stripped:
            continue
        if len(cells) != len(names):
            notes.skip(number, line)
            continue
        index = cells[names.index("gpu")]
        if not index.isdecimal():
            notes.count("row without a GPU's index", number, stripped)
            continue
        device = f"index:{int(index)}"
        is_timed, named = "time" in names, dict(zip(names, cells, strict=True))
        time = _time(named, days) if is_timed else assumed.next(device)
        if time is None:
            notes.count("unreadable timestamp", number, stripped)
            continue
        notes.learn(device, RecordingDeviceFacts(index=int(index)))
        values, missing = table.read(cells, number, notes)
        yield RecordingRow(time, device, values, missing, text.name)


NVIDIA_SMI_DMON: Final = RecordingFormat(
    "nvidia-smi dmon output", lambda head: any(map(_HEADING.match, head)), _rows
)
"""With the date and time of `-o DT`, the time alone, or neither; as a table or as CSV."""


def _time(cells: dict[str, str], days: DayTimes) -> Nanoseconds | None:
    time = _TIME_OF_DAY.fullmatch(cells["time"])
    if time is None:
        return None
    if "date" not in cells:
        hours, minutes, seconds = map(int, time.groups())
        return days.of(((hours * 60 + minutes) * 60 + seconds) * NANOSECONDS_PER_SECOND)
    date = _DATE.fullmatch(cells["date"])
    try:
        return date and parse_calendar(f"{'-'.join(date.groups())} {time[0]}")
    except ValueError:
        return None


def _cells(line: str) -> list[str]:
    return [cell for cell in _BETWEEN.split(line) if cell]


def _layout(text: TextFile, heading: str, line: int) -> tuple[list[str], CellTable]:
    names = [name.lower() for name in _cells(heading.lstrip("# "))]
    if "pid" in names:
        raise RecordingError(
            f"{text.name}:{line}: this is of 'nvidia-smi pmon', which tells of processes and not "
            f"of GPUs; {_REMEDY}"
        )
    known = ((at, name) for at, name in enumerate(names) if name in _COLUMNS)
    columns = [CellColumn(at, name, *_COLUMNS[name][:2]) for at, name in known]
    if not columns:
        raise RecordingError(
            f"{text.name}:{line}: none of the columns {', '.join(names)} says how busy a GPU is; "
            f"{_REMEDY}"
        )
    return names, CellTable(columns)
