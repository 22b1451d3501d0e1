"""Flat records of JSON documents of any shape."""

import contextlib
import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from typing import Any, Final

from rightsizer.recordings.heading_words import (
    DEVICES,
    NODES,
    TELLING_WORDS,
    UUIDS,
    heading_of,
    is_time,
    place_of,
    time_places,
    words_of,
)
from rightsizer.recordings.table import missing_cell
from rightsizer.recordings.timestamps import is_timestamp

PROCESSES: Final = "gpu processes"
"""Key of the processes of a GPU, as JSON."""
_ENTITIES: Final = frozenset({"gpu", "gpus", "device", "devices", "card", "cards"})
"""Keys of lists with an object for each GPU."""
_OF_GPUS: Final = frozenset({"gpu", "gpus"})
_OF_PROCESSES: Final = frozenset({"process", "processes", "procs", "apps"})
_INDEX: Final = "gpu index"
_SHARED: Final = NODES | {"gpu name", "gpu model", "gpu product name"}
"""Keys beside such a list, or around records, that count for all of them."""
_MOST_GPUS: Final = 64
"""Values of a list that may be of one GPU each."""
_QUANTITY: Final = {"value", "unit"}
"""Keys of an object that is one value, as of amd-smi."""

Record = dict[str, str]


def records_of(document: Any) -> Iterator[Record]:
    """Yield the flat records of a document: one a GPU where GPUs are a list."""
    if isinstance(document, dict):
        yield from _of_object(document)
    elif isinstance(document, list):
        for element in document:
            yield from records_of(element)


def _of_object(document: dict[str, Any]) -> Iterator[Record]:
    plain = dict(_flat(document))
    lists = [*_lists(document)]
    is_timed = any(map(is_time, plain))
    shared = {
        key: cell
        for key, cell in plain.items()
        if is_time(key)
        or " ".join(words_of(key)) in _SHARED
        or (not is_timed and is_timestamp(cell))
    }
    entity = _list_of_gpus([key for key, _ in lists])
    if tables := [*_tables(document)]:
        yield from (shared | record for record in tables)
    elif entity is not None:
        numbers = count()
        for gpu in (gpu for key, gpus in lists if key == entity for gpu in gpus if gpu):
            yield shared | _of_gpu(gpu, next(numbers))
    elif lists and not time_places([*plain]):
        for _, objects in lists:
            yield from (shared | record for record in records_of(objects))
    else:
        yield plain


def _list_of_gpus(keys: Sequence[str]) -> str | None:
    """Return the key of the list of GPUs: one of the usual keys, else one about them."""
    entity_keys = [key for key in keys if key.lower() in _ENTITIES]
    entity_keys += [
        key
        for key in keys
        if not _OF_GPUS.isdisjoint(words := words_of(key)) and _OF_PROCESSES.isdisjoint(words)
    ]
    return entity_keys[0] if entity_keys else None


def _of_gpu(gpu: dict[str, Any], number: int) -> Record:
    """Return the record of a GPU in a list, by its place there if nothing else names it."""
    record = {
        key if is_time(key) or words_of(key)[:1] == ["gpu"] else f"gpu {key}": cell
        for key, cell in _flat(gpu)
    }
    names = [key for key, cell in record.items() if missing_cell(cell) is None]
    if place_of(names, DEVICES | UUIDS) is None:
        record[_INDEX] = str(number)
    if isinstance(gpu.get("processes"), list):
        record[PROCESSES] = json.dumps(gpu["processes"])
    return record


def _tables(document: Any) -> Iterator[Record]:
    """Yield the records of lists within a document that are columns of a table."""
    if isinstance(document, list):
        for element in document:
            yield from _tables(element)
    if not isinstance(document, dict):
        return
    columns = {key: cells for key, cells in document.items() if _is_row(cells)}
    if len({*map(len, columns.values())}) == 1 and time_places([*columns]) and len(columns) > 1:
        shared = {key: cell for key, cell in _flat(document) if key not in columns}
        for cells in zip(*columns.values(), strict=True):
            yield shared | dict(zip(columns, map(_text, cells), strict=True))
        return
    for element in document.values():
        yield from _tables(element)


def _is_row(cells: Any) -> bool:
    """Whether it is a list of values."""
    is_list = isinstance(cells, list) and bool(cells)
    return is_list and not any(isinstance(cell, dict | list) for cell in cells)


def _lists(document: Mapping[str, Any]) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Yield the lists of objects within an object, with their keys."""
    for key, value in document.items():
        if isinstance(value, dict):
            yield from _lists(value)
        elif isinstance(value, list) and (objects := [e for e in value if isinstance(e, dict)]):
            yield key, objects


def _flat(document: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the values of an object and its inner ones; outer keys count if they say what of.

    Docker and journald keep the objects that a program prints as texts.
    """
    for key, value in document.items():
        if isinstance(value, str) and value.startswith("{"):
            with contextlib.suppress(ValueError):
                yield from _flat(json.loads(value))
                continue
        if isinstance(value, dict) and value.keys() == _QUANTITY:
            yield f"{key} ({value['unit']})", _text(value["value"])
        elif isinstance(value, dict):
            is_telling = key.isdecimal() or not TELLING_WORDS.isdisjoint(words_of(key))
            before = f"{key} " if is_telling else ""
            for name, cell in _flat(value):
                # Used memory has the size of the memory beside it, as of amd-smi.
                is_whole = not any(map(str.isdigit, key)) and heading_of(name, is_of_host=True)
                yield (name if is_time(name) or is_whole else f"{before}{name}"), cell
        elif value is None or isinstance(value, str | int | float):
            yield key, _text(value)
        elif _is_row(value) and len(value) <= _MOST_GPUS:
            # A number for each GPU, in their order.
            yield from ((f"{key} {at}", _text(element)) for at, element in enumerate(value))


def _text(value: Any) -> str:
    return "null" if value is None else str(value)
