"""Activities of devices and CUDA calls of the host in an export of Nsight Systems."""

import re
from array import array
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import accumulate
from typing import Any, Final

import numpy as np

from rightsizer.model.profile import CopyKind, HostMemory
from rightsizer.profiles.call_stacks import CallKind
from rightsizer.profiles.lost_kernels import LostKernels
from rightsizer.profiles.names import capture_end, is_wait_call
from rightsizer.profiles.nsight_systems.database import ExportDatabase, Gpus, process_of
from rightsizer.profiles.recorder import Recorder
from rightsizer.profiles.timeline import Column

KERNELS: Final = "CUPTI_ACTIVITY_KIND_KERNEL"
GRAPHS: Final = "CUPTI_ACTIVITY_KIND_GRAPH_TRACE"
COPIES: Final = "CUPTI_ACTIVITY_KIND_MEMCPY"
FILLS: Final = "CUPTI_ACTIVITY_KIND_MEMSET"

_WHEN: Final = ("start", "end", "deviceId")
_WHOSE: Final = ("globalPid", "correlationId")
_COPY_KINDS: Final[Mapping[int, CopyKind]] = {
    **dict.fromkeys((1, 3, 11), CopyKind.HOST_TO_DEVICE),
    **dict.fromkeys((2, 4, 12), CopyKind.DEVICE_TO_HOST),
    **dict.fromkeys((5, 6, 7, 8, 13), CopyKind.DEVICE_TO_DEVICE),
    10: CopyKind.PEER,
}
"""ENUM_CUDA_MEMCPY_OPER; arrays are device memory, 11 to 13 migrations of managed memory."""
_MIGRATIONS: Final = frozenset({11, 12, 13})
_MEMORIES: Final[Mapping[Any, HostMemory]] = {
    0: HostMemory.PAGEABLE,
    1: HostMemory.PINNED,
    4: HostMemory.MANAGED,
    6: HostMemory.MANAGED,
}
"""ENUM_CUDA_MEM_KIND, restricted to host memory."""
_CORRELATIONS: Final = 2**32
ALLOCATIONS: Final = "CUDA_GPU_MEMORY_USAGE_EVENTS"
_SIGNS: Final = {0: 1, 1: -1}
"""Sign of allocations and of frees."""
_OF_DEVICE: Final = frozenset({2, 3, 5})
"""ENUM_CUDA_MEM_KIND: device, array and static memory; others are host or managed memory."""
CALLS: Final = "CUPTI_ACTIVITY_KIND_RUNTIME"
WAITS: Final = "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION"
_VERSION: Final = re.compile(r"(?:_v\d+|_ptsz|_ptds)+$")
_LAUNCH: Final = re.compile(r"(?:cu|cuda)(?:Graph)?Launch(?!HostFunc)")
_COPY: Final = re.compile(r"(?:cu|cuda)Memcpy")
_WAIT_TYPES: Final = {1: "event wait", 3: "stream wait", 4: "context wait"}


def correlation_of(process: int, number: Any) -> int | None:
    """Return what links a call to its launch; numbers are unique per process."""
    if type(number) is not int or not 0 <= number < _CORRELATIONS:
        return None
    return process << 32 | number


def record_activities(
    database: ExportDatabase, recorder: Recorder, gpus: Gpus, lost: LostKernels
) -> Column:
    """Record everything that ran on a device.

    Returns:
        Sorted correlations of copies that block their callers: copies to pageable memory are
            never asynchronous.
    """
    named = (*_WHOSE, "streamId", "demangledName", "shortName", "mangledName")
    for start, end, device, owner, number, stream, *texts in _timed(
        database, KERNELS, _WHEN, named
    ):
        process = process_of(owner)
        name = next(filter(None, map(database.text, texts)), "(no name)")
        correlation = correlation_of(process, number)
        lost.run(correlation)
        recorder.kernel(
            gpus.key(process, device),
            (start, end),
            name,
            correlation=correlation,
            stream=_stream(stream),
        )
    rows = _timed(database, GRAPHS, _WHEN, (*_WHOSE, "streamId"))
    for start, end, device, owner, number, stream in rows:
        process = process_of(owner)
        correlation = correlation_of(process, number)
        recorder.graph(gpus.key(process, device), (start, end), correlation, _stream(stream))
    for start, end, device, owner in database.rows(FILLS, _WHEN, ("globalPid",)):
        recorder.fill(gpus.key(process_of(owner), device), (start, end))
    awaited: Column = array("q")
    optional = (*_WHOSE, "srcKind", "dstKind", "srcDeviceId", "dstDeviceId")
    for start, end, device, size, code, owner, number, *ends in _timed(
        database, COPIES, (*_WHEN, "bytes", "copyKind"), optional
    ):
        process = process_of(owner)
        kind, memory = _kind_of(code, *ends)
        correlation = correlation_of(process, number)
        is_awaited = kind is CopyKind.DEVICE_TO_HOST and memory is HostMemory.PAGEABLE
        if is_awaited and correlation is not None:
            awaited.append(correlation)
        recorder.copy(gpus.key(process, device), (start, end), kind, memory, size)
    return array("q", sorted(awaited))


def _stream(number: Any) -> str:
    return f"stream {number}" if type(number) is int else ""


def _timed(
    database: ExportDatabase, table: str, required: Sequence[str], optional: Sequence[str]
) -> Iterator[tuple[Any, ...]]:
    """Yield rows with a time; CUPTI writes 0 for lost ones."""
    for row in database.rows(table, required, optional):
        if row[0] == row[1] == 0:
            database.unread[f"{table} row without a time"] += 1
        else:
            yield row


def _kind_of(
    code: int, source: Any, target: Any, source_device: Any, target_device: Any
) -> tuple[CopyKind, HostMemory]:
    kind = _COPY_KINDS.get(code, CopyKind.OTHER)
    if kind is CopyKind.DEVICE_TO_DEVICE and source_device != target_device:
        kind = CopyKind.PEER
    if code in _MIGRATIONS:
        return kind, HostMemory.MANAGED
    host = {CopyKind.HOST_TO_DEVICE: source, CopyKind.DEVICE_TO_HOST: target}.get(kind)
    return kind, _MEMORIES.get(host, HostMemory.UNKNOWN)


def record_memory(database: ExportDatabase, recorder: Recorder, gpus: Gpus) -> None:
    """Record the peak of recorded allocations by device."""
    changes: defaultdict[str, tuple[Column, Column]] = defaultdict(lambda: (array("q"), array("q")))
    columns = ("start", "deviceId", "bytes", "memoryOperationType", "memKind")
    for start, device, size, operation, kind, owner in database.rows(
        ALLOCATIONS, columns, ("globalPid",)
    ):
        if kind not in _OF_DEVICE or operation not in _SIGNS or size < 0:
            database.unread["allocation that is not of device memory"] += 1
            continue
        starts, sizes = changes[gpus.key(process_of(owner), device)]
        starts.append(start)
        sizes.append(_SIGNS[operation] * size)
    for key, (starts, sizes) in changes.items():
        rows = np.argsort(np.array(starts), kind="stable").tolist()
        used = accumulate(map(sizes.__getitem__, rows))
        for row, size in zip(rows, used, strict=True):
            recorder.memory(key, max(0, size), starts[row])


def call_name(text: str) -> str:
    """Remove the interface version from a call's name."""
    return _VERSION.sub("", text)


def is_launch(name: str) -> bool:
    """Whether a call launches a kernel or a graph."""
    return _LAUNCH.match(name) is not None


def record_host_calls(
    database: ExportDatabase, recorder: Recorder, awaited: Column, lost: LostKernels
) -> None:
    """Record launches of all processes, and waits by thread.

    Calls of awaited correlations, which are sorted, are waits whatever their name: copies to
    pageable memory are never asynchronous.
    """
    if CALLS not in database.tables:
        for start, end, code in database.rows(WAITS, ("start", "end", "syncType")):
            if name := _WAIT_TYPES.get(code):
                recorder.wait(name, (start, end))
            else:
                database.unread["wait of a stream, not of the host"] += 1
        return
    columns = ("start", "end", "correlationId", "globalTid")
    for start, end, correlation, thread, number in database.rows(CALLS, columns, ("nameId",)):
        name, launches, waits, copies = _parse_function(database.text(number))
        tie = correlation_of(process_of(thread), correlation)
        if tie is not None:
            lost.call(name, tie, start)
        if capture := capture_end(name):
            recorder.capture(thread, capture, (start, end))
        elif launches and tie is not None:
            recorder.launch(tie, (start, end), thread)
        elif waits or (
            copies and tie is not None and bisect_left(awaited, tie) < bisect_right(awaited, tie)
        ):
            recorder.stacks.add(thread, CallKind.WAIT, name, (start, end))
        else:
            database.unread["CUDA call that neither launches nor waits"] += 1
    if WAITS in database.tables:
        # Duplicates of the waits, under codes that differ between versions.
        database.unread[WAITS] += database.count(WAITS)


@lru_cache(maxsize=4096)
def _parse_function(text: str) -> tuple[str, bool, bool, bool]:
    """Return the name of a call, and whether it launches, waits or copies."""
    name = call_name(text)
    return name, is_launch(name), is_wait_call(name), _COPY.match(name) is not None
