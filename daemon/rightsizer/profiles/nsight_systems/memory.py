"""How much device memory was allocated at its peak, where allocations were recorded."""

from array import array
from collections import defaultdict
from typing import Final

from rightsizer.profiles.columns import Column, order
from rightsizer.profiles.nsight_systems.database import ExportDatabase
from rightsizer.profiles.nsight_systems.gpus import Gpus, process_of
from rightsizer.profiles.recorder import Recorder

__all__ = ["record_memory"]

ALLOCATIONS: Final = "CUDA_GPU_MEMORY_USAGE_EVENTS"
_ALLOCATED: Final = 0
_FREED: Final = 1
_OF_DEVICE: Final = frozenset({2, 3, 5})
"""ENUM_CUDA_MEM_KIND: device, array and static memory; the rest is the host's or moves about."""


class _Changes:
    """When a device's memory grew and shrank."""

    def __init__(self) -> None:
        self._starts: Column = array("q")
        self._bytes: Column = array("q")

    def add(self, start: int, size: int) -> None:
        self._starts.append(start)
        self._bytes.append(size)

    def peak(self) -> int:
        total = peak = 0
        for row in order(self._starts):
            total += self._bytes[row]
            peak = max(peak, total)
        return peak


def record_memory(database: ExportDatabase, recorder: Recorder, gpus: Gpus) -> None:
    """The peak of what was allocated while the profiler looked, by device."""
    changes: defaultdict[str, _Changes] = defaultdict(_Changes)
    columns = ("start", "deviceId", "bytes", "memoryOperationType", "memKind")
    for start, device, size, operation, kind, owner in database.rows(
        ALLOCATIONS, columns, ("globalPid",)
    ):
        if kind not in _OF_DEVICE or operation not in {_ALLOCATED, _FREED} or size < 0:
            database.unread["allocation that is not of device memory"] += 1
            continue
        key = gpus.key(process_of(owner), device)
        changes[key].add(start, size if operation == _ALLOCATED else -size)
    for key, of_device in changes.items():
        recorder.memory(key, of_device.peak())
