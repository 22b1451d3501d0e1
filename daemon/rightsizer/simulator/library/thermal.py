"""Temperatures, their thresholds, and fans."""

from typing import Any, Final

from rightsizer.simulator.library.calls import Functions, NvmlCode, number, one_of, put, versioned
from rightsizer.simulator.library.driver import SimulatedHandle, structure, value, values
from rightsizer.simulator.physics import HIGHEST_CELSIUS, SHUTDOWN_CELSIUS, SLOWDOWN_CELSIUS
from rightsizer.simulator.support import BoardFeature

_TEMPERATURE_VERSION_1: Final = 0x100000C
_MARGIN_VERSION_1: Final = 0x1000008
_THRESHOLDS: Final = {0: SHUTDOWN_CELSIUS, 1: SLOWDOWN_CELSIUS, 3: HIGHEST_CELSIUS}
"""Shutdown, slowdown, highest for the GPU; the memory's is only there with a sensor."""
_MEMORY_THRESHOLD: Final = 2
_MEMORY_HIGHEST: Final = 95
_ONLY_ONE: Final = (0,)
"""The GPU has one sensor and one fan."""
_LOWEST_FAN_PERCENT: Final = 30
_FAN_VERSION_1: Final = 0x100000C
_TURNS_AT_FULL_SPEED: Final = 3200


def _celsius(device: SimulatedHandle) -> int:
    return round(device.state.electrical.temperature_celsius)


def _temperature(device: SimulatedHandle, sensor: Any, celsius: Any) -> None:
    one_of(sensor, _ONLY_ONE)
    put(celsius, _celsius(device))


def _temperature_1(device: SimulatedHandle, request: Any) -> None:
    target = versioned(request, _TEMPERATURE_VERSION_1)
    one_of(target.sensorType, _ONLY_ONE)
    target.temperature = _celsius(device)


def _threshold(device: SimulatedHandle, threshold: Any, celsius: Any) -> None:
    wanted = number(threshold)
    device.need(BoardFeature.TEMPERATURE_THRESHOLDS)
    if wanted == _MEMORY_THRESHOLD:
        device.need(BoardFeature.MEMORY_TEMPERATURE)
        put(celsius, _MEMORY_HIGHEST)
        return
    put(celsius, _THRESHOLDS[one_of(wanted, _THRESHOLDS, NvmlCode.NOT_SUPPORTED)])


def fan_percent(celsius: int) -> int:
    """How fast the fans run at a temperature."""
    return max(_LOWEST_FAN_PERCENT, min(100, 2 * (celsius - 35)))


def _fan_percent(device: SimulatedHandle) -> int:
    return fan_percent(_celsius(device))


def _fan_speed_2(device: SimulatedHandle, fan: Any, percent: Any) -> None:
    device.need(BoardFeature.FANS)
    one_of(fan, _ONLY_ONE)
    put(percent, _fan_percent(device))


def _fan_turns(device: SimulatedHandle, request: Any) -> None:
    device.need(BoardFeature.FANS)
    target = versioned(request, _FAN_VERSION_1)
    one_of(target.fan, _ONLY_ONE)
    target.speed = _TURNS_AT_FULL_SPEED * _fan_percent(device) // 100


THERMAL: Final[Functions] = {
    "nvmlDeviceGetTemperature": _temperature,
    "nvmlDeviceGetTemperatureV": _temperature_1,
    "nvmlDeviceGetTemperatureThreshold": _threshold,
    "nvmlDeviceGetMarginTemperature": structure(
        lambda device: {"marginTemperature": HIGHEST_CELSIUS - _celsius(device)},
        BoardFeature.TEMPERATURE_MARGIN,
        _MARGIN_VERSION_1,
    ),
    "nvmlDeviceGetNumFans": value(lambda _: 1, BoardFeature.FANS),
    "nvmlDeviceGetFanSpeed": value(_fan_percent, BoardFeature.FANS),
    "nvmlDeviceGetFanSpeed_v2": _fan_speed_2,
    "nvmlDeviceGetFanSpeedRPM": _fan_turns,
    "nvmlDeviceGetMinMaxFanSpeed": values(lambda _: (_LOWEST_FAN_PERCENT, 100), BoardFeature.FANS),
}
