"""Framebuffer memory; used and free do not sum to the total, the driver keeps a part."""

from typing import Any, Final

import pynvml

from rightsizer.model.reading import Missing
from rightsizer.model.signal import Signal
from rightsizer.telemetry.nvml.collector import NvmlCollector
from rightsizer.telemetry.nvml.handle import DeviceHandle
from rightsizer.telemetry.nvml.library import NvmlFailure, is_blank
from rightsizer.telemetry.nvml.reading_builder import ReadingBuilder

_PARTS: Final = (
    (Signal.MEMORY_USED_BYTES, "used"),
    (Signal.MEMORY_TOTAL_BYTES, "total"),
    (Signal.MEMORY_FREE_BYTES, "free"),
    (Signal.MEMORY_RESERVED_BYTES, "reserved"),
)
# The first form counts the driver's own part as used; only older drivers need it.
_FORMS: Final = (
    ("nvmlDeviceGetMemoryInfo", pynvml.nvmlMemory_v2),
    ("nvmlDeviceGetMemoryInfo",),
)
_OLD: Final = NvmlFailure(
    Missing.NOT_SUPPORTED, "nvmlDeviceGetMemoryInfo", "the driver tells no reserved memory"
)

_CONTRADICTION: Final = NvmlFailure(
    Missing.INVALID, "nvmlDeviceGetMemoryInfo", "more is in use than there is, or there is none"
)


def _read(handle: DeviceHandle, draft: ReadingBuilder) -> None:
    answer = handle.ask_first(*_FORMS)
    if not isinstance(answer, NvmlFailure) and _is_contradiction(answer):
        answer = _CONTRADICTION
    for signal, part in _PARTS:
        draft.put(
            signal, answer if isinstance(answer, NvmlFailure) else getattr(answer, part, _OLD)
        )


def _is_contradiction(memory: Any) -> bool:
    """Whether what is used is more than there is, or there is none at all."""
    return not memory.total or (not is_blank(memory.used) and memory.used > memory.total)


MEMORY: Final = NvmlCollector(
    "memory",
    tuple(signal for signal, _ in _PARTS),
    _read,
    is_essential=True,
    on_mig_instance=True,
)
