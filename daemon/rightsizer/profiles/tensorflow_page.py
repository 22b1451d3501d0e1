"""Reader of TensorFlow's profiler pages: steps and their input, from JSON data tables."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from rightsizer.model.profile import HostStep, Profile, ProfileFormat
from rightsizer.model.values import ProfileError
from rightsizer.profiles.limits import ReadLimits
from rightsizer.profiles.reader import ProfileReader, Unpacked
from rightsizer.profiles.tables import short_name

_TABLE: Final = re.compile(rb'\s*[\[{][\s\[{},]*"(?:cols|p|rows)"\s*:')
_STEP: Final = ("stepname", "stepnum")
_TIME: Final = "TimeMs"
_WHOLE: Final = "stepTimeMs"
_INPUT: Final = frozenset({"infeedTimeMs", "inputTimeMs"})
_STATEMENTS: Final = ("statement", "input_conclusion", "summary_conclusion")
_CONCLUSION: Final = re.compile(
    r"\b(HIGHLY|MODERATELY|NOT) input-bound(?:\D{0,20}(\d{1,3}(?:\.\d{1,3})?)\s*%)?"
)
_LONGEST_MILLISECONDS: Final = 1e9
_NO_TIME_LINE: Final = "A page of sums by step: where the time of a GPU went between is not known."


def _read(path: Path, limits: ReadLimits) -> Profile:
    data = bytearray()
    with Unpacked(path, limits) as file:
        while piece := file.read():
            data += piece
            if len(data) > limits.event_maximum_bytes:
                maximum_mib = limits.event_maximum_bytes // 2**20
                raise ProfileError(
                    f"a page of more than {maximum_mib} MiB; name the .xplane.pb of its run"
                )
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        raise ProfileError(
            "a page of TensorFlow's profiler that is cut off; export it again"
        ) from None
    every = document if isinstance(document, list) else [document]
    tables = [table for table in every if isinstance(table, dict)]
    steps = list(next(filter(None, map(_steps, tables)), ()))
    if not steps:
        raise ProfileError(
            "a page of TensorFlow's profiler without steps; export overview_page or "
            "input_pipeline_analyzer as JSON, or name the .xplane.pb of its run"
        )
    kept = steps[: limits.steps_maximum]
    notes = [_NO_TIME_LINE, *_statements(tables)]
    longest = limits.name_maximum_characters
    return Profile(
        format=ProfileFormat.TENSORFLOW_PAGE,
        source=path.name,
        host_steps=tuple(_laid(kept, longest)),
        events=len(steps),
        unread={"steps": len(steps) - len(kept)} if len(steps) > len(kept) else {},
        notes=tuple(dict.fromkeys(notes)),
    )


def _steps(table: Mapping[str, Any]) -> list[tuple[str, float, float]]:
    """Return name, milliseconds and input wait of steps; empty for other tables."""
    columns = table.get("cols")
    rows = table.get("rows")
    if not isinstance(columns, list) or not isinstance(rows, list):
        return []
    names = [str(column.get("id")) if isinstance(column, dict) else "" for column in columns]
    if not _INPUT.intersection(names) or not set(_STEP).intersection(names):
        return []
    steps = []
    for row in rows:
        cells = row.get("c") if isinstance(row, dict) else None
        if not isinstance(cells, list):
            continue
        values = {
            name: cell.get("v")
            for name, cell in zip(names, cells, strict=False)
            if isinstance(cell, dict)
        }
        times = {name: _time(value) for name, value in values.items() if name.endswith(_TIME)}
        waits = sum(times.get(name, 0.0) for name in _INPUT)
        whole = times.get(_WHOLE) or sum(times.values())
        if whole > 0:
            name = next((str(values[key]) for key in _STEP if key in values), "")
            steps.append((name, whole, min(waits, whole)))
    return steps


def _time(value: Any) -> float:
    """Return milliseconds; 0 for invalid values."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and 0 <= value < _LONGEST_MILLISECONDS else 0.0


def _laid(steps: Iterable[tuple[str, float, float]], longest: int) -> Iterator[HostStep]:
    """Yield the steps one after another, since pages lack their times."""
    at = 0
    for name, whole, waits in steps:
        end = at + max(1, round(whole * 1e6))
        yield HostStep(short_name(name, longest), at, end, waits / 1e3)
        at = end


def _statements(tables: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Yield the profiler's conclusions about input."""
    properties = [listed for table in tables if isinstance(listed := table.get("p"), dict)]
    for text in (str(listed.get(name)) for listed in properties for name in _STATEMENTS):
        if match := _CONCLUSION.search(text):
            why = f", {match[2]}% of the step time waits for input" if match[2] else ""
            yield f"TensorFlow says: {match[1]} input-bound{why}."


TENSORFLOW_PAGE: Final = ProfileReader(
    ProfileFormat.TENSORFLOW_PAGE,
    lambda head: _TABLE.match(head.data) is not None and b'"cols"' in head.data,
    _read,
)
"""Tables in the format of Google Charts."""
