"""Memory health: ECC errors, retired pages, remapped rows; and the recovery action."""

from operator import itemgetter
from typing import Any, Final

import pynvml
from msgspec.structs import replace

from rightsizer.model.values import Missing, Signal
from rightsizer.telemetry.nvml.collector import NvmlCollector, NvmlValue
from rightsizer.telemetry.nvml.handle import DeviceHandle
from rightsizer.telemetry.nvml.library import FieldKey, NvmlFailure
from rightsizer.telemetry.nvml.reading_builder import ReadingBuilder

_ECC: Final = "nvmlDeviceGetTotalEccErrors"
_MODE: Final = pynvml.NVML_FI_DEV_ECC_CURRENT
_OFF: Final = NvmlFailure(Missing.NOT_SUPPORTED, _ECC, "ECC is switched off")
_NOT_OF_INSTANCE: Final = NvmlFailure(
    Missing.NOT_SUPPORTED, _ECC, "the driver counts this for whole GPUs only"
)
_CORRECTED: Final = pynvml.NVML_MEMORY_ERROR_TYPE_CORRECTED
_UNCORRECTED: Final = pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED
# Since the driver was loaded (volatile), and over the board's life (aggregate).
_VOLATILE = pynvml.NVML_VOLATILE_ECC
_AGGREGATE = pynvml.NVML_AGGREGATE_ECC
_CORRECTED_NOW = pynvml.NVML_FI_DEV_ECC_SBE_VOL_TOTAL
_UNCORRECTED_NOW = pynvml.NVML_FI_DEV_ECC_DBE_VOL_TOTAL
_CORRECTED_EVER = pynvml.NVML_FI_DEV_ECC_SBE_AGG_TOTAL
_UNCORRECTED_EVER = pynvml.NVML_FI_DEV_ECC_DBE_AGG_TOTAL


def _ecc(signal: Signal, field: FieldKey, kind: int, counter: int) -> NvmlValue:
    return NvmlValue(signal, ((_ECC, kind, counter),), field)


_GPU_ERRORS: Final = NvmlCollector.of(
    "ecc",
    _ecc(Signal.ECC_CORRECTED_ERRORS, _CORRECTED_NOW, _CORRECTED, _VOLATILE),
    _ecc(Signal.ECC_UNCORRECTED_ERRORS, _UNCORRECTED_NOW, _UNCORRECTED, _VOLATILE),
    _ecc(Signal.ECC_CORRECTED_ERRORS_LIFETIME, _CORRECTED_EVER, _CORRECTED, _AGGREGATE),
    _ecc(Signal.ECC_UNCORRECTED_ERRORS_LIFETIME, _UNCORRECTED_EVER, _UNCORRECTED, _AGGREGATE),
)


def _read_ecc(handle: DeviceHandle, builder: ReadingBuilder) -> None:
    if handle.target.device.mig is not None:
        # For an instance the driver counts only volatile errors outside the memory chips.
        of = _UNCORRECTED, _VOLATILE, pynvml.NVML_MEMORY_LOCATION_SRAM
        counted = Signal.ECC_UNCORRECTED_ERRORS
        builder.put(counted, handle.ask("nvmlDeviceGetMemoryErrorCounter", *of))
        rest = (signal for signal in _GPU_ERRORS.signals if signal != counted)
        builder.fail_all(rest, _NOT_OF_INSTANCE)
    elif handle.field(_MODE) == 0:
        builder.fail_all(_GPU_ERRORS.signals, _OFF)
    else:
        _GPU_ERRORS.read(handle, builder)


ECC: Final = replace(
    _GPU_ERRORS,
    read=_read_ecc,
    fields=(_MODE, *_GPU_ERRORS.fields),
    is_slow=True,
    on_mig_instance=True,
    part_of="health",
)


def _retired(signal: Signal, field: FieldKey, cause: int) -> NvmlValue:
    # The function returns the addresses of the pages.
    return NvmlValue(signal, (("nvmlDeviceGetRetiredPages", cause),), field, part=len)


# Boards before Ampere retire bad pages; from Ampere on they remap rows to spare ones.
RETIRED_PAGES: Final = NvmlCollector.of(
    "retired_pages",
    _retired(
        Signal.RETIRED_PAGES_CORRECTABLE,
        pynvml.NVML_FI_DEV_RETIRED_SBE,
        pynvml.NVML_PAGE_RETIREMENT_CAUSE_MULTIPLE_SINGLE_BIT_ECC_ERRORS,
    ),
    _retired(
        Signal.RETIRED_PAGES_UNCORRECTABLE,
        pynvml.NVML_FI_DEV_RETIRED_DBE,
        pynvml.NVML_PAGE_RETIREMENT_CAUSE_DOUBLE_BIT_ECC_ERROR,
    ),
    NvmlValue(
        Signal.RETIRED_PAGES_PENDING,
        (("nvmlDeviceGetRetiredPagesPendingStatus",),),
        pynvml.NVML_FI_DEV_RETIRED_PENDING,
    ),
    is_slow=True,
    part_of="health",
)


def _remapped(place: int, signal: Signal, field: FieldKey) -> NvmlValue:
    part: Any = itemgetter(place)
    return NvmlValue(signal, (("nvmlDeviceGetRemappedRows",),), field, part=part)


REMAPPED_ROWS: Final = NvmlCollector.of(
    "remapped_rows",
    _remapped(0, Signal.REMAPPED_ROWS_CORRECTABLE, pynvml.NVML_FI_DEV_REMAPPED_COR),
    _remapped(1, Signal.REMAPPED_ROWS_UNCORRECTABLE, pynvml.NVML_FI_DEV_REMAPPED_UNC),
    _remapped(2, Signal.REMAPPED_ROWS_PENDING, pynvml.NVML_FI_DEV_REMAPPED_PENDING),
    _remapped(3, Signal.REMAPPED_ROWS_FAILED, pynvml.NVML_FI_DEV_REMAPPED_FAILURE),
    is_slow=True,
    part_of="health",
)
RECOVERY: Final = NvmlCollector.of(
    "recovery",
    # NVML_FI_DEV_GET_GPU_RECOVERY_ACTION; not named in the oldest supported bindings.
    NvmlValue(Signal.RECOVERY_ACTION, field=230),
    is_slow=True,
    part_of="health",
)
