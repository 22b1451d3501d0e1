"""Utilization of the GPU, its engines and its processes, and the driver's sample buffers."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from rightsizer.model.values import NANOSECONDS_PER_SECOND, Nanoseconds, ProcessKind, Signal
from rightsizer.simulator.library.calls import (
    Functions,
    NvmlCode,
    need_room,
    number,
    one_of,
    out,
    put,
    refuse_if,
    versioned,
)
from rightsizer.simulator.library.driver import SimulatedHandle, structure, values
from rightsizer.simulator.physics import BoardState
from rightsizer.simulator.signals import ROWS, percent
from rightsizer.simulator.support import BoardFeature
from rightsizer.simulator.transients import UTILIZATION_SAMPLES_PER_SECOND, sampled_busy

_NO_INSTANCE: Final = 0xFFFFFFFF
_INFORMATION_VERSION_1: Final = 0x01000018
_BLACKWELL: Final = 10
"""From here on the older call reports 0 for each process."""
_NOTHING: Final = (0, 0, 0, 0)
_UNSIGNED_INT: Final = 1
_STATE_STEP: Final[Nanoseconds] = NANOSECONDS_PER_SECOND // 2
"""Samples within a step share one model state, which changes more slowly."""
_KEPT_SAMPLES: Final = 99
"""More than 16 s, as `nvidia-smi -q` shows for real boards."""
_SAMPLED: Final[Mapping[int, Callable[[BoardState], float]]] = {
    1: lambda state: state.load.gpu_busy,
    2: lambda state: state.memory_controller_busy,
}
"""By sampling type."""


def _list(kind: ProcessKind) -> Callable[..., None]:
    def answer(device: SimulatedHandle, count: Any, processes: Any) -> None:
        entries = [
            (process, part.unit.device.mig)
            for part in device.instances or (device,)
            for process in part.processes
            if process.kind is kind
        ]
        need_room(count, len(entries), processes)
        for place, (process, mig) in enumerate(entries):
            target = processes[place]
            target.pid = process.pid
            target.usedGpuMemory = process.memory_used_bytes or 0
            target.gpuInstanceId = mig.gpu_instance_id if mig else _NO_INSTANCE
            target.computeInstanceId = mig.compute_instance_id if mig else _NO_INSTANCE

    return answer


def _shares(device: SimulatedHandle) -> list[tuple[int, Sequence[int]]]:
    """Return the SM, memory, encoder and decoder percentages of each process."""
    device.need(BoardFeature.PROCESS_UTILIZATION)
    rows: list[tuple[int, Sequence[int]]] = []
    for member in device.driver.node.members(device.uuid, device.driver.now()):
        load = member.load
        parts = len(member.pids)
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
    target.pid = pid
    target.timeStamp = time
    target.smUtil, target.memUtil, target.encUtil, target.decUtil = shares


_KINDS: Final = (
    ("Compute", ProcessKind.COMPUTE),
    ("Graphics", ProcessKind.GRAPHICS),
    ("MPSCompute", ProcessKind.MPS),
)
PROCESSES_OF_INSTANCES: Final[Functions] = {
    f"nvmlDeviceGet{name}RunningProcesses_{version}": _list(kind)
    for name, kind in _KINDS
    for version in ("v2", "v3")
}

_SAMPLING_PERIOD_MICROSECONDS: Final = 167_000
_FRAMES_PER_SECOND: Final = 240.0
"""Rate of an otherwise idle encoder."""


def _engine(signal: Signal) -> Callable[..., None]:
    row = ROWS[signal]
    return values(lambda device: (row.read(device), _SAMPLING_PERIOD_MICROSECONDS), row.feature)


def _encoder_statistics(device: SimulatedHandle) -> tuple[float, ...]:
    rate = _FRAMES_PER_SECOND * device.state.load.encoder
    sessions = ROWS[Signal.ENCODER_SESSIONS].read(device)
    return sessions, round(rate), round(1e6 / rate) if rate else 0


def _samples(  # noqa: PLR0913, PLR0917 - the C function's arguments.
    device: SimulatedHandle, kind: Any, since: Any, value_type: Any, count: Any, samples: Any
) -> None:
    read = _SAMPLED[one_of(kind, _SAMPLED, NvmlCode.NOT_SUPPORTED)]
    device.need(BoardFeature.UTILIZATION)
    places = _places(device.driver.now(), number(since) * 1000)
    refuse_if(not places, NvmlCode.NOT_FOUND)
    put(value_type, _UNSIGNED_INT)
    if samples is None:
        put(count, len(places))
        return
    places = places[-min(out(count).value, len(places)) :]
    for sample, place in zip(samples, places, strict=False):
        time = _time(place)
        sample.timeStamp = time // 1000
        state = device.state_at(time - time % _STATE_STEP)
        sample.sampleValue.uiVal = percent(sampled_busy(read(state), place))
    put(count, len(places))


def _places(now: Nanoseconds, seen: Nanoseconds) -> range:
    """Return the numbers of buffered samples that are newer than `seen`."""
    last = now * UTILIZATION_SAMPLES_PER_SECOND // NANOSECONDS_PER_SECOND
    first = last - _KEPT_SAMPLES + 1
    while first <= last and _time(first) // 1000 * 1000 <= seen:
        # Timestamps are rounded down to microseconds, and the caller returns those.
        first = max(first + 1, seen * UTILIZATION_SAMPLES_PER_SECOND // NANOSECONDS_PER_SECOND)
    return range(first, last + 1)


def _time(place: int) -> Nanoseconds:
    return place * NANOSECONDS_PER_SECOND // UTILIZATION_SAMPLES_PER_SECOND


UTILIZATION: Final[Functions] = {
    "nvmlDeviceGetUtilizationRates": structure(
        lambda device: {
            "gpu": percent(device.state.load.gpu_busy),
            "memory": ROWS[Signal.MEMORY_CONTROLLER_BUSY].read(device),
        },
        BoardFeature.UTILIZATION,
    ),
    "nvmlDeviceGetEncoderUtilization": _engine(Signal.ENCODER),
    "nvmlDeviceGetDecoderUtilization": _engine(Signal.DECODER),
    "nvmlDeviceGetJpgUtilization": _engine(Signal.JPEG),
    "nvmlDeviceGetOfaUtilization": _engine(Signal.OFA),
    "nvmlDeviceGetEncoderStats": values(_encoder_statistics, BoardFeature.ENCODER_DECODER),
    "nvmlDeviceGetProcessUtilization": _utilization,
    "nvmlDeviceGetProcessesUtilizationInfo": _utilization_information,
    "nvmlDeviceGetSamples": _samples,
}
