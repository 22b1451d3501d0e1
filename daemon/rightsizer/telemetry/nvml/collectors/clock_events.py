"""Why the clocks are what they are."""

from typing import Final

from rightsizer.domain.signal import Signal
from rightsizer.telemetry.nvml.collector import Collector
from rightsizer.telemetry.nvml.draft import Draft
from rightsizer.telemetry.nvml.handle import Handle

__all__ = ["CLOCK_EVENTS"]

# Drivers before R535 know the same mask by the second name.
_FORMS: Final = (
    ("nvmlDeviceGetCurrentClocksEventReasons",),
    ("nvmlDeviceGetCurrentClocksThrottleReasons",),
)


def _read(handle: Handle, draft: Draft) -> None:
    draft.put(Signal.CLOCK_EVENT_REASONS, handle.ask_first(*_FORMS))


CLOCK_EVENTS: Final = Collector(
    "clock_events", (Signal.CLOCK_EVENT_REASONS,), _read, part_of="clocks"
)
