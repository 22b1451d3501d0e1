"""Lines that MLPerf programs log: `:::MLLOG {...}`, with whatever the launcher puts before it.

Until round 0.6 key and time stood before the object, as `:::MLL 1558640014.12 run_start: {...}`, in
round 0.5 with the benchmark as well, and with a bare value.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from rightsizer.profiles.mlperf.figures import finite
from rightsizer.profiles.printed.record import PrintedText

__all__ = ["Logged", "logged"]

_MARK: Final = ":::MLLOG "
_SYSTEM_MARK: Final = ":::SYSJSON "
_FORMER: Final = re.compile(
    r":::ML(?:L|Pv[\d.]+ (?P<benchmark>\w+)) (?P<time>\d{1,12}(?:\.\d{1,12})?) (?:\([^()]*\) )?"
    r"(?P<key>\w+)(?:: (?P<value>.*))?"
)
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
    benchmark: str = ""
    """Round 0.5 named it in each line."""


def logged(text: PrintedText) -> Iterator[Logged]:
    """The lines in order, also where two have run together; those that are broken are counted."""
    for line in text.lines():
        is_system = _MARK not in line and _SYSTEM_MARK in line
        parts = line.split(_SYSTEM_MARK if is_system else _MARK)[1:]
        if not parts:
            if (former := _FORMER.search(line)) is not None:
                yield _logged_formerly(former)
            else:
                text.unread["other lines"] += bool(line.strip())
        for entry in map(_object, parts):
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


def _logged_formerly(line: "re.Match[str]") -> Logged:
    """A line of a round before 0.7, whose times are in seconds."""
    text = line["value"]
    said = _object(text or "") or {}
    metadata = said.get("metadata", said)
    if not isinstance(metadata, dict):
        metadata = {}
    if "success" in metadata:
        metadata = {**metadata, "status": "success" if metadata["success"] is True else "aborted"}
    seconds = finite(line["time"])
    return Logged(
        key=line["key"][:100],
        value=said.get("value") if said else text,
        milliseconds=None if seconds is None else seconds * 1e3,
        metadata=metadata,
        benchmark=line["benchmark"] or "",
    )


def _object(text: str) -> dict[str, Any] | None:
    if text.count("[") + text.count("{") > _DEEPEST and _depth(text) > _DEEPEST:
        return None
    try:
        # Loggers of others put their own after it, as a change of color.
        entry, _ = json.JSONDecoder().raw_decode(text.lstrip())
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
