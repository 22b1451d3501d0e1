"""Telegraf's `nvidia_smi` plugin: InfluxDB's line protocol and annotated CSV, and JSON lines."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from rightsizer.model.units import Nanoseconds
from rightsizer.telemetry.recordings.nvidia_smi_columns import SIGNAL_COLUMNS, exported_spellings
from rightsizer.telemetry.recordings.row import RecordingDeviceFacts, RecordingNotes, RecordingRow
from rightsizer.telemetry.recordings.table import CellColumn, read_cells
from rightsizer.telemetry.recordings.text_file import RecordingFormat, TextFile, split_csv_line
from rightsizer.telemetry.recordings.timestamps import parse_timestamp

_FIELDS: Final = {
    spelling: CellColumn(0, spelling, column.signal, column.unit)
    for name, column in sorted(SIGNAL_COLUMNS.items(), key=lambda item: item[1].rank)
    for flat in exported_spellings(name)
    for spelling in (flat, f"nvidia_smi_{flat}")
}
"""Of two with one signal, the less preferred first."""
_PART: Final = r"(?:\\.|[^\\, =])+"
_POINT: Final = re.compile(
    rf"(?P<tags>{_PART}(?:,{_PART}={_PART})+) "
    rf'(?P<fields>{_PART}=(?:"(?:\\.|[^"\\])*"|[^ ,"]+)(?:,{_PART}=(?:"(?:\\.|[^"\\])*"|[^ ,"]+))*)'
    r" (?P<time>\d+)"
)
_TAG: Final = re.compile(rf"({_PART})=({_PART})")
_FIELD: Final = re.compile(rf'({_PART})=("(?:\\.|[^"\\])*"|[^ ,"]+)')
_JSON: Final = re.compile(r'\{.*"fields"\s*:.*\}')
_LONG: Final = frozenset({"_time", "_value", "_field"})
_Point = tuple[Nanoseconds, Mapping[str, Any], Mapping[str, Any]]
"""Time, tags, and fields."""


def _rows(text: TextFile, notes: RecordingNotes) -> Iterator[RecordingRow]:
    headings: list[str] = []
    for number, line in text.lines(notes):
        # `telegraf --test` begins each point with an arrow.
        if not (plain := line.strip().removeprefix("> ")) or plain.startswith("#"):
            continue
        if _is_heading(plain):
            headings = split_csv_line(plain)
            continue
        try:
            points = list(_points(plain, headings))
        except (ValueError, KeyError, TypeError):
            notes.skip(number, line)
            continue
        for time, tags, fields in points:
            cells = [(_FIELDS[name], fields[name]) for name in _FIELDS if name in fields]
            if not cells:
                continue
            device = _device(tags, notes)
            if device is None:
                notes.count("point without the tags 'uuid' or 'index'", number, plain)
                continue
            # Rows of annotated CSV have one field each, with separate intervals.
            stream = text.name if not headings else f"{text.name} {next(iter(fields))}"
            yield RecordingRow(time, device, *read_cells(cells, number, notes), stream)


def _points(line: str, headings: list[str]) -> Iterator[_Point]:
    """Parse a line; raises `ValueError`, `KeyError` or `TypeError` for others."""
    if headings:
        record = dict(zip(headings, split_csv_line(line), strict=True))
        yield parse_timestamp(record["_time"]), record, {record["_field"]: record["_value"]}
    elif line.startswith("{"):
        record = json.loads(line)
        # Several with Telegraf's `use_batch_format`.
        for point in record.get("metrics", (record,)):
            yield parse_timestamp(str(point["timestamp"])), point["tags"], point["fields"]
    elif (found := _POINT.fullmatch(line)) is not None:
        tags = {name: re.sub(r"\\(.)", r"\1", value) for name, value in _TAG.findall(found["tags"])}
        fields = {name: value.rstrip("iu") for name, value in _FIELD.findall(found["fields"])}
        yield parse_timestamp(found["time"]), tags, fields
    else:
        raise ValueError(f"'{line}' is no point")


def _device(tags: Mapping[str, Any], notes: RecordingNotes) -> str | None:
    index, uuid = str(tags.get("index") or ""), str(tags.get("uuid") or "")
    host = str(tags.get("host") or "")
    device = uuid or (f"{host} GPU {index}" if index else "")
    if device and device not in notes.facts:
        notes.learn(
            device,
            RecordingDeviceFacts(
                index=int(index) if index.isdecimal() else None, name=str(tags.get("name") or "")
            ),
        )
    return device or None


def _is_heading(line: str) -> bool:
    return "_field" in line and _LONG.issubset(split_csv_line(line))


def _recognizes_line(line: str) -> bool:
    if _is_heading(line):
        return True
    point = _POINT.fullmatch(line.removeprefix("> "))
    names = _FIELD.findall(point["fields"]) if point else ()
    return any(name in _FIELDS for name, _ in names) or bool(
        _JSON.fullmatch(line) and any(f'"{name}"' in line for name in _FIELDS)
    )


INFLUX: Final = RecordingFormat(
    "points of Telegraf's nvidia_smi", lambda head: any(map(_recognizes_line, head)), _rows
)
"""Points with nvidia-smi query fields, spelled with underscores, and GPU tags."""
