"""Format of `dcgmi dmon`: columns of short field names, one line per entity."""

import re
from collections.abc import Iterator, Sequence
from operator import itemgetter
from typing import Final

from rightsizer.model.dcgm_fields import DCGM_FIELDS
from rightsizer.model.device import BY_INDEX
from rightsizer.model.errors import RecordingError
from rightsizer.telemetry.recordings.row import RecordingNotes, RecordingRow
from rightsizer.telemetry.recordings.table import CellColumn, CellTable, untorn
from rightsizer.telemetry.recordings.text_file import RecordingFormat, TextFile
from rightsizer.telemetry.recordings.timestamps import AssumedTimes, leading_time

_HEADING: Final = re.compile(r"#\s*Entity\s+(?P<fields>\S.*)")
_ENTITY: Final = re.compile(r"(?<!\S)(?P<kind>GPU|GPU-I|GPU-CI)\s+(?P<id>\d+)\s+(?P<cells>\S.*)")
_PARTS: Final = {"GPU-I": "gpu-instance:", "GPU-CI": "compute-instance:"}
_BY_SHORT_NAME: Final = {
    field.short_name: field
    for field in DCGM_FIELDS.values()
    if field.short_name is not None and field.signal is not None
}


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
            table = _table(text, names, number)
            continue
        entity = _ENTITY.search(rest)
        if not names or entity is None:
            continue
        cells = entity["cells"].split()
        if len(cells) != len(names):
            notes.skip(number, line)
            continue
        device = f"{_PARTS.get(entity['kind'], BY_INDEX)}{entity['id']}"
        if entity["kind"] == "GPU":
            notes.gpu(int(entity["id"]))
        else:
            notes.remark("which part of a GPU its MIG instances are is not in this file")
        values, missing = table.read(untorn(cells, line, number, notes), number, notes)
        if time is None:
            time = assumed.next(device)
        yield RecordingRow(time, device, values, missing, text.name)


DCGMI_DMON: Final = RecordingFormat(
    "dcgmi dmon output", lambda head: any(map(_HEADING.search, head)), _rows
)
"""Has no times of its own; a timestamp before each line, as `ts` writes it, is used."""


def _table(text: TextFile, names: Sequence[str], line: int) -> CellTable:
    found = [
        (field.rank, CellColumn(at, name, field.signal, field.unit))
        for at, name in enumerate(names)
        if (field := _BY_SHORT_NAME.get(name)) is not None and field.signal is not None
    ]
    if not found:
        raise RecordingError(
            f"{text.name}:{line}: none of the fields {', '.join(names)} says how busy a GPU is; "
            "record with 'dcgmi dmon -e 203,252,155,1001,1002,1004,1005'"
        )
    return CellTable(column for _, column in sorted(found, key=itemgetter(0)))
