"""Framebuffer memory; used and free do not sum to the total, the driver keeps a part."""

from typing import Final

import pynvml

from rightsizer.domain.signal import Signal
from rightsizer.telemetry.nvml.collector import Collector
from rightsizer.telemetry.nvml.draft import Draft
from rightsizer.telemetry.nvml.failure import Failure
from rightsizer.telemetry.nvml.handle import Handle

__all__ = ["MEMORY"]

_SIGNALS: Final = (
    Signal.MEMORY_USED_BYTES,
    Signal.MEMORY_TOTAL_BYTES,
    Signal.MEMORY_RESERVED_BYTES,
)
# The first form counts the driver's own part as used; only older drivers need it.
_FORMS: Final = (
    ("nvmlDeviceGetMemoryInfo", pynvml.nvmlMemory_v2),
    ("nvmlDeviceGetMemoryInfo",),
)


def _read(handle: Handle, draft: Draft) -> None:
    answer = handle.ask_first(*_FORMS)
    if isinstance(answer, Failure):
        for signal in _SIGNALS:
            draft.fail(signal, answer)
        return
    draft.put(Signal.MEMORY_USED_BYTES, answer.used, 1.0)
    draft.put(Signal.MEMORY_TOTAL_BYTES, answer.total, 1.0)
    if hasattr(answer, "reserved"):
        draft.put(Signal.MEMORY_RESERVED_BYTES, answer.reserved, 1.0)


MEMORY: Final = Collector("memory", _SIGNALS, _read, on_mig_instance=True)
