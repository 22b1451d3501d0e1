"""The window through which PCIe reaches a GPU's memory: full, it stops RDMA and mappings."""

from typing import Final

from rightsizer.model.signal import Signal
from rightsizer.telemetry.nvml.collector import NvmlCollector
from rightsizer.telemetry.nvml.handle import DeviceHandle
from rightsizer.telemetry.nvml.library import NvmlFailure
from rightsizer.telemetry.nvml.reading_builder import ReadingBuilder

_PARTS: Final = ((Signal.BAR1_USED_BYTES, "bar1Used"), (Signal.BAR1_TOTAL_BYTES, "bar1Total"))


def _read(handle: DeviceHandle, draft: ReadingBuilder) -> None:
    answer = handle.ask("nvmlDeviceGetBAR1MemoryInfo")
    for signal, part in _PARTS:
        draft.put(signal, answer if isinstance(answer, NvmlFailure) else getattr(answer, part))


BAR1: Final = NvmlCollector(
    "bar1", tuple(signal for signal, _ in _PARTS), _read, is_slow=True, part_of="memory"
)
