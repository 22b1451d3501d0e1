"""What the host asked of CUDA: launches, and the calls in which it waited."""

import re
from bisect import bisect_left
from enum import Enum, auto
from functools import lru_cache
from typing import Final

from rightsizer.domain.profile import SpanKind
from rightsizer.profiles.columns import Column
from rightsizer.profiles.nsight_systems.activities import correlation_of
from rightsizer.profiles.nsight_systems.database import ExportDatabase
from rightsizer.profiles.nsight_systems.gpus import process_of
from rightsizer.profiles.recorder import Recorder

__all__ = ["call_name", "is_launch", "is_wait", "record_host_calls"]

CALLS: Final = "CUPTI_ACTIVITY_KIND_RUNTIME"
WAITS: Final = "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION"

_VERSION: Final = re.compile(r"(?:_v\d+|_ptsz|_ptds)+$")
_LAUNCH: Final = re.compile(r"(?:cu|cuda)(?:Graph)?Launch(?!HostFunc)")
_WAIT: Final = re.compile(r"(?:cu|cuda)(?:\w*Synchronize|Memcpy\w*(?<!Async))$")
_COPY: Final = re.compile(r"(?:cu|cuda)Memcpy")
_WAIT_TYPES: Final = {1: "event wait", 3: "stream wait", 4: "context wait"}


class _Role(Enum):
    """What a call does, by its name."""

    LAUNCH = auto()
    WAIT = auto()
    COPY = auto()
    OTHER = auto()


def call_name(text: str) -> str:
    """The name of a call without the version of its interface."""
    return _VERSION.sub("", text)


def is_launch(name: str) -> bool:
    """Whether a call brings a kernel or a graph to a device."""
    return _LAUNCH.match(name) is not None


def is_wait(name: str) -> bool:
    """Whether a call returns only when the device has done something."""
    return _WAIT.match(name) is not None


def record_host_calls(database: ExportDatabase, recorder: Recorder, awaited: Column) -> None:
    """Launches and waits of all processes.

    Args:
        database: The export.
        recorder: Takes them in.
        awaited: Correlations, in order, of copies for which the host waited whatever their call
            is named: into pageable memory, a copy is never in passing.
    """
    if CALLS not in database.tables:
        _record_waits(database, recorder)
        return
    columns = ("start", "end", "correlationId", "globalTid")
    for start, end, correlation, thread, number in database.rows(CALLS, columns, ("nameId",)):
        name, role = _name_and_role(database.text(number))
        tie = correlation_of(process_of(thread), correlation)
        if role is _Role.LAUNCH and tie is not None:
            recorder.launch(tie, start, end)
        elif role is _Role.WAIT or (
            role is _Role.COPY and tie is not None and _holds(awaited, tie)
        ):
            recorder.host_span(SpanKind.SYNCHRONIZATION, name, start, end)
        else:
            database.unread["CUDA call that neither launches nor waits"] += 1
    if WAITS in database.tables:
        # The same waits once more, under codes that differ between versions.
        database.unread[WAITS] += database.count(WAITS)


def _record_waits(database: ExportDatabase, recorder: Recorder) -> None:
    for start, end, code in database.rows(WAITS, ("start", "end", "syncType")):
        if name := _WAIT_TYPES.get(code):
            recorder.host_span(SpanKind.SYNCHRONIZATION, name, start, end)
        else:
            database.unread["wait of a stream, not of the host"] += 1


@lru_cache(maxsize=4096)
def _name_and_role(text: str) -> tuple[str, _Role]:
    name = call_name(text)
    if is_launch(name):
        return name, _Role.LAUNCH
    if is_wait(name):
        return name, _Role.WAIT
    return name, _Role.COPY if _COPY.match(name) else _Role.OTHER


def _holds(ordered: Column, number: int) -> bool:
    place = bisect_left(ordered, number)
    return place < len(ordered) and ordered[place] == number
