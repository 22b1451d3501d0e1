"""Temperatures, their thresholds, and fans."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from rightsizer.simulator.library.calls import NvmlCallError, NvmlCode, number, out, put
from rightsizer.simulator.library.driver import SimulatedDriver, SimulatedHandle
from rightsizer.simulator.physics import HIGHEST_CELSIUS, SHUTDOWN_CELSIUS, SLOWDOWN_CELSIUS
from rightsizer.simulator.support import BoardFeature

_GPU_SENSOR: Final = 0
_TEMPERATURE_VERSION_1: Final = 0x100000C
_MARGIN_VERSION_1: Final = 0x1000008
_THRESHOLDS: Final = {0: SHUTDOWN_CELSIUS, 1: SLOWDOWN_CELSIUS, 3: HIGHEST_CELSIUS}
"""Shutdown, slowdown, highest for the GPU; the memory's is only there with a sensor."""
_MEMORY_THRESHOLD: Final = 2
_MEMORY_HIGHEST: Final = 95
_LOWEST_FAN_PERCENT: Final = 30
_FAN_VERSION_1: Final = 0x100000C
_TURNS_AT_FULL_SPEED: Final = 3200


def _celsius(device: SimulatedHandle) -> int:
    return round(device.state.electrical.temperature_celsius)


def _temperature(
    driver: SimulatedDriver, device: SimulatedHandle, sensor: Any, celsius: Any
) -> None:
    del driver
    if number(sensor) != _GPU_SENSOR:
        raise NvmlCallError(NvmlCode.INVALID_ARGUMENT)
    put(celsius, _celsius(device))


def _temperature_1(driver: SimulatedDriver, device: SimulatedHandle, request: Any) -> None:
    del driver
    target = out(request)
    if target.version != _TEMPERATURE_VERSION_1:
        raise NvmlCallError(NvmlCode.ARGUMENT_VERSION_MISMATCH)
    if target.sensorType != _GPU_SENSOR:
        raise NvmlCallError(NvmlCode.INVALID_ARGUMENT)
    target.temperature = _celsius(device)


def _threshold(
    driver: SimulatedDriver, device: SimulatedHandle, threshold: Any, celsius: Any
) -> None:
    del driver
    wanted = number(threshold)
    device.need(BoardFeature.TEMPERATURE_THRESHOLDS)
    if wanted == _MEMORY_THRESHOLD:
        device.need(BoardFeature.MEMORY_TEMPERATURE)
        put(celsius, _MEMORY_HIGHEST)
        return
    if wanted not in _THRESHOLDS:
        raise NvmlCallError(NvmlCode.NOT_SUPPORTED)
    put(celsius, _THRESHOLDS[wanted])


def _margin(driver: SimulatedDriver, device: SimulatedHandle, request: Any) -> None:
    del driver
    device.need(BoardFeature.TEMPERATURE_MARGIN)
    target = out(request)
    if target.version != _MARGIN_VERSION_1:
        raise NvmlCallError(NvmlCode.ARGUMENT_VERSION_MISMATCH)
    target.marginTemperature = HIGHEST_CELSIUS - _celsius(device)


def _fan_count(driver: SimulatedDriver, device: SimulatedHandle, count: Any) -> None:
    del driver
    device.need(BoardFeature.FANS)
    put(count, 1)


def fan_percent(celsius: int) -> int:
    """How fast the fans run at a temperature."""
    return max(_LOWEST_FAN_PERCENT, min(100, 2 * (celsius - 35)))


def _fan_speed(driver: SimulatedDriver, device: SimulatedHandle, percent: Any) -> None:
    del driver
    device.need(BoardFeature.FANS)
    put(percent, fan_percent(_celsius(device)))


def _fan_speed_2(driver: SimulatedDriver, device: SimulatedHandle, fan: Any, percent: Any) -> None:
    device.need(BoardFeature.FANS)
    if number(fan):
        raise NvmlCallError(NvmlCode.INVALID_ARGUMENT)
    _fan_speed(driver, device, percent)


def _fan_turns(driver: SimulatedDriver, device: SimulatedHandle, request: Any) -> None:
    del driver
    device.need(BoardFeature.FANS)
    target = out(request)
    if target.version != _FAN_VERSION_1:
        raise NvmlCallError(NvmlCode.ARGUMENT_VERSION_MISMATCH)
    if target.fan:
        raise NvmlCallError(NvmlCode.INVALID_ARGUMENT)
    target.speed = _TURNS_AT_FULL_SPEED * fan_percent(_celsius(device)) // 100


def _fan_range(driver: SimulatedDriver, device: SimulatedHandle, lowest: Any, highest: Any) -> None:
    del driver
    device.need(BoardFeature.FANS)
    put(lowest, _LOWEST_FAN_PERCENT)
    put(highest, 100)


THERMAL: Final[Mapping[str, Callable[..., None]]] = {
    "nvmlDeviceGetTemperature": _temperature,
    "nvmlDeviceGetTemperatureV": _temperature_1,
    "nvmlDeviceGetTemperatureThreshold": _threshold,
    "nvmlDeviceGetMarginTemperature": _margin,
    "nvmlDeviceGetNumFans": _fan_count,
    "nvmlDeviceGetFanSpeed": _fan_speed,
    "nvmlDeviceGetFanSpeed_v2": _fan_speed_2,
    "nvmlDeviceGetFanSpeedRPM": _fan_turns,
    "nvmlDeviceGetMinMaxFanSpeed": _fan_range,
}
