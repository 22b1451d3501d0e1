"""Temperatures of GPU and memory, margin to the slowdown, and speed of the fastest fan."""

from typing import Final

import pynvml

from rightsizer.model.values import Missing, Signal
from rightsizer.telemetry.nvml.collector import NvmlCollector, NvmlValue
from rightsizer.telemetry.nvml.handle import DeviceHandle
from rightsizer.telemetry.nvml.library import NvmlFailure
from rightsizer.telemetry.nvml.reading_builder import ReadingBuilder

_CALLS: Final = (
    ("nvmlDeviceGetTemperature", pynvml.NVML_TEMPERATURE_GPU),
    ("nvmlDeviceGetTemperatureV", pynvml.NVML_TEMPERATURE_GPU),
)
_MEMORY: Final = pynvml.NVML_FI_DEV_MEMORY_TEMP
_NO_SENSOR: Final = NvmlFailure(
    Missing.NOT_SUPPORTED, "nvmlDeviceGetFieldValues", "0 degrees: there is no memory sensor"
)
_NO_FAN: Final = NvmlFailure(Missing.NOT_SUPPORTED, "nvmlDeviceGetNumFans", "the board has no fan")
_FANS_MAXIMUM: Final = 16
"""A driver that counts more answers nonsense."""
_FAN_OVERSHOOT_RATIO: Final = 1.0
"""Speed is a percentage of the intended maximum, which a fan may exceed (NVML API reference,
nvmlDeviceGetFanSpeed)."""


def _read(handle: DeviceHandle, builder: ReadingBuilder) -> None:
    builder.put(Signal.TEMPERATURE_CELSIUS, handle.ask_first(*_CALLS))
    memory = handle.field(_MEMORY)
    builder.put(Signal.MEMORY_TEMPERATURE_CELSIUS, _NO_SENSOR if memory == 0 else memory)


def _read_fans(handle: DeviceHandle, builder: ReadingBuilder) -> None:
    count = handle.ask_once("nvmlDeviceGetNumFans")
    if isinstance(count, NvmlFailure) or count > _FANS_MAXIMUM:
        fastest = handle.ask("nvmlDeviceGetFanSpeed")
    else:
        speeds = [handle.ask("nvmlDeviceGetFanSpeed_v2", fan) for fan in range(count)]
        known_speeds = [speed for speed in speeds if not isinstance(speed, NvmlFailure)]
        fastest = max(known_speeds) if known_speeds else next(iter(speeds), _NO_FAN)
    builder.put_percent(Signal.FAN_SPEED, fastest, _FAN_OVERSHOOT_RATIO)


TEMPERATURE: Final = NvmlCollector(
    "temperature",
    (Signal.TEMPERATURE_CELSIUS, Signal.MEMORY_TEMPERATURE_CELSIUS),
    _read,
    fields=(_MEMORY,),
)
# From Hopper on there are no fixed thresholds: the driver reports the distance to them, negative
# beyond.
TEMPERATURE_MARGIN: Final = NvmlCollector.of(
    "temperature_margin",
    NvmlValue(Signal.TEMPERATURE_MARGIN_CELSIUS, (("nvmlDeviceGetMarginTemperature",),)),
    is_slow=True,
    part_of="temperature",
)
FANS: Final = NvmlCollector(
    "fans", (Signal.FAN_SPEED,), _read_fans, is_slow=True, part_of="temperature"
)
