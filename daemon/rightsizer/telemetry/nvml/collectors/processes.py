"""The processes on a device: who holds it."""

from typing import Any, Final

from rightsizer.domain.reading import Process, ProcessKind
from rightsizer.domain.signal import Signal
from rightsizer.telemetry.nvml.collector import Collector
from rightsizer.telemetry.nvml.draft import Draft
from rightsizer.telemetry.nvml.failure import Failure
from rightsizer.telemetry.nvml.handle import Handle

__all__ = ["OTHER_PROCESSES", "PROCESSES"]

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


def _read(handle: Handle, draft: Draft) -> None:
    answer = handle.ask_first(*_COMPUTE)
    if isinstance(answer, Failure):
        draft.fail(Signal.PROCESS_COUNT, answer)
        return
    draft.processes = _processes(answer, ProcessKind.COMPUTE, handle)
    # Other kinds are counted when the reading is finished.
    draft.put(Signal.PROCESS_COUNT, len(draft.processes))


def _read_others(handle: Handle, draft: Draft) -> None:
    for kind, *forms in _OTHERS:
        answer = handle.ask_first(*forms)
        if isinstance(answer, Failure):
            draft.fail(Signal.PROCESS_COUNT, answer)
        else:
            draft.other_processes += _processes(answer, kind, handle)


def _processes(answer: Any, kind: ProcessKind, handle: Handle) -> tuple[Process, ...]:
    total = handle.target.device.memory_total_bytes
    return tuple(
        Process(found.pid, _plausible(found.usedGpuMemory, total), kind) for found in answer
    )


def _plausible(used: int | None, total: float | None) -> int | None:
    """The memory of a process, unless another driver's structure put something else there."""
    if used is None or (total is not None and used > total):
        return None
    return used


PROCESSES: Final = Collector(
    "processes",
    (Signal.PROCESS_COUNT,),
    _read,
    tells=("processes",),
    on_mig_parent=False,
    on_mig_instance=True,
)
OTHER_PROCESSES: Final = Collector(
    "other_processes",
    (Signal.PROCESS_COUNT,),
    _read_others,
    tells=("other_processes",),
    on_mig_parent=False,
    on_mig_instance=True,
    is_slow=True,
    part_of="processes",
)
