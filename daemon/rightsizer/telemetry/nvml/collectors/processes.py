"""The processes on a device: who holds it."""

from typing import Any, Final

from rightsizer.model.reading import Process, ProcessKind
from rightsizer.model.signal import Signal
from rightsizer.telemetry.nvml.collector import NvmlCollector
from rightsizer.telemetry.nvml.handle import DeviceHandle
from rightsizer.telemetry.nvml.library import NvmlFailure
from rightsizer.telemetry.nvml.reading_builder import ReadingBuilder

# The bindings' own name asks for the third form of a list, which drivers before R510 lack.
_COMPUTE: Final = (
    ("nvmlDeviceGetComputeRunningProcesses",),
    ("nvmlDeviceGetComputeRunningProcesses_v2",),
)
_OTHERS: Final = (
    (
        ProcessKind.GRAPHICS,
        ("nvmlDeviceGetGraphicsRunningProcesses",),
        ("nvmlDeviceGetGraphicsRunningProcesses_v2",),
    ),
    (
        ProcessKind.MPS,
        ("nvmlDeviceGetMPSComputeRunningProcesses",),
        ("nvmlDeviceGetMPSComputeRunningProcesses_v2",),
    ),
)


def _read(handle: DeviceHandle, draft: ReadingBuilder) -> None:
    answer = handle.ask_first(*_COMPUTE)
    if isinstance(answer, NvmlFailure):
        draft.fail(Signal.PROCESS_COUNT, answer)
        return
    draft.processes = _processes(answer, ProcessKind.COMPUTE, handle)
    # Other kinds are counted when the reading is finished.
    draft.put(Signal.PROCESS_COUNT, len(draft.processes))


def _read_others(handle: DeviceHandle, draft: ReadingBuilder) -> None:
    for kind, *forms in _OTHERS:
        answer = handle.ask_first(*forms)
        if isinstance(answer, NvmlFailure):
            draft.fail(Signal.PROCESS_COUNT, answer)
        else:
            draft.other_processes += _processes(answer, kind, handle)


def _processes(answer: Any, kind: ProcessKind, handle: DeviceHandle) -> tuple[Process, ...]:
    total = handle.target.device.memory_total_bytes
    return tuple(
        Process(found.pid, _plausible(found.usedGpuMemory, total), kind) for found in answer
    )


def _plausible(used: int | None, total: float | None) -> int | None:
    """The memory of a process, unless another driver's structure put something else there."""
    if used is None or (total is not None and used > total):
        return None
    return used


PROCESSES: Final = NvmlCollector(
    "processes",
    (Signal.PROCESS_COUNT,),
    _read,
    tells=("processes",),
    on_mig_parent=False,
    on_mig_instance=True,
)
OTHER_PROCESSES: Final = NvmlCollector(
    "other_processes",
    (Signal.PROCESS_COUNT,),
    _read_others,
    tells=("other_processes",),
    on_mig_parent=False,
    on_mig_instance=True,
    is_slow=True,
    part_of="processes",
)
