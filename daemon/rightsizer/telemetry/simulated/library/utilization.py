"""Utilization as NVML has it without profiling: busy shares of the GPU and its engines."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from rightsizer.telemetry.simulated.activity import Load
from rightsizer.telemetry.simulated.library.calls import Code, Refusal, number, out, put
from rightsizer.telemetry.simulated.library.driver import REFRESH, Driver, Handle
from rightsizer.telemetry.simulated.physics import BoardState

__all__ = ["UTILIZATION"]

_SAMPLING_PERIOD_MICROSECONDS: Final = 167_000
_KEPT_SAMPLES: Final = 120
_UNSIGNED_INT: Final = 1
_SAMPLED: Final[Mapping[int, Callable[[BoardState], float]]] = {
    0: lambda state: state.power_watts * 1000.0,
    1: lambda state: _percent(state.load.gpu_busy),
    2: lambda state: _percent(state.memory_controller_busy),
    3: lambda state: _percent(state.load.encoder),
    4: lambda state: _percent(state.load.decoder),
    5: lambda state: state.electrical.sm_clock_hertz / 1e6,
    6: lambda state: state.electrical.memory_clock_hertz / 1e6,
}
_ALLOWED_WITH_INSTANCES: Final = frozenset({0, 5, 6})


def _percent(ratio: float) -> int:
    return round(100.0 * ratio)


def _rates(driver: Driver, device: Handle, rates: Any) -> None:
    del driver
    device.need_whole()
    state, target = device.state, out(rates)
    target.gpu = _percent(state.load.gpu_busy)
    target.memory = _percent(state.memory_controller_busy)


def _engine(read: Callable[[Load], float], supported: str = "") -> Callable[..., None]:
    def answer(driver: Driver, device: Handle, percent: Any, period: Any) -> None:
        del driver
        device.need_whole()
        device.need(not supported or getattr(device.support, supported))
        put(percent, _percent(read(device.state.load)))
        put(period, _SAMPLING_PERIOD_MICROSECONDS)

    return answer


def _encoder_statistics(
    driver: Driver, device: Handle, sessions: Any, frames: Any, latency: Any
) -> None:
    del driver
    device.need_whole()
    busy = device.state.load.encoder
    put(sessions, 1 if busy else 0)
    put(frames, round(240.0 * busy))
    put(latency, round(1e6 / (240.0 * busy)) if busy else 0)


def _samples(  # noqa: PLR0913, PLR0917 - the C function's arguments.
    driver: Driver, device: Handle, kind: Any, since: Any, value_type: Any, count: Any, samples: Any
) -> None:
    wanted = number(kind)
    device.need(wanted in _SAMPLED)
    if wanted not in _ALLOWED_WITH_INSTANCES:
        device.need_whole()
    last = driver.now()
    first = max(number(since) * 1000 + 1, last - (_KEPT_SAMPLES - 1) * REFRESH)
    times = range(last, first - 1, -REFRESH)[::-1]
    if not times:
        raise Refusal(Code.NOT_FOUND)
    put(value_type, _UNSIGNED_INT)
    if samples is None:
        put(count, len(times))
        return
    room = min(out(count).value, len(times))
    for sample, time in zip(samples, times[-room:], strict=False):
        sample.timeStamp = time // 1000
        sample.sampleValue.uiVal = int(_SAMPLED[wanted](driver.node.state(device.uuid, time)))
    put(count, room)


UTILIZATION: Final[Mapping[str, Callable[..., None]]] = {
    "nvmlDeviceGetUtilizationRates": _rates,
    "nvmlDeviceGetEncoderUtilization": _engine(lambda load: load.encoder),
    "nvmlDeviceGetDecoderUtilization": _engine(lambda load: load.decoder),
    "nvmlDeviceGetJpgUtilization": _engine(lambda load: load.jpeg, "jpeg"),
    "nvmlDeviceGetOfaUtilization": _engine(lambda load: load.ofa, "ofa"),
    "nvmlDeviceGetEncoderStats": _encoder_statistics,
    "nvmlDeviceGetSamples": _samples,
}
