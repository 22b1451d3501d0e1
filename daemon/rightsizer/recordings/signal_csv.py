"""CSV with our own signal names as headings: `timestamp,device,<signals>`."""

from collections.abc import Iterator, Sequence
from typing import Final

from rightsizer.io.near import near_words
from rightsizer.model.errors import RecordingError
from rightsizer.model.signal import Signal
from rightsizer.recordings.headed_table import TimeColumns, csv_table, heading_line
from rightsizer.recordings.heading_words import Heading
from rightsizer.recordings.row import RecordingNotes, RecordingRow
from rightsizer.recordings.table import columns_text
from rightsizer.recordings.table_layout import LayoutColumns, layout_rows
from rightsizer.recordings.text_file import RecordingFormat, TextFile
from rightsizer.recordings.timestamps import parse_timestamp
from rightsizer.recordings.unnamed_devices import NOTHING_STATED

_TIME: Final = "timestamp"
_DEVICE: Final = "device"
_WORKLOAD: Final = "workload"
_DEVICE_REMEDY: Final = (
    "add one (the GPU's uuid, or any name that stays the same), or say which GPU it is of with "
    "--device 0, of several how many with --devices N"
)
_SIGNAL_NAMES: Final = {str(signal) for signal in Signal}


def _recognizes(head: Sequence[str]) -> bool:
    names = {text.lower() for text in heading_line(head)[1]}
    # Others name power in watts like our share of the limit.
    return bool(names & _SIGNAL_NAMES - {Signal.POWER}) or {_TIME, _DEVICE} <= names


def _rows(text: TextFile, notes: RecordingNotes) -> Iterator[RecordingRow]:
    table = csv_table(text)
    names = [heading.lower() for heading in table.headings]
    for needed, remedy in (
        (_TIME, "add one: seconds since the epoch, or like 2024-01-31T12:34:56Z"),
        (_DEVICE, _DEVICE_REMEDY),
    ):
        if needed not in names and not (needed == _DEVICE and text.stated != NOTHING_STATED):
            found = columns_text(names)
            raise RecordingError(
                f"{text.name}:1: there is no column '{needed}' among {found}; {remedy}"
            )
    signals = [(at, name) for at, name in enumerate(names) if name in _SIGNAL_NAMES]
    if not signals:
        raise RecordingError(
            f"{text.name}:1: none of the columns {columns_text(names)} is a signal; "
            f"the signals are {', '.join(Signal)}"
        )
    for name in names:
        if name not in (*_SIGNAL_NAMES, _TIME, _DEVICE, _WORKLOAD):
            near = near_words(name, _SIGNAL_NAMES)
            hint = f"; did you mean '{near[0]}'?" if near else ""
            notes.remark(f"column '{name}' is not a signal and is left out{hint}")
    columns = LayoutColumns(
        {at: Heading(Signal(name), Signal(name).unit) for at, name in signals},
        uuid=names.index(_DEVICE) if _DEVICE in names else None,
        workload=names.index(_WORKLOAD) if _WORKLOAD in names else None,
    )
    times = TimeColumns(table.headings, notes, (names.index(_TIME), parse_timestamp))
    return layout_rows(table, columns, times, notes)


SIGNAL_CSV: Final = RecordingFormat("signal CSV", _recognizes, _rows)
"""Base units, times in any epoch unit or ISO 8601, empty cells for missing values."""
