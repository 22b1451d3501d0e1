"""Processes on a device, and what each of them uses."""

from collections.abc import Callable, Sequence
from typing import Any, Final

from rightsizer.model.reading import ProcessKind
from rightsizer.simulator.library.calls import (
    Functions,
    NvmlCode,
    need_room,
    number,
    refuse_if,
    versioned,
)
from rightsizer.simulator.library.driver import SimulatedHandle
from rightsizer.simulator.support import BoardFeature

_NO_INSTANCE: Final = 0xFFFFFFFF
_INFORMATION_VERSION_1: Final = 0x01000018
_BLACKWELL: Final = 10
"""From here on the older call lists the processes and says 0 of each of them."""
_NOTHING: Final = (0, 0, 0, 0)


def _list(kind: ProcessKind) -> Callable[..., None]:
    def answer(device: SimulatedHandle, count: Any, processes: Any) -> None:
        found = [
            (process, part.unit.device.mig)
            for part in device.instances or (device,)
            for process in part.processes
            if process.kind is kind
        ]
        need_room(count, len(found), processes)
        for place, (process, mig) in enumerate(found):
            target = processes[place]
            target.pid, target.usedGpuMemory = process.pid, process.memory_used_bytes or 0
            target.gpuInstanceId = mig.gpu_instance_id if mig else _NO_INSTANCE
            target.computeInstanceId = mig.compute_instance_id if mig else _NO_INSTANCE

    return answer


def _shares(device: SimulatedHandle) -> list[tuple[int, Sequence[int]]]:
    """Each process with the percentages of SM, memory, encoder and decoder that it uses."""
    device.need(BoardFeature.PROCESS_UTILIZATION)
    rows: list[tuple[int, Sequence[int]]] = []
    for member in device.driver.node.members(device.uuid, device.driver.now()):
        load, parts = member.load, len(member.pids)
        if load.gpu_busy > 0.0 or load.engines > 0.0:
            used = (load.sm_active, load.dram_active, load.encoder, load.decoder)
            shares = [round(100.0 * value / parts) for value in used]
            rows.extend((pid, shares) for pid in member.pids)
    return rows


def _utilization(device: SimulatedHandle, samples: Any, count: Any, since: Any) -> None:
    rows = _shares(device) if number(since) < device.driver.microseconds() else []
    need_room(count, len(rows), samples)
    refuse_if(not rows, NvmlCode.NOT_FOUND)
    is_blind = device.support.architecture >= _BLACKWELL
    for row, (pid, shares) in enumerate(rows):
        seen = _NOTHING if is_blind else shares
        _fill(samples[row], pid, device.driver.microseconds(), seen)


def _utilization_information(device: SimulatedHandle, request: Any) -> None:
    target = versioned(request, _INFORMATION_VERSION_1)
    fresh = target.lastSeenTimeStamp < device.driver.microseconds()
    rows = _shares(device) if fresh else []
    room = target.processSamplesCount if target.procUtilArray else 0
    target.processSamplesCount = len(rows)
    refuse_if(not rows, NvmlCode.NOT_FOUND)
    refuse_if(room < len(rows), NvmlCode.INSUFFICIENT_SIZE)
    for row, (pid, shares) in enumerate(rows):
        _fill(target.procUtilArray[row], pid, device.driver.microseconds(), shares)


def _fill(target: Any, pid: int, time: int, shares: Sequence[int]) -> None:
    target.pid, target.timeStamp = pid, time
    target.smUtil, target.memUtil, target.encUtil, target.decUtil = shares


_KINDS: Final = (
    *(("Compute", ProcessKind.COMPUTE), ("Graphics", ProcessKind.GRAPHICS)),
    ("MPSCompute", ProcessKind.MPS),
)
PROCESSES_OF_INSTANCES: Final[Functions] = {
    f"nvmlDeviceGet{name}RunningProcesses_{version}": _list(kind)
    for name, kind in _KINDS
    for version in ("v2", "v3")
}
PROCESSES: Final[Functions] = {
    "nvmlDeviceGetProcessUtilization": _utilization,
    "nvmlDeviceGetProcessesUtilizationInfo": _utilization_information,
}
