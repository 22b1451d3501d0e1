"""Utilization of the GPU and its engines, and the driver's sample buffers."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from rightsizer.model.frozen import dataclass
from rightsizer.model.units import NANOSECONDS_PER_SECOND, Nanoseconds
from rightsizer.simulator.activity import DeviceLoad
from rightsizer.simulator.library.calls import (
    Functions,
    NvmlCode,
    number,
    one_of,
    out,
    put,
    refuse_if,
)
from rightsizer.simulator.library.driver import SimulatedHandle, structure, values
from rightsizer.simulator.physics import BoardEnvironment, BoardState
from rightsizer.simulator.support import BoardFeature
from rightsizer.simulator.transients import (
    UTILIZATION_SAMPLES_PER_SECOND,
    instant_watts,
    sampled_busy,
)

_SAMPLING_PERIOD_MICROSECONDS: Final = 167_000


def percent(ratio: float) -> int:
    """A ratio as NVML tells it."""
    return round(100.0 * ratio)


def _rates(device: SimulatedHandle) -> Mapping[str, int]:
    state = device.state
    return {"gpu": percent(state.load.gpu_busy), "memory": percent(state.memory_controller_busy)}


def _engine(read: Callable[[DeviceLoad], float], feature: BoardFeature) -> Callable[..., None]:
    return values(
        lambda device: (percent(read(device.state.load)), _SAMPLING_PERIOD_MICROSECONDS), feature
    )


UTILIZATION: Final[Functions] = {
    "nvmlDeviceGetUtilizationRates": structure(_rates, BoardFeature.UTILIZATION),
    "nvmlDeviceGetEncoderUtilization": _engine(
        lambda load: load.encoder, BoardFeature.ENCODER_DECODER
    ),
    "nvmlDeviceGetDecoderUtilization": _engine(
        lambda load: load.decoder, BoardFeature.ENCODER_DECODER
    ),
    "nvmlDeviceGetJpgUtilization": _engine(lambda load: load.jpeg, BoardFeature.JPEG),
    "nvmlDeviceGetOfaUtilization": _engine(lambda load: load.ofa, BoardFeature.OFA),
}


_UNSIGNED_INT: Final = 1
_STATE_STEP: Final[Nanoseconds] = NANOSECONDS_PER_SECOND // 2
"""Samples between two such points see one state of the model, which moves more slowly."""


@dataclass(frozen=True, slots=True)
class _Buffer:
    """A ring of samples."""

    per_second: int
    kept: int
    feature: BoardFeature
    read: Callable[[BoardState, BoardEnvironment, int], float]
    """By the state, the slot and the sample's number."""


def _busy(read: Callable[[BoardState], float], feature: BoardFeature) -> _Buffer:
    return _Buffer(
        UTILIZATION_SAMPLES_PER_SECOND,
        99,
        feature,
        lambda state, _, place: percent(sampled_busy(read(state), place)),
    )


def _power(state: BoardState, around: BoardEnvironment, place: int) -> float:
    time = place * NANOSECONDS_PER_SECOND // _POWER_SAMPLES_PER_SECOND
    return 1000.0 * instant_watts(state, around, time)


def _clock(read: Callable[[BoardState], float]) -> _Buffer:
    return _Buffer(
        UTILIZATION_SAMPLES_PER_SECOND,
        100,
        BoardFeature.CLOCKS,
        lambda state, _, __: round(read(state) / 1e6),
    )


_POWER_SAMPLES_PER_SECOND: Final = 50
_BUFFERS: Final[Mapping[int, _Buffer]] = {
    0: _Buffer(_POWER_SAMPLES_PER_SECOND, 119, BoardFeature.POWER, _power),
    1: _busy(lambda state: state.load.gpu_busy, BoardFeature.UTILIZATION),
    2: _busy(lambda state: state.memory_controller_busy, BoardFeature.UTILIZATION),
    3: _busy(lambda state: state.load.encoder, BoardFeature.ENCODER_DECODER),
    4: _busy(lambda state: state.load.decoder, BoardFeature.ENCODER_DECODER),
    5: _clock(lambda state: state.electrical.sm_clock_hertz),
    6: _clock(lambda state: state.electrical.memory_clock_hertz),
    8: _busy(lambda state: state.load.jpeg, BoardFeature.JPEG),
    9: _busy(lambda state: state.load.ofa, BoardFeature.OFA),
}
"""By sampling type. Rates and depths as `nvidia-smi -q` tells them of real boards: 99 samples of
utilization over 16 s, 119 of power over 2.4 s."""


def _samples(  # noqa: PLR0913, PLR0917 - the C function's arguments.
    device: SimulatedHandle, kind: Any, since: Any, value_type: Any, count: Any, samples: Any
) -> None:
    buffer = _BUFFERS[one_of(kind, _BUFFERS, NvmlCode.NOT_SUPPORTED)]
    device.need(buffer.feature)
    places = _places(buffer, device.driver.now(), number(since) * 1000)
    refuse_if(not places, NvmlCode.NOT_FOUND)
    put(value_type, _UNSIGNED_INT)
    if samples is None:
        put(count, len(places))
        return
    places = places[-min(out(count).value, len(places)) :]
    around = device.around
    for sample, place in zip(samples, places, strict=False):
        time = _time(buffer, place)
        sample.timeStamp = time // 1000
        state = device.state_at(time - time % _STATE_STEP)
        sample.sampleValue.uiVal = int(buffer.read(state, around, place))
    put(count, len(places))


def _places(buffer: _Buffer, now: Nanoseconds, seen: Nanoseconds) -> range:
    """The numbers of the samples that are kept and were not seen."""
    last = now * buffer.per_second // NANOSECONDS_PER_SECOND
    first = last - buffer.kept + 1
    while first <= last and _time(buffer, first) // 1000 * 1000 <= seen:
        # A timestamp is cut to microseconds; the caller hands that back.
        first = max(first + 1, seen * buffer.per_second // NANOSECONDS_PER_SECOND)
    return range(first, last + 1)


def _time(buffer: _Buffer, place: int) -> Nanoseconds:
    return place * NANOSECONDS_PER_SECOND // buffer.per_second


SAMPLES: Final[Functions] = {"nvmlDeviceGetSamples": _samples}
