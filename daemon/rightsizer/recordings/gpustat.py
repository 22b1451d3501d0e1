"""Lines that `gpustat` prints, one page after the other (`-i`, or a loop)."""

import re
from collections.abc import Iterator
from typing import Final

from rightsizer.model.units import Nanoseconds
from rightsizer.recordings.nvidia_smi_table import TABLE_COLUMNS
from rightsizer.recordings.row import RecordingNotes, RecordingRow
from rightsizer.recordings.text_file import RecordingFormat, TextFile
from rightsizer.recordings.timestamps import AssumedTimes, page_time
from rightsizer.telemetry.device_description import DeviceDescription

_COLOR: Final = re.compile(r"\x1b[\[(][\d;]*[A-Za-z]")
_DATE: Final = re.compile(
    r"\b[A-Z][a-z]{2} (?:[A-Z][a-z]{2} +\d{1,2} \d\d:\d\d:\d\d \d{4}\b"
    r"|\d{1,2} [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d(?: [AP]M\b)?)"
)
_GPU: Final = re.compile(
    r"\[(?P<index>\d+)\] (?P<name>\S.*?) *\| *(?P<temperature>\d+|\?+)\D{0,2}C, (?P<use>[^|]*)"
    r"\| *(?P<used>\d+|\?+) / *(?P<total>\d+|\?+) Mi?B"
)
_SHARE: Final = re.compile(r"(?:^|,)\s*(\d+|\?+) ?%")
"""Of the fan, if printed, then of time; those of encoder and decoder have letters."""
_POWER: Final = re.compile(r"(\d+|\?+)(?: / *(\d+|\?+))? W")


def _rows(text: TextFile, notes: RecordingNotes) -> Iterator[RecordingRow]:
    times = AssumedTimes(notes, "print the header too, or record with 'gpustat --json'")
    time: Nanoseconds | None = None
    for number, written in text.lines(notes):
        line = _COLOR.sub("", written)
        if (match := _GPU.match(line)) is not None:
            device = notes.gpu(int(match["index"]))
            notes.learn(device, DeviceDescription(name=match["name"]))
            values = TABLE_COLUMNS.read(_cells(match), number, notes)
            at = times.next(device) if time is None else time
            yield RecordingRow(at, device, *values, text.name)
        else:
            dated = _DATE.search(line)
            time = page_time(dated[0] if dated else line) or time


def _cells(found: re.Match[str]) -> tuple[str, ...]:
    """Return the cells of a GPU in the order of the columns."""
    shares = _SHARE.findall(found["use"])
    power = _POWER.search(found["use"])
    cells = (
        found["temperature"],
        *(power.groups("") if power else ("", "")),
        found["used"],
        found["total"],
        shares[-1] if shares else "",
    )
    return tuple("" if cell.startswith("?") else cell for cell in cells)


GPUSTAT: Final = RecordingFormat(
    "gpustat's lines", lambda head: any(_GPU.match(_COLOR.sub("", line)) for line in head), _rows
)
"""GPUs by index; the date in the header above them is their time."""
