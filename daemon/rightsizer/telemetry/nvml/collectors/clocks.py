"""SM and memory clocks, and the highest SM clock."""

from typing import Final

import pynvml

from rightsizer.domain.signal import Signal
from rightsizer.telemetry.nvml.collector import Collector
from rightsizer.telemetry.nvml.draft import Draft
from rightsizer.telemetry.nvml.handle import Handle

__all__ = ["CLOCKS"]

_MEGAHERTZ: Final = 1e6


def _read(handle: Handle, draft: Draft) -> None:
    sm_clock = handle.ask("nvmlDeviceGetClockInfo", pynvml.NVML_CLOCK_SM)
    memory_clock = handle.ask("nvmlDeviceGetClockInfo", pynvml.NVML_CLOCK_MEM)
    sm_maximum = handle.ask_once("nvmlDeviceGetMaxClockInfo", pynvml.NVML_CLOCK_SM)
    draft.put(Signal.SM_CLOCK_HERTZ, sm_clock, _MEGAHERTZ)
    draft.put(Signal.MEMORY_CLOCK_HERTZ, memory_clock, _MEGAHERTZ)
    draft.put(Signal.SM_CLOCK_MAXIMUM_HERTZ, sm_maximum, _MEGAHERTZ)


CLOCKS: Final = Collector(
    "clocks",
    (Signal.SM_CLOCK_HERTZ, Signal.MEMORY_CLOCK_HERTZ, Signal.SM_CLOCK_MAXIMUM_HERTZ),
    _read,
)
