"""What the driver says would repair the GPU."""

from typing import Final

from rightsizer.domain.signal import Signal
from rightsizer.telemetry.nvml.collector import Collector
from rightsizer.telemetry.nvml.draft import Draft
from rightsizer.telemetry.nvml.handle import Handle

__all__ = ["RECOVERY"]

# NVML_FI_DEV_GET_GPU_RECOVERY_ACTION; the oldest bindings that are allowed do not name it yet.
_ACTION: Final = 230


def _read(handle: Handle, draft: Draft) -> None:
    draft.put(Signal.RECOVERY_ACTION, handle.field(_ACTION))


RECOVERY: Final = Collector(
    "recovery", (Signal.RECOVERY_ACTION,), _read, fields=(_ACTION,), is_slow=True, part_of="health"
)
