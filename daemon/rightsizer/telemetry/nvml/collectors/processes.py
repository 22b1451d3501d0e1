"""Processes on a device, and each one's share of time."""

import math
from typing import Any, Final

from rightsizer.model.values import Missing, Process, ProcessKind, Signal
from rightsizer.telemetry.nvml.collector import NvmlCollector, SampleCursor
from rightsizer.telemetry.nvml.handle import DeviceHandle
from rightsizer.telemetry.nvml.library import NvmlFailure, is_blank
from rightsizer.telemetry.nvml.reading_builder import ReadingBuilder

_OTHERS: Final = {ProcessKind.GRAPHICS: "Graphics", ProcessKind.MPS: "MPSCompute"}
# The older call answers 0 on Blackwell (HAMi-core#218); drivers before R550 lack the newer one.
_UTILIZATION_CALLS: Final = (
    "nvmlDeviceGetProcessesUtilizationInfo",
    "nvmlDeviceGetProcessUtilization",
)
_PERCENT: Final = 100
_PIDS: Final = 2**22
"""Upper bound of Linux's process ids (proc_sys_kernel(5), pid_max)."""


def is_in_use(handle: DeviceHandle) -> bool:
    """Whether a process computes on the device, as far as the driver tells."""
    answer = _ask(handle, "Compute")
    return not isinstance(answer, NvmlFailure) and len(answer) > 0


def _ask(handle: DeviceHandle, kind: str) -> Any:
    # The unsuffixed name requests version 3 of the list, which drivers before R510 lack; those
    # before 450.66 have only the first.
    call = f"nvmlDeviceGet{kind}RunningProcesses"
    answer = handle.ask_first((call,), (f"{call}_v2",), (f"{call}_v1",))
    if _is_shifted(answer):
        # Some drivers fill version 3 with a longer structure (pynvml#48, go-nvml#75).
        answer = handle.ask(f"{call}_v2")
    return (
        NvmlFailure(Missing.INVALID, call, "ids of no process") if _is_shifted(answer) else answer
    )


def _is_shifted(answer: Any) -> bool:
    """Whether a list has an id that no process can have: its structures are not those expected."""
    return not isinstance(answer, NvmlFailure) and any(entry.pid > _PIDS for entry in answer)


def _read(handle: DeviceHandle, builder: ReadingBuilder) -> None:
    answer = _ask(handle, "Compute")
    if isinstance(answer, NvmlFailure):
        builder.fail(Signal.PROCESS_COUNT, answer)
        return
    builder.processes = _processes(answer, ProcessKind.COMPUTE, handle)
    # The finished reading adds processes of other kinds to the count.
    builder.put(Signal.PROCESS_COUNT, len(builder.processes))


def _read_others(handle: DeviceHandle, builder: ReadingBuilder) -> None:
    for kind, name in _OTHERS.items():
        answer = _ask(handle, name)
        if isinstance(answer, NvmlFailure):
            builder.fail(Signal.PROCESS_COUNT, answer)
        else:
            builder.other_processes += _processes(answer, kind, handle)


def _processes(answer: Any, kind: ProcessKind, handle: DeviceHandle) -> tuple[Process, ...]:
    memory_maximum = handle.target.device.memory_total_bytes or math.inf
    # A driver with another structure layout may have other data in place of the memory.
    by_pid: dict[int, Process] = {}
    for pid, held in ((entry.pid, entry.usedGpuMemory) for entry in answer):
        used = None if held is None or held > memory_maximum or is_blank(held) else held
        # Some drivers list a process twice.
        before = by_pid.setdefault(pid, Process(pid, used, kind)).memory_used_bytes
        if used is not None and used > (before or 0):
            by_pid[pid] = Process(pid, used, kind)
    return tuple(by_pid.values())


class _Samples:
    """Reader of the driver's buffer of samples by process; uses each sample once."""

    def __init__(self, handle: DeviceHandle) -> None:
        self._handle = handle
        self._cursor = SampleCursor()

    def means(self) -> dict[int, float]:
        """Return the mean share of each process since the last call; empty without samples."""
        answer = self._ask()
        samples = () if isinstance(answer, NvmlFailure) else answer
        # Values above 100 have been seen, and mean that there is no value.
        fresh = self._cursor.take(sample for sample in samples if sample.smUtil <= _PERCENT)
        shares: dict[int, list[int]] = {}
        for sample in fresh:
            shares.setdefault(sample.pid, []).append(sample.smUtil)
        return {pid: sum(of) / len(of) / _PERCENT for pid, of in shares.items()}

    def _ask(self) -> Any:
        """Return the answer to the first supported call."""
        answer: Any = None
        for call in _UTILIZATION_CALLS:
            answer = self._handle.ask(call, self._cursor.since, key=call)
            if not isinstance(answer, NvmlFailure) or not answer.is_unsupported:
                break
        return answer


def _read_shares(handle: DeviceHandle, builder: ReadingBuilder) -> None:
    builder.process_shares = handle.hold(_Samples).means()


PROCESSES: Final = NvmlCollector(
    "processes",
    (Signal.PROCESS_COUNT,),
    _read,
    attributes=("processes",),
    on_mig_parent=False,
    on_mig_instance=True,
)
OTHER_PROCESSES: Final = NvmlCollector(
    "other_processes",
    (Signal.PROCESS_COUNT,),
    _read_others,
    attributes=("other_processes",),
    on_mig_parent=False,
    on_mig_instance=True,
    is_slow=True,
    part_of="processes",
)
PROCESS_UTILIZATION: Final = NvmlCollector(
    "process_utilization",
    (),
    _read_shares,
    attributes=("process_shares",),
    on_mig_parent=False,
    is_slow=True,
    part_of="processes",
)
