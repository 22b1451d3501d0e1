"""JSON records whose keys name GPU metrics in words, as loggers of scripts write them."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final

from rightsizer.model.signal import Signal
from rightsizer.telemetry.recordings.heading_words import (
    DEVICES,
    NODES,
    TELLING_WORDS,
    TIMES,
    NumberedRow,
    place_of,
    read_headings,
    time_places,
    words_of,
)
from rightsizer.telemetry.recordings.named_columns import NamedLayout
from rightsizer.telemetry.recordings.row import RecordingNotes, RecordingRow
from rightsizer.telemetry.recordings.text_file import RecordingFormat, TextFile, json_objects

_OBJECT: Final = re.compile(r"\{")
_SAMPLED: Final = 1000
"""Records by which the columns are known."""
_ENTITIES: Final = frozenset({"gpu", "gpus", "device", "devices", "card", "cards"})
"""Keys of lists with an object for each GPU."""
_INDEX: Final = "gpu index"
_SHARED: Final = TIMES | NODES | {"gpu name", "gpu model", "gpu product name"}
"""Keys beside such a list, or around records, that count for all of them."""

_Record = dict[str, str]


def _records(document: Any) -> Iterator[_Record]:
    """Yield the flat records of a document: one a GPU where GPUs are a list."""
    if isinstance(document, list):
        for each in document:
            yield from _records(each)
        return
    if not isinstance(document, dict):
        return
    plain, lists = dict(_flat(document)), [*_lists(document)]
    shared = {key: cell for key, cell in plain.items() if " ".join(words_of(key)) in _SHARED}
    entity = next((key for key, _ in lists if key.lower() in _ENTITIES), None)
    if entity is not None:
        for at, gpu in enumerate(gpu for key, each in lists if key == entity for gpu in each):
            own = {f"gpu {key}": cell for key, cell in _flat(gpu)}
            if place_of([*own], DEVICES) is None:
                own[_INDEX] = str(at)
            yield shared | own
    elif not time_places([*plain]):
        for _, each in lists:
            yield from (shared | record for record in _records(each))
    else:
        yield plain


def _lists(document: Mapping[str, Any]) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Yield the lists of objects within an object, with their keys."""
    for key, value in document.items():
        if isinstance(value, dict):
            yield from _lists(value)
        elif isinstance(value, list) and (found := [e for e in value if isinstance(e, dict)]):
            yield key, found


def _flat(document: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the values of an object and its inner ones; outer keys count if they say what of."""
    for key, value in document.items():
        if isinstance(value, dict):
            is_telling = key.isdecimal() or not TELLING_WORDS.isdisjoint(words_of(key))
            before = f"{key} " if is_telling else ""
            for name, cell in _flat(value):
                is_time = " ".join(words_of(name)) in TIMES
                yield (name if is_time else f"{before}{name}"), cell
        elif value is None or isinstance(value, str | int | float):
            yield key, "" if value is None else str(value)


def _recognizes(head: Sequence[str]) -> bool:
    text = "\n".join(head)
    for start in islice(_OBJECT.finditer(text), len(head)):
        try:
            document, _ = json.JSONDecoder().raw_decode(text, start.start())
            records = [*_records(document)]
        except (ValueError, RecursionError):
            continue  # Perhaps torn by the end of the head.
        for record in records:
            headings = [*record]
            found = read_headings(headings).values() if time_places(headings) else ()
            if any(each.signal is Signal.GPU_BUSY for each in found):
                return True
    return False


def _all_records(text: TextFile, notes: RecordingNotes) -> Iterator[tuple[int, _Record]]:
    for number, document in json_objects(text, _OBJECT, notes):
        try:
            records = [*_records(document)]
        except RecursionError:
            notes.count("objects within one another too deep", number)
            continue
        yield from ((number, record) for record in records)


def _rows(text: TextFile, notes: RecordingNotes) -> Iterator[RecordingRow]:
    first = islice(_all_records(text, RecordingNotes(text.name)), _SAMPLED)
    headings = [*dict.fromkeys(key for _, record in first for key in record)]
    times = {headings[at] for at in time_places(headings)}

    def rows(notes: RecordingNotes) -> Iterator[NumberedRow]:
        for number, record in _all_records(text, notes):
            if not times.isdisjoint(record):  # Others are events of another kind.
                yield number, [record.get(heading, "") for heading in headings]

    layout = NamedLayout(headings, rows, text, notes, is_csv=False)
    for number, cells in rows(notes):
        yield from layout.rows(number, cells)


JSON_RECORDS: Final = RecordingFormat("JSON with keys named for GPUs", _recognizes, _rows)
"""A record a line, a list of records, or a list of GPUs in each record."""
