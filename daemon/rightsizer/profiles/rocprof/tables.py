"""Reader of rocprofv3's CSV: the traces of one process, files whose names begin alike."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from rightsizer.model.profile import Profile, ProfileFormat
from rightsizer.model.values import ProfileError
from rightsizer.profiles.limits import ReadLimits
from rightsizer.profiles.printed_text import PrintedText
from rightsizer.profiles.reader import Head, ProfileReader
from rightsizer.profiles.recorder import Recorder
from rightsizer.profiles.rocprof.events import RocmEvents
from rightsizer.profiles.timeline import Interval

TRACE_NAME: Final = re.compile(
    r"(.*?)(?:kernel|memory_copy|hip_api|hip_runtime_api|marker_api)_trace\.csv"
)
"""Name of a trace; what stands before is that of its process."""
_COMMON: Final = {"Start_Timestamp", "End_Timestamp", "Correlation_Id"}
_KERNELS: Final = _COMMON | {"Kernel_Name", "Agent_Id"}
_COPIES: Final = _COMMON | {"Direction", "Source_Agent_Id", "Destination_Agent_Id"}
_CALLS: Final = _COMMON | {"Domain", "Function", "Thread_Id"}
_FROM_DEVICE: Final = "DEVICE_TO_HOST"
_MARKERS: Final = "MARKER"


def _titles(line: str) -> list[str]:
    return [title.strip().strip('"') for title in line.split(",")]


def _kind(titles: list[str]) -> frozenset[str] | None:
    kinds = (frozenset(columns) for columns in (_KERNELS, _COPIES, _CALLS))
    return next((columns for columns in kinds if columns <= {*titles}), None)


def recognizes(head: Head) -> bool:
    """Whether the first line has the columns of one of the traces."""
    first = head.text.lstrip("\ufeff").partition("\n")[0]
    return _kind(_titles(first.strip())) is not None


def traces_of(path: Path) -> list[Path]:
    """Return the traces of the same process in its folder, the file itself among them."""
    named = TRACE_NAME.fullmatch(path.name)
    if named is None:
        return [path]
    return sorted(
        trace
        for trace in path.parent.glob("*_trace.csv")
        if (other := TRACE_NAME.fullmatch(trace.name)) and other[1] == named[1]
    )


def read(path: Path, limits: ReadLimits) -> Profile:
    """Read all traces of a process; raises `ProfileError` if none has a row."""
    events = RocmEvents(Recorder(limits))
    for trace in traces_of(path):
        _read_trace(trace, limits, events)
    profile = events.profile(ProfileFormat.ROCPROF, path.name)
    if not profile.events:
        raise ProfileError(
            "a trace of rocprofv3 without a row; record with "
            "`rocprofv3 --hip-trace --kernel-trace --memory-copy-trace --output-format csv`"
        )
    return profile


def _read_trace(path: Path, limits: ReadLimits, events: RocmEvents) -> None:
    text = PrintedText(path, limits)
    for row in _rows(text):
        span = _span(row)
        if span is None:
            events.unread["row without a time"] += 1
        else:
            _take(row, span, events)
    events.unread.update(text.unread)


def _rows(text: PrintedText) -> Iterator[Mapping[str, str]]:
    titles: list[str] | None = None
    lines = text.lines()
    for line in lines:
        if titles is None:
            titles = _titles(line.lstrip("\ufeff").strip())
            if _kind(titles) is None:
                text.unread["table of another kind"] += 1
                return
            continue
        cells = text.record(line, lines)
        if cells is None or len(cells) != len(titles):
            if line.strip():
                text.unread["line that is no row of its table"] += 1
            continue
        yield dict(zip(titles, cells, strict=True))


def _take(row: Mapping[str, str], span: Interval, events: RocmEvents) -> None:
    correlation = _number(row["Correlation_Id"])
    if "Kernel_Name" in row:
        stream = next((row[name] for name in ("Stream_Id", "Queue_Id") if row.get(name)), "")
        events.kernel(
            row["Agent_Id"],
            f"queue {stream}" if stream else "",
            row["Kernel_Name"],
            span,
            correlation,
        )
    elif "Direction" in row:
        is_from = row["Direction"].upper().endswith(_FROM_DEVICE)
        agent = row["Source_Agent_Id" if is_from else "Destination_Agent_Id"]
        events.copy(agent, row["Direction"], span, _number(row.get("Size", "")))
    elif row["Domain"].startswith(_MARKERS):
        events.marker(row["Function"], span, _number(row["Thread_Id"]) or 0)
    else:
        events.call(row["Function"], span, correlation, _number(row["Thread_Id"]) or 0)


def _span(row: Mapping[str, str]) -> Interval | None:
    start = _number(row["Start_Timestamp"])
    end = _number(row["End_Timestamp"])
    return None if not start or not end else (start, end)


def _number(text: str) -> int | None:
    return int(text) if text.strip().isdecimal() else None


ROCPROF: Final = ProfileReader(ProfileFormat.ROCPROF, recognizes, read)
