"""SM and memory clocks, and the highest that they can be."""

from typing import Final

import pynvml

from rightsizer.model.signal import Signal
from rightsizer.telemetry.nvml.collector import NvmlCollector
from rightsizer.telemetry.nvml.handle import DeviceHandle
from rightsizer.telemetry.nvml.reading_builder import ReadingBuilder

_MEGAHERTZ: Final = 1e6
_CURRENT: Final = (
    (Signal.SM_CLOCK_HERTZ, pynvml.NVML_CLOCK_SM),
    (Signal.MEMORY_CLOCK_HERTZ, pynvml.NVML_CLOCK_MEM),
)
_MAXIMUM: Final = (
    (Signal.SM_CLOCK_MAXIMUM_HERTZ, pynvml.NVML_CLOCK_SM),
    (Signal.MEMORY_CLOCK_MAXIMUM_HERTZ, pynvml.NVML_CLOCK_MEM),
)
_APPLICATION: Final = (
    # The bindings know no application clock of the SMs; the graphics clock drives them.
    (Signal.SM_CLOCK_APPLICATION_HERTZ, pynvml.NVML_CLOCK_GRAPHICS),
    (Signal.MEMORY_CLOCK_APPLICATION_HERTZ, pynvml.NVML_CLOCK_MEM),
)


def _read(handle: DeviceHandle, draft: ReadingBuilder) -> None:
    for signal, clock in _CURRENT:
        draft.put(signal, handle.ask("nvmlDeviceGetClockInfo", clock), _MEGAHERTZ)


def _read_limits(handle: DeviceHandle, draft: ReadingBuilder) -> None:
    for signal, clock in _MAXIMUM:
        draft.put(signal, handle.ask_once("nvmlDeviceGetMaxClockInfo", clock), _MEGAHERTZ)
    for signal, clock in _APPLICATION:
        draft.put(signal, handle.ask("nvmlDeviceGetApplicationsClock", clock), _MEGAHERTZ)
    video = handle.ask("nvmlDeviceGetClockInfo", pynvml.NVML_CLOCK_VIDEO)
    draft.put(Signal.VIDEO_CLOCK_HERTZ, video, _MEGAHERTZ)


CLOCKS: Final = NvmlCollector("clocks", tuple(signal for signal, _ in _CURRENT), _read)
CLOCK_LIMITS: Final = NvmlCollector(
    "clock_limits",
    (*(signal for signal, _ in (*_MAXIMUM, *_APPLICATION)), Signal.VIDEO_CLOCK_HERTZ),
    _read_limits,
    is_slow=True,
    part_of="clocks",
)
