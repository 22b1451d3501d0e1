"""Format of `dcgmi dmon`: columns of short field names, one line per entity."""

import re
from collections.abc import Iterator
from typing import Final

from rightsizer.model.dcgm_fields import DCGM_FIELDS
from rightsizer.recordings.nvidia_smi_columns import SignalColumn
from rightsizer.recordings.row import RecordingNotes, RecordingRow
from rightsizer.recordings.table import CellTable, signal_table, untorn
from rightsizer.recordings.text_file import RecordingFormat, TextFile
from rightsizer.recordings.timestamps import AssumedTimes, leading_time

_HEADING: Final = re.compile(r"#\s*Entity\s+(?P<fields>\S.*)")
_ENTITY: Final = re.compile(r"(?<!\S)(?P<kind>GPU|GPU-I|GPU-CI)\s+(?P<id>\d+)\s+(?P<cells>\S.*)")
_PARTS: Final = {"GPU-I": "gpu-instance:", "GPU-CI": "compute-instance:"}
_COLUMNS: Final = {
    field.short_name: SignalColumn(field.signal, field.unit, field.rank)
    for field in DCGM_FIELDS.values()
    if field.short_name is not None and field.signal is not None
}
_FIELDS: Final = "record with 'dcgmi dmon -e 203,252,155,1001,1002,1004,1005'"


def _rows(text: TextFile, notes: RecordingNotes) -> Iterator[RecordingRow]:
    """Yield a row per entity and poll; a repeated entity starts the next poll."""
    names: list[str] = []
    table = CellTable(())
    assumed = AssumedTimes(notes, "record with 'dcgmi dmon ... | ts %.s' to have them")
    for number, line in text.lines(notes):
        time, rest = leading_time(line, notes)
        heading = _HEADING.search(rest)
        if heading:
            names = heading["fields"].split()
            table = signal_table(names, _COLUMNS, f"{text.name}:{number}", _FIELDS)
            continue
        entity = _ENTITY.search(rest)
        if not names or entity is None:
            continue
        cells = entity["cells"].split()
        if len(cells) != len(names):
            notes.skip(number, line)
            continue
        part = _PARTS.get(entity["kind"])
        device = f"{part}{entity['id']}" if part else notes.gpu(int(entity["id"]))
        if part:
            notes.remark("which part of a GPU its MIG instances are is not in this file")
        values, missing = table.read(untorn(cells, line, number, notes), number, notes)
        if time is None:
            time = assumed.next(device)
        yield RecordingRow(time, device, values, missing, text.name)


DCGMI_DMON: Final = RecordingFormat(
    "dcgmi dmon output", lambda head: any(map(_HEADING.search, head)), _rows
)
"""Has no times of its own; a timestamp before each line, as `ts` writes it, is used."""
