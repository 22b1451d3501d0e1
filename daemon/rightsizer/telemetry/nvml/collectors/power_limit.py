"""The power limit in force: the least of the operator's and what board and chassis allow."""

from typing import Final

from rightsizer.model.signal import Signal
from rightsizer.telemetry.nvml.collector import NvmlCollector
from rightsizer.telemetry.nvml.handle import DeviceHandle
from rightsizer.telemetry.nvml.reading_builder import ReadingBuilder

_FORMS: Final = (("nvmlDeviceGetEnforcedPowerLimit",), ("nvmlDeviceGetPowerManagementLimit",))


def _read(handle: DeviceHandle, draft: ReadingBuilder) -> None:
    draft.put(Signal.POWER_LIMIT_WATTS, handle.ask_first(*_FORMS), 1e-3)


POWER_LIMIT: Final = NvmlCollector(
    "power_limit", (Signal.POWER_LIMIT_WATTS,), _read, is_slow=True, part_of="power"
)
