"""The performance state; datacenter boards idle in their highest one."""

from typing import Final

import pynvml

from rightsizer.model.reading import Missing
from rightsizer.model.signal import Signal
from rightsizer.telemetry.nvml.collector import NvmlCollector
from rightsizer.telemetry.nvml.handle import DeviceHandle
from rightsizer.telemetry.nvml.library import NvmlFailure
from rightsizer.telemetry.nvml.reading_builder import ReadingBuilder

_CALL: Final = "nvmlDeviceGetPerformanceState"
_UNKNOWN: Final = NvmlFailure(Missing.NOT_SUPPORTED, _CALL, "the driver answers 'unknown'")


def _read(handle: DeviceHandle, draft: ReadingBuilder) -> None:
    state = handle.ask(_CALL)
    is_unknown = state == pynvml.NVML_PSTATE_UNKNOWN
    draft.put(Signal.PERFORMANCE_STATE, _UNKNOWN if is_unknown else state)


PERFORMANCE_STATE: Final = NvmlCollector(
    "performance_state", (Signal.PERFORMANCE_STATE,), _read, is_slow=True, part_of="clocks"
)
