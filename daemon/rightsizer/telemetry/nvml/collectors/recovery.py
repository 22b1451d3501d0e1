"""What the driver says would repair the GPU."""

from typing import Final

from rightsizer.model.signal import Signal
from rightsizer.telemetry.nvml.collector import NvmlCollector
from rightsizer.telemetry.nvml.handle import DeviceHandle
from rightsizer.telemetry.nvml.reading_builder import ReadingBuilder

# NVML_FI_DEV_GET_GPU_RECOVERY_ACTION; the oldest bindings that are allowed do not name it yet.
_ACTION: Final = 230


def _read(handle: DeviceHandle, draft: ReadingBuilder) -> None:
    draft.put(Signal.RECOVERY_ACTION, handle.field(_ACTION))


RECOVERY: Final = NvmlCollector(
    "recovery", (Signal.RECOVERY_ACTION,), _read, fields=(_ACTION,), is_slow=True, part_of="health"
)
