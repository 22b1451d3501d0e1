"""The window through which PCIe reaches a GPU's memory: full, it stops RDMA and mappings."""

from typing import Final

from rightsizer.domain.signal import Signal
from rightsizer.telemetry.nvml.collector import Collector
from rightsizer.telemetry.nvml.draft import Draft
from rightsizer.telemetry.nvml.failure import Failure
from rightsizer.telemetry.nvml.handle import Handle

__all__ = ["BAR1"]

_PARTS: Final = ((Signal.BAR1_USED_BYTES, "bar1Used"), (Signal.BAR1_TOTAL_BYTES, "bar1Total"))


def _read(handle: Handle, draft: Draft) -> None:
    answer = handle.ask("nvmlDeviceGetBAR1MemoryInfo")
    for signal, part in _PARTS:
        draft.put(signal, answer if isinstance(answer, Failure) else getattr(answer, part))


BAR1: Final = Collector(
    "bar1", tuple(signal for signal, _ in _PARTS), _read, is_slow=True, part_of="memory"
)
