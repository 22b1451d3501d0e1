"""PCIe packets sent again: a link that is going bad."""

from typing import Final

import pynvml

from rightsizer.domain.signal import Signal
from rightsizer.telemetry.nvml.collector import Collector
from rightsizer.telemetry.nvml.draft import Draft
from rightsizer.telemetry.nvml.handle import Handle

__all__ = ["PCIE_REPLAYS"]

_FIELD: Final = pynvml.NVML_FI_DEV_PCIE_REPLAY_COUNTER


def _read(handle: Handle, draft: Draft) -> None:
    replays = handle.field_or_ask(_FIELD, "nvmlDeviceGetPcieReplayCounter")
    draft.put(Signal.PCIE_REPLAYS, replays)


PCIE_REPLAYS: Final = Collector(
    "pcie_replays", (Signal.PCIE_REPLAYS,), _read, fields=(_FIELD,), is_slow=True, part_of="pcie"
)
