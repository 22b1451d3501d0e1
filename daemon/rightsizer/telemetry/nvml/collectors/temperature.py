"""Temperatures of the GPU and, where it has a sensor, of its memory, and the room above."""

from typing import Final

import pynvml

from rightsizer.domain.reading import Missing
from rightsizer.domain.signal import Signal
from rightsizer.telemetry.nvml.collector import Collector
from rightsizer.telemetry.nvml.draft import Draft
from rightsizer.telemetry.nvml.failure import Failure
from rightsizer.telemetry.nvml.handle import Handle

__all__ = ["TEMPERATURE", "TEMPERATURE_MARGIN"]

_FORMS: Final = (
    ("nvmlDeviceGetTemperature", pynvml.NVML_TEMPERATURE_GPU),
    ("nvmlDeviceGetTemperatureV", pynvml.NVML_TEMPERATURE_GPU),
)
_NO_SENSOR: Final = Failure(
    Missing.NOT_SUPPORTED, "nvmlDeviceGetFieldValues", "0 degrees: there is no memory sensor"
)


def _read(handle: Handle, draft: Draft) -> None:
    draft.put(Signal.TEMPERATURE_CELSIUS, handle.ask_first(*_FORMS))
    memory = handle.field(pynvml.NVML_FI_DEV_MEMORY_TEMP)
    draft.put(Signal.MEMORY_TEMPERATURE_CELSIUS, _NO_SENSOR if memory == 0 else memory)


def _read_margin(handle: Handle, draft: Draft) -> None:
    # From Hopper on there are no fixed thresholds: the driver tells how far away they are, and
    # by how much they are passed.
    margin = handle.ask("nvmlDeviceGetMarginTemperature")
    draft.put(Signal.TEMPERATURE_MARGIN_CELSIUS, margin, may_be_negative=True)


TEMPERATURE: Final = Collector(
    "temperature",
    (Signal.TEMPERATURE_CELSIUS, Signal.MEMORY_TEMPERATURE_CELSIUS),
    _read,
    fields=(pynvml.NVML_FI_DEV_MEMORY_TEMP,),
)
TEMPERATURE_MARGIN: Final = Collector(
    "temperature_margin",
    (Signal.TEMPERATURE_MARGIN_CELSIUS,),
    _read_margin,
    is_slow=True,
    part_of="temperature",
)
