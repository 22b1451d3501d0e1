"""Who holds a device, and what each of them uses."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from rightsizer.domain.reading import Process
from rightsizer.telemetry.simulated.library.calls import Code, Refusal, number, out, put
from rightsizer.telemetry.simulated.library.driver import Driver, Handle

__all__ = ["PROCESSES", "PROCESSES_OF_INSTANCES"]

_NO_INSTANCE: Final = 0xFFFFFFFF
_INFORMATION_VERSION_1: Final = 0x01000018


def _found(driver: Driver, device: Handle) -> list[tuple[Process, int, int]]:
    found: list[tuple[Process, int, int]] = []
    for part in device.instances or (device,):
        mig = part.unit.device.mig
        ids = (mig.gpu_instance_id, mig.compute_instance_id) if mig else (_NO_INSTANCE,) * 2
        found.extend((process, *ids) for process in driver.node.processes(part.uuid, driver.now()))
    return found


def _compute(driver: Driver, device: Handle, count: Any, processes: Any) -> None:
    found = _found(driver, device)
    room = out(count).value if processes is not None else 0
    put(count, len(found))
    if room < len(found):
        raise Refusal(Code.INSUFFICIENT_SIZE)
    for row, (process, gpu_instance, compute_instance) in enumerate(found):
        target = processes[row]
        target.pid = process.pid
        target.usedGpuMemory = process.memory_used_bytes or 0
        target.gpuInstanceId = gpu_instance
        target.computeInstanceId = compute_instance


def _none(driver: Driver, device: Handle, count: Any, processes: Any) -> None:
    del driver, device, processes
    put(count, 0)


def _shares(driver: Driver, device: Handle) -> list[tuple[int, tuple[int, int, int, int]]]:
    """Each process with the percentages of SM, memory, encoder and decoder that it uses."""
    device.need_whole()
    rows: list[tuple[int, tuple[int, int, int, int]]] = []
    for member in driver.node.members(device.uuid, driver.now()):
        load, parts = member.load, len(member.pids)
        if load.gpu_busy > 0.0 or load.engines > 0.0:
            used = (load.sm_active, load.dram_active, load.encoder, load.decoder)
            shares = tuple(round(100.0 * value / parts) for value in used)
            rows.extend((pid, shares) for pid in member.pids)  # type: ignore[misc]
    return rows


def _need_rows(rows: Sequence[object], room: int) -> None:
    if not rows:
        raise Refusal(Code.NOT_FOUND)
    if room < len(rows):
        raise Refusal(Code.INSUFFICIENT_SIZE)


def _utilization(driver: Driver, device: Handle, samples: Any, count: Any, since: Any) -> None:
    rows = _shares(driver, device) if number(since) < driver.microseconds() else []
    room = out(count).value if samples is not None else 0
    put(count, len(rows))
    _need_rows(rows, room)
    for row, (pid, shares) in enumerate(rows):
        _fill(samples[row], pid, driver.microseconds(), shares)


def _utilization_information(driver: Driver, device: Handle, request: Any) -> None:
    target = out(request)
    if target.version != _INFORMATION_VERSION_1:
        raise Refusal(Code.ARGUMENT_VERSION_MISMATCH)
    fresh = target.lastSeenTimeStamp < driver.microseconds()
    rows = _shares(driver, device) if fresh else []
    room = target.processSamplesCount if target.procUtilArray else 0
    target.processSamplesCount = len(rows)
    _need_rows(rows, room)
    for row, (pid, shares) in enumerate(rows):
        _fill(target.procUtilArray[row], pid, driver.microseconds(), shares)


def _fill(target: Any, pid: int, time: int, shares: tuple[int, int, int, int]) -> None:
    target.pid, target.timeStamp = pid, time
    target.smUtil, target.memUtil, target.encUtil, target.decUtil = shares


PROCESSES_OF_INSTANCES: Final[Mapping[str, Callable[..., None]]] = {
    "nvmlDeviceGetComputeRunningProcesses_v2": _compute,
    "nvmlDeviceGetComputeRunningProcesses_v3": _compute,
    "nvmlDeviceGetGraphicsRunningProcesses_v2": _none,
    "nvmlDeviceGetGraphicsRunningProcesses_v3": _none,
    "nvmlDeviceGetMPSComputeRunningProcesses_v2": _none,
    "nvmlDeviceGetMPSComputeRunningProcesses_v3": _none,
}
PROCESSES: Final[Mapping[str, Callable[..., None]]] = {
    "nvmlDeviceGetProcessUtilization": _utilization,
    "nvmlDeviceGetProcessesUtilizationInfo": _utilization_information,
}
