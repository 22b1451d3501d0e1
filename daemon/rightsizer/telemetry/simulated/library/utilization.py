"""Utilization as NVML has it without profiling: busy shares of the GPU and its engines."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from rightsizer.telemetry.simulated.activity import Load
from rightsizer.telemetry.simulated.feature import Feature
from rightsizer.telemetry.simulated.library.calls import out, put
from rightsizer.telemetry.simulated.library.driver import Driver, Handle

__all__ = ["UTILIZATION", "percent"]

_SAMPLING_PERIOD_MICROSECONDS: Final = 167_000


def percent(ratio: float) -> int:
    """A ratio as NVML tells it."""
    return round(100.0 * ratio)


def _rates(driver: Driver, device: Handle, rates: Any) -> None:
    del driver
    device.need(Feature.UTILIZATION)
    state, target = device.state, out(rates)
    target.gpu = percent(state.load.gpu_busy)
    target.memory = percent(state.memory_controller_busy)


def _engine(read: Callable[[Load], float], feature: Feature) -> Callable[..., None]:
    def answer(driver: Driver, device: Handle, busy: Any, period: Any) -> None:
        del driver
        device.need(feature)
        put(busy, percent(read(device.state.load)))
        put(period, _SAMPLING_PERIOD_MICROSECONDS)

    return answer


UTILIZATION: Final[Mapping[str, Callable[..., None]]] = {
    "nvmlDeviceGetUtilizationRates": _rates,
    "nvmlDeviceGetEncoderUtilization": _engine(lambda load: load.encoder, Feature.ENCODER_DECODER),
    "nvmlDeviceGetDecoderUtilization": _engine(lambda load: load.decoder, Feature.ENCODER_DECODER),
    "nvmlDeviceGetJpgUtilization": _engine(lambda load: load.jpeg, Feature.JPEG),
    "nvmlDeviceGetOfaUtilization": _engine(lambda load: load.ofa, Feature.OFA),
}
