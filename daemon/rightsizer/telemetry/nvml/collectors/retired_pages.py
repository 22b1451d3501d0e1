"""Memory pages taken out of use: how boards before Ampere deal with bad memory."""

from typing import Final

import pynvml

from rightsizer.model.signal import Signal
from rightsizer.telemetry.nvml.collector import NvmlCollector
from rightsizer.telemetry.nvml.handle import DeviceHandle
from rightsizer.telemetry.nvml.library import NvmlFailure
from rightsizer.telemetry.nvml.reading_builder import ReadingBuilder

_CAUSES: Final = (
    (
        Signal.RETIRED_PAGES_CORRECTABLE,
        pynvml.NVML_FI_DEV_RETIRED_SBE,
        pynvml.NVML_PAGE_RETIREMENT_CAUSE_MULTIPLE_SINGLE_BIT_ECC_ERRORS,
    ),
    (
        Signal.RETIRED_PAGES_UNCORRECTABLE,
        pynvml.NVML_FI_DEV_RETIRED_DBE,
        pynvml.NVML_PAGE_RETIREMENT_CAUSE_DOUBLE_BIT_ECC_ERROR,
    ),
)
_PENDING: Final = pynvml.NVML_FI_DEV_RETIRED_PENDING


def _read(handle: DeviceHandle, draft: ReadingBuilder) -> None:
    for signal, field, cause in _CAUSES:
        answer = handle.field_or_ask(field, "nvmlDeviceGetRetiredPages", cause)
        # The function lists the pages' addresses.
        draft.put(signal, len(answer) if isinstance(answer, list) else answer)
    pending = handle.field_or_ask(_PENDING, "nvmlDeviceGetRetiredPagesPendingStatus")
    draft.put(
        Signal.RETIRED_PAGES_PENDING, pending if isinstance(pending, NvmlFailure) else bool(pending)
    )


RETIRED_PAGES: Final = NvmlCollector(
    "retired_pages",
    (*(signal for signal, _, _ in _CAUSES), Signal.RETIRED_PAGES_PENDING),
    _read,
    fields=(*(field for _, field, _ in _CAUSES), _PENDING),
    is_slow=True,
    part_of="health",
)
