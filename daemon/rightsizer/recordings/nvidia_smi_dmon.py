"""Format of `nvidia-smi dmon` and `pmon`: headed columns, a line per GPU or process."""

import contextlib
import re
from collections.abc import Iterator
from typing import Final

from rightsizer.model.reading import Process
from rightsizer.model.units import Nanoseconds
from rightsizer.recordings.nvidia_smi_columns import signal_columns
from rightsizer.recordings.row import (
    ProcessRowBuilder,
    RecordingNotes,
    RecordingRow,
    recorded_process,
)
from rightsizer.recordings.table import CellTable, signal_table, untorn
from rightsizer.recordings.text_file import RecordingFormat, TextFile
from rightsizer.recordings.timestamps import (
    AssumedTimes,
    DayTimes,
    parse_time_of_day,
    parse_timestamp,
)

_HEADING: Final = re.compile(r"#\s*(?:date[\s,]+)?(?:time[\s,]+)?gpu(?=[\s,])", re.IGNORECASE)
_BETWEEN: Final = re.compile(r"[\s,]+")
_REMEDY: Final = "record with 'nvidia-smi dmon -s pucm -o DT'"
# Its MB of memory are MiB of NVML. Its 'sm' is NVML's utilization: the share of time with a kernel.
_COLUMNS: Final = signal_columns("dmon")


def _rows(text: TextFile, notes: RecordingNotes) -> Iterator[RecordingRow]:
    names: list[str] = []
    table = CellTable(())
    processes = ProcessRowBuilder(text.name)
    assumed = AssumedTimes(notes, _REMEDY)
    days = DayTimes(notes, _REMEDY)
    for number, line in text.lines(notes):
        stripped = line.strip()
        if stripped.startswith("#"):
            if _HEADING.match(stripped):
                names, table = _layout(text, stripped, number)
            continue
        cells = _cells(stripped)
        if not names or not stripped:
            continue
        if len(cells) < len(names) or (len(cells) > len(names) and names[-1] != "command"):
            notes.skip(number, line)
            continue
        named = dict(zip(names, cells, strict=False))
        index = named["gpu"]
        if not index.isdecimal():
            notes.count("row without a GPU's index", number, stripped)
            continue
        device = notes.gpu(int(index))
        is_timed = "time" in names
        time = _time(named, days) if is_timed else assumed.next(f"{device} {named.get('pid')}")
        if time is None:
            notes.count("unreadable timestamp", number, stripped)
            continue
        if "pid" in named:
            yield from processes.add(time, device, _process(named, processes))
            continue
        values, missing = table.read(untorn(cells, line, number, notes), number, notes)
        yield RecordingRow(time, device, values, missing, text.name)
    yield from processes.finish()


NVIDIA_SMI_DMON: Final = RecordingFormat(
    "nvidia-smi dmon or pmon output", lambda head: any(map(_HEADING.match, head)), _rows
)
"""With date and time from `-o DT`, time only, or neither; as a table or CSV."""


def _process(named: dict[str, str], rows: ProcessRowBuilder) -> Process | None:
    """Parse the process of a `pmon` line, in which a dash means unused."""
    share = named.get("sm", "")
    rows.tells_shares = rows.tells_shares or share.isdecimal()
    if not named["pid"].isdecimal():
        return None
    return recorded_process(
        named["pid"],
        named.get("fb", ""),
        letters=named.get("type", ""),
        program=named.get("command", ""),
        gpu_busy=int(share) / 100 if share.isdecimal() else None,
    )


def _time(cells: dict[str, str], days: DayTimes) -> Nanoseconds | None:
    with contextlib.suppress(ValueError):
        if "date" in cells:
            return parse_timestamp(f"{cells['date']} {cells['time']}")
        return days.of(parse_time_of_day(cells["time"]))
    return None


def _cells(line: str) -> list[str]:
    return [cell for cell in _BETWEEN.split(line) if cell]


def _layout(text: TextFile, heading: str, line: int) -> tuple[list[str], CellTable]:
    names = [name.lower() for name in _cells(heading.lstrip("# "))]
    if "pid" in names:
        return names, CellTable(())
    return names, signal_table(names, _COLUMNS, f"{text.name}:{line}", _REMEDY)
