"""Why the clocks are what they are."""

from typing import Final

from rightsizer.model.signal import Signal
from rightsizer.telemetry.nvml.collector import NvmlCollector
from rightsizer.telemetry.nvml.handle import DeviceHandle
from rightsizer.telemetry.nvml.reading_builder import ReadingBuilder

# Drivers before R535 know the same mask by the second name.
_FORMS: Final = (
    ("nvmlDeviceGetCurrentClocksEventReasons",),
    ("nvmlDeviceGetCurrentClocksThrottleReasons",),
)


def _read(handle: DeviceHandle, draft: ReadingBuilder) -> None:
    draft.put(Signal.CLOCK_EVENT_REASONS, handle.ask_first(*_FORMS))


CLOCK_EVENTS: Final = NvmlCollector(
    "clock_events", (Signal.CLOCK_EVENT_REASONS,), _read, part_of="clocks"
)
