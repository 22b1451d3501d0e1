"""The fastest of a board's fans; passive boards have none."""

from typing import Any, Final

from rightsizer.model.reading import Missing
from rightsizer.model.signal import Signal
from rightsizer.telemetry.nvml.collector import NvmlCollector
from rightsizer.telemetry.nvml.handle import DeviceHandle
from rightsizer.telemetry.nvml.library import NvmlFailure, is_blank
from rightsizer.telemetry.nvml.reading_builder import ReadingBuilder

_MOST_ABOVE_MAXIMUM: Final = 1.0
"""The driver counts in parts of the intended maximum, which a fan may pass (NVML API reference,
nvmlDeviceGetFanSpeed)."""


_NO_FAN: Final = NvmlFailure(Missing.NOT_SUPPORTED, "nvmlDeviceGetNumFans", "the board has no fan")


def _read(handle: DeviceHandle, draft: ReadingBuilder) -> None:
    draft.put_percent(Signal.FAN_SPEED, _fastest(handle), _MOST_ABOVE_MAXIMUM)


def _fastest(handle: DeviceHandle) -> Any:
    count = handle.ask_once("nvmlDeviceGetNumFans")
    if isinstance(count, NvmlFailure) or is_blank(count):
        return handle.ask("nvmlDeviceGetFanSpeed")
    speeds = [handle.ask("nvmlDeviceGetFanSpeed_v2", fan) for fan in range(count)]
    known = [speed for speed in speeds if not isinstance(speed, NvmlFailure)]
    return max(known) if known else next(iter(speeds), _NO_FAN)


FANS: Final = NvmlCollector("fans", (Signal.FAN_SPEED,), _read, is_slow=True, part_of="temperature")
