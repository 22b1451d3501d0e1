"""Temperatures, their thresholds, and fans."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from rightsizer.telemetry.simulated.library.calls import Code, Refusal, number, out, put
from rightsizer.telemetry.simulated.library.driver import Driver, Handle

__all__ = ["THERMAL"]

_GPU_SENSOR: Final = 0
_TEMPERATURE_VERSION_1: Final = 0x100000C
_MARGIN_VERSION_1: Final = 0x1000008
_SLOWDOWN: Final = 87
_THRESHOLDS: Final = {0: 92, 1: _SLOWDOWN + 2, 3: _SLOWDOWN}
"""Shutdown, slowdown, highest for the GPU; the memory's is only there with a sensor."""
_MEMORY_THRESHOLD: Final = 2
_MEMORY_HIGHEST: Final = 95
_LOWEST_FAN_PERCENT: Final = 30


def _celsius(device: Handle) -> int:
    return round(device.state.electrical.temperature_celsius)


def _temperature(driver: Driver, device: Handle, sensor: Any, celsius: Any) -> None:
    del driver
    if number(sensor) != _GPU_SENSOR:
        raise Refusal(Code.INVALID_ARGUMENT)
    put(celsius, _celsius(device))


def _temperature_1(driver: Driver, device: Handle, request: Any) -> None:
    del driver
    target = out(request)
    if target.version != _TEMPERATURE_VERSION_1:
        raise Refusal(Code.ARGUMENT_VERSION_MISMATCH)
    if target.sensorType != _GPU_SENSOR:
        raise Refusal(Code.INVALID_ARGUMENT)
    target.temperature = _celsius(device)


def _threshold(driver: Driver, device: Handle, threshold: Any, celsius: Any) -> None:
    del driver
    wanted = number(threshold)
    if wanted == _MEMORY_THRESHOLD:
        device.need(device.support.memory_temperature)
        put(celsius, _MEMORY_HIGHEST)
        return
    device.need(wanted in _THRESHOLDS)
    put(celsius, _THRESHOLDS[wanted])


def _margin(driver: Driver, device: Handle, request: Any) -> None:
    del driver
    target = out(request)
    if target.version != _MARGIN_VERSION_1:
        raise Refusal(Code.ARGUMENT_VERSION_MISMATCH)
    target.marginTemperature = _SLOWDOWN - _celsius(device)


def _fan_count(driver: Driver, device: Handle, count: Any) -> None:
    del driver
    device.need(device.support.fan)
    put(count, 1)


def _fan_speed(driver: Driver, device: Handle, percent: Any) -> None:
    del driver
    device.need(device.support.fan)
    put(percent, max(_LOWEST_FAN_PERCENT, min(100, 2 * (_celsius(device) - 35))))


def _fan_speed_2(driver: Driver, device: Handle, fan: Any, percent: Any) -> None:
    device.need(device.support.fan)
    if number(fan):
        raise Refusal(Code.INVALID_ARGUMENT)
    _fan_speed(driver, device, percent)


THERMAL: Final[Mapping[str, Callable[..., None]]] = {
    "nvmlDeviceGetTemperature": _temperature,
    "nvmlDeviceGetTemperatureV": _temperature_1,
    "nvmlDeviceGetTemperatureThreshold": _threshold,
    "nvmlDeviceGetMarginTemperature": _margin,
    "nvmlDeviceGetNumFans": _fan_count,
    "nvmlDeviceGetFanSpeed": _fan_speed,
    "nvmlDeviceGetFanSpeed_v2": _fan_speed_2,
}
