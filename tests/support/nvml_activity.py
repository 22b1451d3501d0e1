"""Further answers for the fake driver: its buffers of samples, and its lists of processes."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pynvml
from msgspec import Struct

from nvml_driver import FakeDriver

__all__ = ["LISTS", "ProcessSample", "Samples", "listed", "listing", "process_samples"]

_OK = int(pynvml.NVML_SUCCESS)
LISTS = {
    kind: f"nvmlDeviceGet{kind}RunningProcesses" for kind in ("Compute", "Graphics", "MPSCompute")
}
"""The functions that list processes, without the version that ends their names."""


@dataclass
class Samples:
    """The driver's buffer of utilization samples of one kind: time and percentage."""

    kind: int = pynvml.NVML_GPU_UTILIZATION_SAMPLES
    taken: list[tuple[int, int]] = field(default_factory=list)
    asked_since: list[int] = field(default_factory=list)
    """What each question gave as the time of the last sample that it had seen."""

    def answer(self, _driver: FakeDriver, *arguments: Any) -> int:
        """Implementation of `nvmlDeviceGetSamples`."""
        _device, kind, since, value_type, count, samples = arguments
        if kind.value != self.kind:
            return int(pynvml.NVML_ERROR_NOT_FOUND)
        if samples is None:
            self.asked_since.append(since.value)
        fresh = [found for found in self.taken if found[0] > since.value]
        if not fresh:
            return int(pynvml.NVML_ERROR_NOT_FOUND)
        value_type._obj.value = pynvml.NVML_VALUE_TYPE_UNSIGNED_INT
        count._obj.value = len(fresh)
        for place, (time, percent) in enumerate(fresh if samples is not None else ()):
            samples[place].timeStamp = time
            samples[place].sampleValue.uiVal = percent
        return _OK


class ProcessSample(Struct, frozen=True):
    """Activity of one process at one time."""

    pid: int
    time: int
    percent: int


def process_samples(
    driver: FakeDriver, taken: Sequence[ProcessSample], *, newer: bool, repeats: bool = False
) -> None:
    """Let the driver return shares of processes, by the newer call or the older one.

    A repeating one returns them again to callers that have seen them.
    """

    def put(places: Any, since: int) -> list[ProcessSample]:
        fresh = [found for found in taken if repeats or found.time > since]
        for place, found in enumerate(fresh if places is not None else ()):
            places[place].pid = found.pid
            places[place].timeStamp = found.time
            places[place].smUtil = found.percent
        return fresh

    def of_newer(_driver: FakeDriver, _device: Any, info: Any) -> int:
        asked = info._obj
        places = asked.procUtilArray or None
        fresh = put(places, asked.lastSeenTimeStamp)
        asked.processSamplesCount = len(fresh)
        return _size(fresh, is_room=places is not None)

    def of_older(_driver: FakeDriver, _device: Any, places: Any, count: Any, since: Any) -> int:
        fresh = put(places, since.value)
        count._obj.value = len(fresh)
        return _size(fresh, is_room=places is not None)

    if newer:
        driver.more["nvmlDeviceGetProcessesUtilizationInfo"] = of_newer
    else:
        driver.more["nvmlDeviceGetProcessUtilization"] = of_older


def listing(processes: dict[int, int | None]) -> Callable[..., int]:
    """An answer that lists the present processes with the memory of each."""

    def answer(*arguments: Any) -> int:
        rows = [(pid, 2**64 - 1 if used is None else used) for pid, used in processes.items()]
        return listed(rows)(*arguments)

    return answer


def listed(rows: Sequence[tuple[int, int]]) -> Callable[..., int]:
    """An answer that lists ids and memory as the driver has them."""

    def answer(_driver: FakeDriver, _device: Any, count: Any, infos: Any) -> int:
        room = count._obj.value
        count._obj.value = len(rows)
        if infos is None or room < len(rows):
            return _size(rows, is_room=False)
        for place, (pid, used) in enumerate(rows):
            infos[place].pid = pid
            infos[place].usedGpuMemory = used
        return _OK

    return answer


def _size(found: Any, *, is_room: bool) -> int:
    """The driver's protocol for the size of a list; success for an empty one."""
    return _OK if is_room or not found else int(pynvml.NVML_ERROR_INSUFFICIENT_SIZE)
