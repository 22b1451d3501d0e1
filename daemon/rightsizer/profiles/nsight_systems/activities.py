"""Activities of devices and CUDA calls of the host in an export of Nsight Systems."""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from enum import IntEnum
from functools import lru_cache, partial
from operator import itemgetter
from typing import Any, Final

import numpy as np

from rightsizer.model.profile import CopyKind, HostMemory
from rightsizer.profiles.call_stacks import CallKind
from rightsizer.profiles.columns import Texts, Values, chosen, coded, integers
from rightsizer.profiles.lost_kernels import LostKernels
from rightsizer.profiles.names import capture_end, is_wait_call
from rightsizer.profiles.nsight_systems.database import ExportDatabase, Gpus, processes_of
from rightsizer.profiles.recorder import Recorder
from rightsizer.profiles.timeline import NO_NUMBER, Numbers

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
_AWAITED: Final = (CopyKind.DEVICE_TO_HOST, HostMemory.PAGEABLE)
_MIGRATIONS: Final = frozenset({11, 12, 13})
_MEMORIES: Final[Mapping[Any, HostMemory]] = {
    0: HostMemory.PAGEABLE,
    1: HostMemory.PINNED,
    4: HostMemory.MANAGED,
    6: HostMemory.MANAGED,
}
"""ENUM_CUDA_MEM_KIND, restricted to host memory."""
_CORRELATION_BITS: Final = 32
_CORRELATIONS: Final = 2**_CORRELATION_BITS
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


def _correlations_of(owners: Values, numbers: Values) -> Numbers:
    """Return what links calls to their launches; numbers are unique per process."""
    column = integers(numbers)
    is_known = (column >= 0) & (column < _CORRELATIONS)
    return np.where(is_known, processes_of(owners) << _CORRELATION_BITS | column, NO_NUMBER)


def record_activities(
    database: ExportDatabase, recorder: Recorder, gpus: Gpus, lost: LostKernels
) -> Numbers:
    """Record everything that ran on a device.

    Returns:
        Correlations of copies that block their callers: copies to pageable memory are never
            asynchronous.
    """
    optional: tuple[str, ...] = (*_WHOSE, "streamId")
    texts = ("demangledName", "shortName", "mangledName")
    for table, named in ((KERNELS, texts), (GRAPHS, ())):
        for start, end, device, owner, number, stream, *parts in _timed(
            database, table, _WHEN, (*optional, *named)
        ):
            correlations = _correlations_of(owner, number)
            names: Texts = [None] * start.size
            if named:
                lost.runs(correlations)
                names = coded([*zip(*parts, strict=True)]).mapped(partial(_name, database))
            streams = coded(stream).mapped(_stream)
            recorder.kernels(gpus.keys(owner, device), start, end, correlations, names, streams)
    for start, end, device, owner in database.batches(FILLS, _WHEN, ("globalPid",)):
        recorder.fills(gpus.keys(owner, device), start, end)
    awaited = [np.empty(0, np.int64)]
    optional = (*_WHOSE, "srcKind", "dstKind", "srcDeviceId", "dstDeviceId")
    for start, end, device, size, code, owner, number, *ends in _timed(
        database, COPIES, (*_WHEN, "bytes", "copyKind"), optional
    ):
        kinds = coded([*zip(code.tolist(), *ends, strict=True)]).mapped(_kind_of)
        is_awaited = kinds.array(_AWAITED.__eq__, bool)
        awaited.append(_correlations_of(owner, number)[is_awaited])
        recorder.copies(gpus.keys(owner, device), start, end, kinds, size)
    return np.concatenate(awaited)


def _name(database: ExportDatabase, numbers: Sequence[Any]) -> str:
    return next(filter(None, map(database.text, numbers)), "(no name)")


def _stream(number: Any) -> str:
    return f"stream {number}" if type(number) is int else ""


def _timed(
    database: ExportDatabase, table: str, required: Sequence[str], optional: Sequence[str]
) -> Iterator[tuple[Any, ...]]:
    """Yield columns of rows with a time; CUPTI writes 0 for lost ones."""
    for columns in database.batches(table, required, optional):
        rows = np.flatnonzero(columns[0] | columns[1])
        if lost := columns[0].size - rows.size:
            database.unread[f"{table} row without a time"] += lost
        if rows.size:
            yield chosen(rows, *columns)


def _kind_of(facts: tuple[Any, ...]) -> tuple[CopyKind, HostMemory]:
    code, source, target, source_device, target_device = facts
    kind = _COPY_KINDS.get(code, CopyKind.OTHER)
    if kind is CopyKind.DEVICE_TO_DEVICE and source_device != target_device:
        kind = CopyKind.PEER
    if code in _MIGRATIONS:
        return kind, HostMemory.MANAGED
    host = {CopyKind.HOST_TO_DEVICE: source, CopyKind.DEVICE_TO_HOST: target}.get(kind)
    return kind, _MEMORIES.get(host, HostMemory.UNKNOWN)


def record_memory(database: ExportDatabase, recorder: Recorder, gpus: Gpus) -> None:
    """Record the peak of recorded allocations by device."""
    changes: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
    columns = ("start", "deviceId", "bytes", "memoryOperationType", "memKind")
    for start, device, size, operation, kind, owner in database.rows(
        ALLOCATIONS, columns, ("globalPid",)
    ):
        if kind not in _OF_DEVICE or operation not in _SIGNS or size < 0:
            database.unread["allocation that is not of device memory"] += 1
            continue
        changes[gpus.key(owner, device)].append((start, _SIGNS[operation] * size))
    for key, allocations in changes.items():
        used = 0
        for start, size in sorted(allocations, key=itemgetter(0)):
            used += size
            recorder.memory(key, max(0, used), start)


def call_name(text: str) -> str:
    """Remove the interface version from a call's name."""
    return _VERSION.sub("", text)


def is_launch(name: str) -> bool:
    """Whether a call launches a kernel or a graph."""
    return _LAUNCH.match(name) is not None


def record_host_calls(
    database: ExportDatabase, recorder: Recorder, awaited: Numbers, lost: LostKernels
) -> None:
    """Record launches of all processes, and waits by thread.

    Calls of awaited correlations are waits whatever their name: copies to pageable memory are
    never asynchronous.
    """
    if CALLS not in database.tables:
        for start, end, codes in database.batches(WAITS, ("start", "end", "syncType")):
            rows = np.flatnonzero(np.isin(codes, [*_WAIT_TYPES]))
            database.unread["wait of a stream, not of the host"] += codes.size - rows.size
            begins, untils, kept = chosen(rows, start, end, codes)
            recorder.waits(begins, untils, coded(kept.tolist()).mapped(_WAIT_TYPES.get))
        return
    columns = ("start", "end", "correlationId", "globalTid")
    for starts, ends, numbers, threads, name_ids in database.batches(CALLS, columns, ("nameId",)):
        names = coded(name_ids).mapped(lambda name_id: call_name(database.text(name_id)))
        role = names.array(_role)
        ties = _correlations_of(threads, numbers)
        is_tied = ties != NO_NUMBER
        lost.calls(*chosen(np.flatnonzero(is_tied), names, ties, starts))
        for row in np.flatnonzero(role == _Role.CAPTURE).tolist():
            span = int(starts[row]), int(ends[row])
            name = names.values[names.codes[row]]
            recorder.capture(int(threads[row]), capture_end(name), span)
        launches = is_tied & (role == _Role.LAUNCH)
        recorder.launches(ties[launches], starts[launches], ends[launches], threads[launches])
        is_awaited = is_tied & (role == _Role.COPY) & np.isin(ties, awaited)
        waits = np.flatnonzero((role == _Role.WAIT) | is_awaited)
        threads_of, texts, *spans = chosen(waits, threads, names, starts, ends)
        calls = recorder.stacks.numbers(CallKind.WAIT, texts)
        recorder.stacks.extend_waits(threads_of, calls, *spans)
        used = np.count_nonzero(launches) + waits.size + np.count_nonzero(role == _Role.CAPTURE)
        database.unread["CUDA call that neither launches nor waits"] += len(names) - int(used)
    if WAITS in database.tables:
        # Duplicates of the waits, under codes that differ between versions.
        database.unread[WAITS] += database.count(WAITS)


class _Role(IntEnum):
    """What a call does."""

    OTHER = 0
    CAPTURE = 1
    LAUNCH = 2
    WAIT = 3
    COPY = 4


@lru_cache(maxsize=4096)
def _role(name: str) -> _Role:
    roles = (
        (_Role.CAPTURE, bool(capture_end(name))),
        (_Role.LAUNCH, is_launch(name)),
        (_Role.WAIT, is_wait_call(name)),
        (_Role.COPY, _COPY.match(name) is not None),
    )
    return next((role for role, is_it in roles if is_it), _Role.OTHER)
