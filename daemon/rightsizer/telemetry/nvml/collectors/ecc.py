"""Memory errors: since the driver was loaded (volatile) and in the board's life (aggregate)."""

from dataclasses import dataclass
from typing import Final

import pynvml

from rightsizer.model.reading import Missing
from rightsizer.model.signal import Signal
from rightsizer.telemetry.nvml.collector import NvmlCollector
from rightsizer.telemetry.nvml.handle import DeviceHandle
from rightsizer.telemetry.nvml.library import NvmlFailure
from rightsizer.telemetry.nvml.reading_builder import ReadingBuilder

_CALL: Final = "nvmlDeviceGetTotalEccErrors"
_MODE: Final = pynvml.NVML_FI_DEV_ECC_CURRENT
_OFF: Final = NvmlFailure(Missing.NOT_SUPPORTED, _CALL, "ECC is switched off")
_NOT_OF_INSTANCE: Final = NvmlFailure(
    Missing.NOT_SUPPORTED, _CALL, "the driver counts this for whole GPUs only"
)


@dataclass(frozen=True, slots=True)
class _Count:
    """A signal, NVML's field for it, and how the function of older drivers names it."""

    signal: Signal
    field: int
    kind: int
    counter: int


_CORRECTED, _UNCORRECTED = (
    pynvml.NVML_MEMORY_ERROR_TYPE_CORRECTED,
    pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED,
)
_VOLATILE, _AGGREGATE = pynvml.NVML_VOLATILE_ECC, pynvml.NVML_AGGREGATE_ECC
_COUNTS: Final = (
    _Count(
        Signal.ECC_CORRECTED_ERRORS, pynvml.NVML_FI_DEV_ECC_SBE_VOL_TOTAL, _CORRECTED, _VOLATILE
    ),
    _Count(
        Signal.ECC_UNCORRECTED_ERRORS, pynvml.NVML_FI_DEV_ECC_DBE_VOL_TOTAL, _UNCORRECTED, _VOLATILE
    ),
    _Count(
        Signal.ECC_CORRECTED_ERRORS_LIFETIME,
        pynvml.NVML_FI_DEV_ECC_SBE_AGG_TOTAL,
        _CORRECTED,
        _AGGREGATE,
    ),
    _Count(
        Signal.ECC_UNCORRECTED_ERRORS_LIFETIME,
        pynvml.NVML_FI_DEV_ECC_DBE_AGG_TOTAL,
        _UNCORRECTED,
        _AGGREGATE,
    ),
)
_SIGNALS: Final = tuple(count.signal for count in _COUNTS)


def _read(handle: DeviceHandle, draft: ReadingBuilder) -> None:
    if handle.target.device.mig is None:
        _read_gpu(handle, draft)
    else:
        _read_instance(handle, draft)


def _read_gpu(handle: DeviceHandle, draft: ReadingBuilder) -> None:
    if handle.field(_MODE) == 0:
        for count in _COUNTS:
            draft.fail(count.signal, _OFF)
        return
    for count in _COUNTS:
        answer = handle.field_or_ask(count.field, _CALL, count.kind, count.counter)
        draft.put(count.signal, answer)


def _read_instance(handle: DeviceHandle, draft: ReadingBuilder) -> None:
    """What the driver counts for instances: errors outside the memory chips, while it runs."""
    answer = handle.ask(
        "nvmlDeviceGetMemoryErrorCounter", _UNCORRECTED, _VOLATILE, pynvml.NVML_MEMORY_LOCATION_SRAM
    )
    draft.put(Signal.ECC_UNCORRECTED_ERRORS, answer)
    for signal in _SIGNALS:
        if signal is not Signal.ECC_UNCORRECTED_ERRORS:
            draft.fail(signal, _NOT_OF_INSTANCE)


ECC: Final = NvmlCollector(
    "ecc",
    _SIGNALS,
    _read,
    fields=(_MODE, *(count.field for count in _COUNTS)),
    is_slow=True,
    on_mig_instance=True,
    part_of="health",
)
