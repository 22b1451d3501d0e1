"""Framebuffer memory, where used and free do not sum to the total, and the BAR1 window."""

from typing import Final

import pynvml

from rightsizer.model.reading import Missing
from rightsizer.model.signal import Signal
from rightsizer.telemetry.nvml.collector import NvmlCollector
from rightsizer.telemetry.nvml.handle import DeviceHandle
from rightsizer.telemetry.nvml.library import NvmlFailure, is_blank
from rightsizer.telemetry.nvml.reading_builder import ReadingBuilder

_CALL: Final = "nvmlDeviceGetMemoryInfo"
_PARTS: Final = {
    Signal.MEMORY_USED_BYTES: "used",
    Signal.MEMORY_TOTAL_BYTES: "total",
    Signal.MEMORY_FREE_BYTES: "free",
    Signal.MEMORY_RESERVED_BYTES: "reserved",
}
# A full BAR1 blocks RDMA and mappings.
_BAR1: Final = {Signal.BAR1_USED_BYTES: "bar1Used", Signal.BAR1_TOTAL_BYTES: "bar1Total"}
_CONTRADICTION: Final = NvmlFailure(
    Missing.INVALID, _CALL, "more is in use than there is, or there is none"
)


def _read(handle: DeviceHandle, builder: ReadingBuilder) -> None:
    # Version 1, for older drivers only, counts the driver's reserved memory as used.
    answer = handle.ask_first((_CALL, pynvml.nvmlMemory_v2), (_CALL,))
    if not isinstance(answer, NvmlFailure):
        used, total = answer.used, answer.total
        if not total or (used > total and not is_blank(used)):
            answer = _CONTRADICTION
    builder.put_parts(_PARTS, answer)


MEMORY: Final = NvmlCollector(
    "memory", tuple(_PARTS), _read, is_essential=True, on_mig_instance=True
)
BAR1: Final = NvmlCollector(
    "bar1",
    tuple(_BAR1),
    lambda handle, builder: builder.put_parts(_BAR1, handle.ask("nvmlDeviceGetBAR1MemoryInfo")),
    is_slow=True,
    part_of="memory",
)
