"""Temperatures of the GPU and, where it has a sensor, of its memory, and the room above."""

from typing import Final

import pynvml

from rightsizer.model.reading import Missing
from rightsizer.model.signal import Signal
from rightsizer.telemetry.nvml.collector import NvmlCollector
from rightsizer.telemetry.nvml.handle import DeviceHandle
from rightsizer.telemetry.nvml.library import NvmlFailure
from rightsizer.telemetry.nvml.reading_builder import ReadingBuilder

_FORMS: Final = (
    ("nvmlDeviceGetTemperature", pynvml.NVML_TEMPERATURE_GPU),
    ("nvmlDeviceGetTemperatureV", pynvml.NVML_TEMPERATURE_GPU),
)
_NO_SENSOR: Final = NvmlFailure(
    Missing.NOT_SUPPORTED, "nvmlDeviceGetFieldValues", "0 degrees: there is no memory sensor"
)


def _read(handle: DeviceHandle, draft: ReadingBuilder) -> None:
    draft.put(Signal.TEMPERATURE_CELSIUS, handle.ask_first(*_FORMS))
    memory = handle.field(pynvml.NVML_FI_DEV_MEMORY_TEMP)
    draft.put(Signal.MEMORY_TEMPERATURE_CELSIUS, _NO_SENSOR if memory == 0 else memory)


def _read_margin(handle: DeviceHandle, draft: ReadingBuilder) -> None:
    # From Hopper on there are no fixed thresholds: the driver tells how far away they are, and
    # by how much they are passed.
    margin = handle.ask("nvmlDeviceGetMarginTemperature")
    draft.put(Signal.TEMPERATURE_MARGIN_CELSIUS, margin, may_be_negative=True)


TEMPERATURE: Final = NvmlCollector(
    "temperature",
    (Signal.TEMPERATURE_CELSIUS, Signal.MEMORY_TEMPERATURE_CELSIUS),
    _read,
    fields=(pynvml.NVML_FI_DEV_MEMORY_TEMP,),
)
TEMPERATURE_MARGIN: Final = NvmlCollector(
    "temperature_margin",
    (Signal.TEMPERATURE_MARGIN_CELSIUS,),
    _read_margin,
    is_slow=True,
    part_of="temperature",
)
