"""What devices did: kernels, graphs, copies and fills."""

from array import array
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from rightsizer.domain.profile import CopyKind, HostMemory
from rightsizer.profiles.columns import Column
from rightsizer.profiles.nsight_systems.database import ExportDatabase
from rightsizer.profiles.nsight_systems.gpus import Gpus, process_of
from rightsizer.profiles.recorder import Recorder

__all__ = ["correlation_of", "record_activities"]

KERNELS: Final = "CUPTI_ACTIVITY_KIND_KERNEL"
GRAPHS: Final = "CUPTI_ACTIVITY_KIND_GRAPH_TRACE"
COPIES: Final = "CUPTI_ACTIVITY_KIND_MEMCPY"
FILLS: Final = "CUPTI_ACTIVITY_KIND_MEMSET"

_WHEN: Final = ("start", "end", "deviceId")
_WHOSE: Final = ("streamId", "globalPid", "correlationId")
_COPY_KINDS: Final[Mapping[int, CopyKind]] = {
    1: CopyKind.HOST_TO_DEVICE,
    2: CopyKind.DEVICE_TO_HOST,
    3: CopyKind.HOST_TO_DEVICE,
    4: CopyKind.DEVICE_TO_HOST,
    5: CopyKind.DEVICE_TO_DEVICE,
    6: CopyKind.DEVICE_TO_DEVICE,
    7: CopyKind.DEVICE_TO_DEVICE,
    8: CopyKind.DEVICE_TO_DEVICE,
    10: CopyKind.PEER,
    11: CopyKind.HOST_TO_DEVICE,
    12: CopyKind.DEVICE_TO_HOST,
    13: CopyKind.DEVICE_TO_DEVICE,
}
"""ENUM_CUDA_MEMCPY_OPER; arrays are memory of the device, 11 to 13 migrations of managed memory."""
_MIGRATIONS: Final = frozenset({11, 12, 13})
_MEMORIES: Final[Mapping[int, HostMemory]] = {
    0: HostMemory.PAGEABLE,
    1: HostMemory.PINNED,
    4: HostMemory.MANAGED,
    6: HostMemory.MANAGED,
}
"""ENUM_CUDA_MEM_KIND, the kinds that a host has."""
_CORRELATIONS: Final = 2**32


def correlation_of(process: int, number: Any) -> int | None:
    """What ties a call to what it launched; every process counts its own calls."""
    if type(number) is not int or not 0 <= number < _CORRELATIONS:
        return None
    return process << 32 | number


def record_activities(database: ExportDatabase, recorder: Recorder, gpus: Gpus) -> Column:
    """Everything that ran on a device.

    Returns:
        The correlations of copies for which their callers had to wait, in order.
    """
    _record_kernels(database, recorder, gpus)
    _record_graphs(database, recorder, gpus)
    _record_fills(database, recorder, gpus)
    return array("q", sorted(_record_copies(database, recorder, gpus)))


def _timed(
    database: ExportDatabase, table: str, required: Sequence[str], optional: Sequence[str]
) -> Iterator[tuple[Any, ...]]:
    """Rows without those whose times CUPTI lost, where it leaves 0."""
    for row in database.rows(table, required, optional):
        if row[0] == row[1] == 0:
            database.unread[f"{table} row without a time"] += 1
        else:
            yield row


def _record_kernels(database: ExportDatabase, recorder: Recorder, gpus: Gpus) -> None:
    columns = ("demangledName", "shortName", "mangledName")
    for row in _timed(database, KERNELS, _WHEN, (*_WHOSE, *columns)):
        start, end, device, stream, owner, correlation, *names = row
        process = process_of(owner)
        name = next(filter(None, map(database.text, names)), "(no name)")
        recorder.kernel(
            gpus.key(process, device),
            stream if type(stream) is int else 0,
            start,
            end,
            name,
            correlation=correlation_of(process, correlation),
        )


def _record_graphs(database: ExportDatabase, recorder: Recorder, gpus: Gpus) -> None:
    for row in _timed(database, GRAPHS, _WHEN, (*_WHOSE, "graphId")):
        start, end, device, stream, owner, correlation, graph = row
        process = process_of(owner)
        recorder.graph(
            gpus.key(process, device),
            stream if type(stream) is int else 0,
            start,
            end,
            f"graph {graph}",
            correlation_of(process, correlation),
        )


def _record_fills(database: ExportDatabase, recorder: Recorder, gpus: Gpus) -> None:
    for start, end, device, stream, owner, size in database.rows(
        FILLS, _WHEN, ("streamId", "globalPid", "bytes")
    ):
        recorder.fill(
            gpus.key(process_of(owner), device),
            stream if type(stream) is int else 0,
            start,
            end,
            size if type(size) is int else 0,
        )


def _record_copies(database: ExportDatabase, recorder: Recorder, gpus: Gpus) -> Column:
    """Returns the correlations of those that end in pageable memory: these are never in passing."""
    awaited: Column = array("q")
    optional = (*_WHOSE, "srcKind", "dstKind", "srcDeviceId", "dstDeviceId")
    for row in _timed(database, COPIES, (*_WHEN, "bytes", "copyKind"), optional):
        start, end, device, size, code, stream, owner, correlation, *ends = row
        process = process_of(owner)
        kind, memory = _kind_of(code, *ends)
        if kind is CopyKind.DEVICE_TO_HOST and memory is HostMemory.PAGEABLE:
            number = correlation_of(process, correlation)
            if number is not None:
                awaited.append(number)
        recorder.copy(
            gpus.key(process, device),
            stream if type(stream) is int else 0,
            start,
            end,
            kind,
            memory,
            size,
        )
    return awaited


def _kind_of(
    code: int, source: Any, target: Any, source_device: Any, target_device: Any
) -> tuple[CopyKind, HostMemory]:
    kind = _COPY_KINDS.get(code, CopyKind.OTHER)
    if kind is CopyKind.DEVICE_TO_DEVICE and source_device != target_device:
        kind = CopyKind.PEER
    if code in _MIGRATIONS:
        return kind, HostMemory.MANAGED
    if kind is CopyKind.HOST_TO_DEVICE:
        return kind, _MEMORIES.get(source, HostMemory.UNKNOWN)
    if kind is CopyKind.DEVICE_TO_HOST:
        return kind, _MEMORIES.get(target, HostMemory.UNKNOWN)
    return kind, HostMemory.UNKNOWN
