"""Each process's own share of a device, where several are on it."""

from typing import Any, Final

from rightsizer.telemetry.nvml.collector import NvmlCollector
from rightsizer.telemetry.nvml.handle import DeviceHandle
from rightsizer.telemetry.nvml.library import NvmlFailure
from rightsizer.telemetry.nvml.reading_builder import ReadingBuilder

# The older call answers 0 on Blackwell (HAMi-core#218); drivers before R550 lack the newer.
_CALLS: Final = ("nvmlDeviceGetProcessesUtilizationInfo", "nvmlDeviceGetProcessUtilization")
_PERCENT: Final = 100


class _Samples:
    """The driver's buffer of samples by process, each taken into account once."""

    def __init__(self, handle: DeviceHandle) -> None:
        self._handle = handle
        self._calls = list(_CALLS)
        self._seen = 0

    def means(self) -> dict[int, float]:
        """The mean share of each process since the last time; none where there are no samples."""
        answer = self._ask()
        if isinstance(answer, NvmlFailure):
            return {}
        # More than the whole is seen in the wild, and means that there is no value.
        fresh = [
            found for found in answer if found.timeStamp > self._seen and found.smUtil <= _PERCENT
        ]
        self._seen = max([self._seen, *(found.timeStamp for found in fresh)])
        shares: dict[int, list[int]] = {}
        for found in fresh:
            shares.setdefault(found.pid, []).append(found.smUtil)
        return {pid: sum(of) / len(of) / _PERCENT for pid, of in shares.items()}

    def close(self) -> None:
        """Nothing is held of the driver's."""

    def _ask(self) -> Any:
        """The first form that the driver has; one that it lacks is not tried again."""
        answer: Any = None
        while self._calls:
            answer = self._handle.library.ask(
                self._calls[0], self._handle.target.handle, self._seen
            )
            if not isinstance(answer, NvmlFailure) or not answer.is_unsupported:
                return answer
            self._calls.pop(0)
        return answer if answer is not None else ()


def _read(handle: DeviceHandle, draft: ReadingBuilder) -> None:
    draft.process_shares = handle.hold(_Samples).means()


PROCESS_UTILIZATION: Final = NvmlCollector(
    "process_utilization",
    (),
    _read,
    tells=("process_shares",),
    on_mig_parent=False,
    is_slow=True,
    part_of="processes",
)
