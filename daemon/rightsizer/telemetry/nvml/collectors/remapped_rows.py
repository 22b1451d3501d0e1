"""Memory rows replaced by spare ones: how boards from Ampere on deal with bad memory."""

from typing import Final

import pynvml

from rightsizer.model.signal import Signal
from rightsizer.telemetry.nvml.collector import NvmlCollector
from rightsizer.telemetry.nvml.handle import DeviceHandle
from rightsizer.telemetry.nvml.reading_builder import ReadingBuilder

_FIELDS: Final = (
    (Signal.REMAPPED_ROWS_CORRECTABLE, pynvml.NVML_FI_DEV_REMAPPED_COR),
    (Signal.REMAPPED_ROWS_UNCORRECTABLE, pynvml.NVML_FI_DEV_REMAPPED_UNC),
    (Signal.REMAPPED_ROWS_PENDING, pynvml.NVML_FI_DEV_REMAPPED_PENDING),
    (Signal.REMAPPED_ROWS_FAILED, pynvml.NVML_FI_DEV_REMAPPED_FAILURE),
)
"""In the order in which the function gives them."""


def _read(handle: DeviceHandle, draft: ReadingBuilder) -> None:
    for place, (signal, field) in enumerate(_FIELDS):
        answer = handle.field_or_ask(field, "nvmlDeviceGetRemappedRows")
        draft.put(signal, answer[place] if isinstance(answer, tuple) else answer)


REMAPPED_ROWS: Final = NvmlCollector(
    "remapped_rows",
    tuple(signal for signal, _ in _FIELDS),
    _read,
    fields=tuple(field for _, field in _FIELDS),
    is_slow=True,
    part_of="health",
)
