"""Lines that MLPerf programs log: `:::MLLOG {...}`, with whatever the launcher puts before it."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from rightsizer.profiles.mlperf.figures import finite
from rightsizer.profiles.printed.record import PrintedText

__all__ = ["Logged", "logged"]

_MARK: Final = ":::MLLOG "
_SYSTEM_MARK: Final = ":::SYSJSON "
_DEEPEST: Final = 50


@dataclass(frozen=True, slots=True)
class Logged:
    """One line."""

    key: str
    value: Any
    milliseconds: float | None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    is_system: bool = False
    """It describes the system, in `value`."""


def logged(text: PrintedText) -> Iterator[Logged]:
    """The lines in order; those that are broken, or none, are counted."""
    for line in text.lines():
        at = line.find(_MARK)
        is_system = at < 0 and _SYSTEM_MARK in line
        if at < 0 and not is_system:
            text.unread["other lines"] += bool(line.strip())
            continue
        mark = _SYSTEM_MARK if is_system else _MARK
        entry = _object(line[line.find(mark) + len(mark) :])
        if entry is None:
            text.unread["broken lines"] += 1
        elif is_system:
            yield Logged("system", entry, None, is_system=True)
        else:
            yield _logged(entry)


def _logged(entry: dict[str, Any]) -> Logged:
    metadata = entry.get("metadata")
    return Logged(
        key=str(entry.get("key", ""))[:100],
        value=entry.get("value"),
        milliseconds=finite(entry.get("time_ms")),
        metadata=metadata if isinstance(metadata, dict) else {},
    )


def _object(text: str) -> dict[str, Any] | None:
    if text.count("[") + text.count("{") > _DEEPEST and _depth(text) > _DEEPEST:
        return None
    try:
        entry = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return entry if isinstance(entry, dict) else None


def _depth(text: str) -> int:
    """How deep brackets go, those in texts included: more is refused than must be."""
    deepest = now = 0
    for each in text:
        if each in "[{":
            now += 1
            deepest = max(deepest, now)
        elif each in "]}":
            now -= 1
    return deepest
