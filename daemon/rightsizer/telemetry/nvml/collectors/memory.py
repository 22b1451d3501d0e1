"""Framebuffer memory, where used and free do not sum to the total, and the BAR1 window."""

import re
from typing import Any, Final

import pynvml

from rightsizer.host.files import read_file
from rightsizer.model.values import Missing, Signal
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
_BAR1_CALL: Final = "nvmlDeviceGetBAR1MemoryInfo"
# A full BAR1 blocks RDMA and mappings.
_BAR1: Final = {Signal.BAR1_USED_BYTES: "bar1Used", Signal.BAR1_TOTAL_BYTES: "bar1Total"}
_KIBIBYTE: Final = 2**10
_FILE_PAGES: Final = re.compile(r"\bFilePages:\s*(\d+) kB")


def _checked(answer: Any, call: str, used: str, total: str) -> Any:
    """Return a structure of amounts, or that it contradicts itself."""
    if isinstance(answer, NvmlFailure) or is_blank(getattr(answer, used)):
        return answer
    if 0 < getattr(answer, total) >= getattr(answer, used):
        return answer
    return NvmlFailure(Missing.INVALID, call, "more is in use than there is, or there is none")


def _file_pages_bytes(handle: DeviceHandle) -> int:
    """Page cache in the GPU's memory, where that is a NUMA node of the kernel (GH200, GB200).

    The driver counts it as used (TensorRT-LLM#13955), but it yields to what asks for memory.
    """
    node = handle.target.device.facts.get("numa_node_id")
    if node is None:
        return 0
    file = handle.sysfs / f"devices/system/node/node{node}/meminfo"
    pages = _FILE_PAGES.search(read_file(file) or "")
    return _KIBIBYTE * int(pages[1]) if pages else 0


def _read(handle: DeviceHandle, builder: ReadingBuilder) -> None:
    # Version 1, for older drivers only, counts the driver's reserved memory as used.
    answer = handle.ask_first((_CALL, pynvml.nvmlMemory_v2), (_CALL,))
    answer = _checked(answer, _CALL, "used", "total")
    if not isinstance(answer, NvmlFailure) and (cache := _file_pages_bytes(handle)):
        cache = min(cache, answer.used)
        answer.used = answer.used - cache
        answer.free = answer.free + cache
    builder.put_parts(_PARTS, "total", answer)


def _read_bar1(handle: DeviceHandle, builder: ReadingBuilder) -> None:
    answer = _checked(handle.ask(_BAR1_CALL), _BAR1_CALL, "bar1Used", "bar1Total")
    builder.put_parts(_BAR1, "bar1Total", answer)


MEMORY: Final = NvmlCollector(
    "memory", tuple(_PARTS), _read, is_essential=True, on_mig_instance=True
)
BAR1: Final = NvmlCollector(
    "bar1",
    tuple(_BAR1),
    _read_bar1,
    is_slow=True,
    part_of="memory",
)
