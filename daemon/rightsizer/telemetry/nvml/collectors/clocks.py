"""Clocks, their limits, reasons of the present clock, and the performance state."""

from typing import Final

import pynvml

from rightsizer.model.values import Missing, Signal
from rightsizer.telemetry.nvml.collector import NvmlCollector, NvmlValue
from rightsizer.telemetry.nvml.library import NvmlFailure

_MEGAHERTZ: Final = 1e6
_NOW: Final = "nvmlDeviceGetClockInfo"
_HIGHEST: Final = "nvmlDeviceGetMaxClockInfo"
_APPLICATION: Final = "nvmlDeviceGetApplicationsClock"
_SM = pynvml.NVML_CLOCK_SM
_MEMORY = pynvml.NVML_CLOCK_MEM
_VIDEO = pynvml.NVML_CLOCK_VIDEO
_STATE: Final = "nvmlDeviceGetPerformanceState"
_UNKNOWN: Final = NvmlFailure(Missing.NOT_SUPPORTED, _STATE, "the driver answers 'unknown'")


def _clock(signal: Signal, call: str, kind: int, *, is_constant: bool = False) -> NvmlValue:
    return NvmlValue(signal, ((call, kind),), scale=_MEGAHERTZ, is_constant=is_constant)


def _known_state(state: int) -> int | NvmlFailure:
    return _UNKNOWN if state == pynvml.NVML_PSTATE_UNKNOWN else state


CLOCKS: Final = NvmlCollector.of(
    "clocks",
    _clock(Signal.SM_CLOCK_HERTZ, _NOW, _SM),
    _clock(Signal.MEMORY_CLOCK_HERTZ, _NOW, _MEMORY),
)
CLOCK_LIMITS: Final = NvmlCollector.of(
    "clock_limits",
    _clock(Signal.SM_CLOCK_MAXIMUM_HERTZ, _HIGHEST, _SM, is_constant=True),
    _clock(Signal.MEMORY_CLOCK_MAXIMUM_HERTZ, _HIGHEST, _MEMORY, is_constant=True),
    # The bindings have no application clock of the SMs; the graphics clock drives them.
    _clock(Signal.SM_CLOCK_APPLICATION_HERTZ, _APPLICATION, pynvml.NVML_CLOCK_GRAPHICS),
    _clock(Signal.MEMORY_CLOCK_APPLICATION_HERTZ, _APPLICATION, _MEMORY),
    _clock(Signal.VIDEO_CLOCK_HERTZ, _NOW, _VIDEO),
    is_slow=True,
    part_of="clocks",
)
CLOCK_EVENTS: Final = NvmlCollector.of(
    "clock_events",
    NvmlValue(
        Signal.CLOCK_EVENT_REASONS,
        # Drivers before R535 have the same mask under the second name.
        (
            ("nvmlDeviceGetCurrentClocksEventReasons",),
            ("nvmlDeviceGetCurrentClocksThrottleReasons",),
        ),
    ),
    part_of="clocks",
)
# Slow, since datacenter boards idle in their highest state anyway.
PERFORMANCE_STATE: Final = NvmlCollector.of(
    "performance_state",
    NvmlValue(Signal.PERFORMANCE_STATE, ((_STATE,),), part=_known_state),
    is_slow=True,
    part_of="clocks",
)
