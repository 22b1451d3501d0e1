"""Clocks, their limits, why they are what they are, and the performance state."""

from typing import Final

import pynvml

from rightsizer.model.reading import Missing
from rightsizer.model.signal import Signal
from rightsizer.telemetry.nvml.collector import NvmlCollector, NvmlValue
from rightsizer.telemetry.nvml.handle import DeviceHandle
from rightsizer.telemetry.nvml.library import NvmlFailure
from rightsizer.telemetry.nvml.reading_builder import ReadingBuilder

_MEGAHERTZ: Final = 1e6
_NOW: Final = "nvmlDeviceGetClockInfo"
_HIGHEST: Final = "nvmlDeviceGetMaxClockInfo"
_APPLICATION: Final = "nvmlDeviceGetApplicationsClock"
_SM, _MEMORY, _VIDEO, _GRAPHICS = (
    pynvml.NVML_CLOCK_SM,
    pynvml.NVML_CLOCK_MEM,
    pynvml.NVML_CLOCK_VIDEO,
    pynvml.NVML_CLOCK_GRAPHICS,
)
_MAXIMUM: Final = {
    Signal.SM_CLOCK_MAXIMUM_HERTZ: _SM,
    Signal.MEMORY_CLOCK_MAXIMUM_HERTZ: _MEMORY,
}
_OTHERS: Final = (
    # The bindings know no application clock of the SMs; the graphics clock drives them.
    (Signal.SM_CLOCK_APPLICATION_HERTZ, _APPLICATION, _GRAPHICS),
    (Signal.MEMORY_CLOCK_APPLICATION_HERTZ, _APPLICATION, _MEMORY),
    (Signal.VIDEO_CLOCK_HERTZ, _NOW, _VIDEO),
)
_STATE: Final = "nvmlDeviceGetPerformanceState"
_UNKNOWN: Final = NvmlFailure(Missing.NOT_SUPPORTED, _STATE, "the driver answers 'unknown'")


def _read_limits(handle: DeviceHandle, builder: ReadingBuilder) -> None:
    for signal, clock in _MAXIMUM.items():
        builder.put(signal, handle.ask_once(_HIGHEST, clock), _MEGAHERTZ)
    for signal, call, clock in _OTHERS:
        builder.put(signal, handle.ask(call, clock), _MEGAHERTZ)


def _known_state(state: int) -> int | NvmlFailure:
    return _UNKNOWN if state == pynvml.NVML_PSTATE_UNKNOWN else state


CLOCKS: Final = NvmlCollector.of(
    "clocks",
    NvmlValue(Signal.SM_CLOCK_HERTZ, ((_NOW, _SM),), scale=_MEGAHERTZ),
    NvmlValue(Signal.MEMORY_CLOCK_HERTZ, ((_NOW, _MEMORY),), scale=_MEGAHERTZ),
)
CLOCK_LIMITS: Final = NvmlCollector(
    "clock_limits",
    (*_MAXIMUM, *(signal for signal, _, _ in _OTHERS)),
    _read_limits,
    is_slow=True,
    part_of="clocks",
)
CLOCK_EVENTS: Final = NvmlCollector.of(
    "clock_events",
    NvmlValue(
        Signal.CLOCK_EVENT_REASONS,
        # Drivers before R535 know the same mask by the second name.
        (
            ("nvmlDeviceGetCurrentClocksEventReasons",),
            ("nvmlDeviceGetCurrentClocksThrottleReasons",),
        ),
    ),
    part_of="clocks",
)
# Datacenter boards idle in their highest state.
PERFORMANCE_STATE: Final = NvmlCollector.of(
    "performance_state",
    NvmlValue(Signal.PERFORMANCE_STATE, ((_STATE,),), part=_known_state),
    is_slow=True,
    part_of="clocks",
)
