"""PCIe packets sent again: a link that is going bad."""

from typing import Final

import pynvml

from rightsizer.model.signal import Signal
from rightsizer.telemetry.nvml.collector import NvmlCollector
from rightsizer.telemetry.nvml.handle import DeviceHandle
from rightsizer.telemetry.nvml.reading_builder import ReadingBuilder

_FIELD: Final = pynvml.NVML_FI_DEV_PCIE_REPLAY_COUNTER


def _read(handle: DeviceHandle, draft: ReadingBuilder) -> None:
    replays = handle.field_or_ask(_FIELD, "nvmlDeviceGetPcieReplayCounter")
    draft.put(Signal.PCIE_REPLAYS, replays)


PCIE_REPLAYS: Final = NvmlCollector(
    "pcie_replays", (Signal.PCIE_REPLAYS,), _read, fields=(_FIELD,), is_slow=True, part_of="pcie"
)
