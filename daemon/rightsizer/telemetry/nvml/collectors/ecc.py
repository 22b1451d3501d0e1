"""ECC errors of GPUs, and of MIG instances."""

from typing import Final

import pynvml

from rightsizer.model.frozen import replace
from rightsizer.model.reading import Missing
from rightsizer.model.signal import Signal
from rightsizer.telemetry.nvml.collector import NvmlCollector
from rightsizer.telemetry.nvml.handle import DeviceHandle
from rightsizer.telemetry.nvml.library import NvmlFailure
from rightsizer.telemetry.nvml.reading_builder import ReadingBuilder

_ECC: Final = "nvmlDeviceGetTotalEccErrors"
_MODE: Final = pynvml.NVML_FI_DEV_ECC_CURRENT
_OFF: Final = NvmlFailure(Missing.NOT_SUPPORTED, _ECC, "ECC is switched off")
_NOT_OF_INSTANCE: Final = NvmlFailure(
    Missing.NOT_SUPPORTED, _ECC, "the driver counts this for whole GPUs only"
)
_INSTANCE_ERRORS: Final = (
    pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED,
    pynvml.NVML_VOLATILE_ECC,
    pynvml.NVML_MEMORY_LOCATION_SRAM,
)
_GPU_ERRORS: Final = NvmlCollector.listed("ecc")


def _read_ecc(handle: DeviceHandle, builder: ReadingBuilder) -> None:
    if handle.target.device.mig is not None:
        _read_instance(handle, builder)
    elif handle.field(_MODE) == 0:
        builder.fail_all(_GPU_ERRORS.signals, _OFF)
    else:
        _GPU_ERRORS.read(handle, builder)


def _read_instance(handle: DeviceHandle, builder: ReadingBuilder) -> None:
    """What the driver counts for instances: errors outside the memory chips, while it runs."""
    counted = Signal.ECC_UNCORRECTED_ERRORS
    builder.put(counted, handle.ask("nvmlDeviceGetMemoryErrorCounter", *_INSTANCE_ERRORS))
    builder.fail_all((each for each in _GPU_ERRORS.signals if each != counted), _NOT_OF_INSTANCE)


ECC: Final = replace(_GPU_ERRORS, read=_read_ecc, fields=(_MODE, *_GPU_ERRORS.fields))
