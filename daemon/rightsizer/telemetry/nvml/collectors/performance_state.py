"""The performance state; datacenter boards idle in their highest one."""

from typing import Final

import pynvml

from rightsizer.domain.reading import Missing
from rightsizer.domain.signal import Signal
from rightsizer.telemetry.nvml.collector import Collector
from rightsizer.telemetry.nvml.draft import Draft
from rightsizer.telemetry.nvml.failure import Failure
from rightsizer.telemetry.nvml.handle import Handle

__all__ = ["PERFORMANCE_STATE"]

_CALL: Final = "nvmlDeviceGetPerformanceState"
_UNKNOWN: Final = Failure(Missing.NOT_SUPPORTED, _CALL, "the driver answers 'unknown'")


def _read(handle: Handle, draft: Draft) -> None:
    state = handle.ask(_CALL)
    is_unknown = state == pynvml.NVML_PSTATE_UNKNOWN
    draft.put(Signal.PERFORMANCE_STATE, _UNKNOWN if is_unknown else state)


PERFORMANCE_STATE: Final = Collector(
    "performance_state", (Signal.PERFORMANCE_STATE,), _read, is_slow=True, part_of="clocks"
)
