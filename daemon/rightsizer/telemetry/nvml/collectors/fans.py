"""The fastest of a board's fans; passive boards have none."""

from typing import Any, Final

from rightsizer.domain.reading import Missing
from rightsizer.domain.signal import Signal
from rightsizer.telemetry.nvml.blank import is_blank
from rightsizer.telemetry.nvml.collector import Collector
from rightsizer.telemetry.nvml.draft import Draft
from rightsizer.telemetry.nvml.failure import Failure
from rightsizer.telemetry.nvml.handle import Handle

__all__ = ["FANS"]

_MOST_ABOVE_MAXIMUM: Final = 1.0
"""The driver counts in parts of the intended maximum, which a fan may pass (NVML API reference,
nvmlDeviceGetFanSpeed)."""


_NO_FAN: Final = Failure(Missing.NOT_SUPPORTED, "nvmlDeviceGetNumFans", "the board has no fan")


def _read(handle: Handle, draft: Draft) -> None:
    draft.put_percent(Signal.FAN_SPEED, _fastest(handle), _MOST_ABOVE_MAXIMUM)


def _fastest(handle: Handle) -> Any:
    count = handle.ask_once("nvmlDeviceGetNumFans")
    if isinstance(count, Failure) or is_blank(count):
        return handle.ask("nvmlDeviceGetFanSpeed")
    speeds = [handle.ask("nvmlDeviceGetFanSpeed_v2", fan) for fan in range(count)]
    known = [speed for speed in speeds if not isinstance(speed, Failure)]
    return max(known) if known else next(iter(speeds), _NO_FAN)


FANS: Final = Collector("fans", (Signal.FAN_SPEED,), _read, is_slow=True, part_of="temperature")
