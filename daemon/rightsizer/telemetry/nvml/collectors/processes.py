"""The processes that compute on a device: who holds it."""

from typing import Final

from rightsizer.domain.reading import Process
from rightsizer.domain.signal import Signal
from rightsizer.telemetry.nvml.collector import Collector
from rightsizer.telemetry.nvml.draft import Draft
from rightsizer.telemetry.nvml.failure import Failure
from rightsizer.telemetry.nvml.handle import Handle

__all__ = ["PROCESSES"]

# The bindings' own name asks for the third form of the list, which drivers before R510 lack.
_FORMS: Final = (
    ("nvmlDeviceGetComputeRunningProcesses",),
    ("nvmlDeviceGetComputeRunningProcesses_v2",),
)


def _read(handle: Handle, draft: Draft) -> None:
    answer = handle.ask_first(*_FORMS)
    if isinstance(answer, Failure):
        draft.fail(Signal.PROCESS_COUNT, answer)
        return
    total = draft.values.get(Signal.MEMORY_TOTAL_BYTES)
    draft.processes = tuple(
        Process(found.pid, _plausible(found.usedGpuMemory, total)) for found in answer
    )
    draft.put(Signal.PROCESS_COUNT, len(draft.processes), 1.0)


def _plausible(used: int | None, total: float | None) -> int | None:
    """The memory of a process, unless another driver's structure put something else there."""
    if used is None or (total is not None and used > total):
        return None
    return used


PROCESSES: Final = Collector(
    "processes", (Signal.PROCESS_COUNT,), _read, on_mig_parent=False, on_mig_instance=True
)
