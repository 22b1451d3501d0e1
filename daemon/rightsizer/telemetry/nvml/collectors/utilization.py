"""How busy the engines are, from the driver's sample buffer: share of time resident, no load."""

from functools import partial
from operator import itemgetter
from statistics import fmean
from typing import Any, Final

import pynvml

from rightsizer.model.signal import Signal
from rightsizer.telemetry.nvml.collector import NvmlCollector, NvmlValue
from rightsizer.telemetry.nvml.handle import DeviceHandle
from rightsizer.telemetry.nvml.library import NvmlFailure, value_of
from rightsizer.telemetry.nvml.reading_builder import ReadingBuilder

_SAMPLES_CALL: Final = "nvmlDeviceGetSamples"
_PERCENT: Final = 100


class SampleBuffer:
    """One kind of sample of one device, each taken into account once.

    The driver takes about six samples a second and keeps some seconds of them (NVML API
    reference, nvmlDeviceGetSamples).
    """

    def __init__(self, handle: DeviceHandle, kind: int) -> None:
        self._handle, self._kind = handle, kind
        self._seen: int | None = None
        self._refused = False

    def mean(self) -> float | None:
        """The mean percentage since the last call; `None` where there is no new sample.

        The first call gives nothing: the buffer reaches back to before the first look.
        """
        if self._refused:
            return None
        # The time of the last sample changes with each call, so the handle cannot remember this.
        answer = self._handle.library.ask(
            _SAMPLES_CALL, self._handle.target.handle, self._kind, self._seen or 0
        )
        if isinstance(answer, NvmlFailure):
            self._refused = answer.is_unsupported
            return None
        is_first = self._seen is None
        kind, samples = answer
        fresh = [found for found in samples if found.timeStamp > (self._seen or 0)]
        if not fresh:
            return None
        self._seen = max(found.timeStamp for found in fresh)
        found = (value_of(kind, each.sampleValue) for each in fresh)
        values = [value for value in found if value is not None and 0 <= value <= _PERCENT]
        return None if is_first or not values else fmean(values)


def _mean(handle: DeviceHandle, kind: int, rate: Any) -> Any:
    """The mean since the last round; the rate of the driver's last window where there is none."""
    mean = handle.hold((SampleBuffer, kind), partial(SampleBuffer, handle, kind)).mean()
    return rate if mean is None else mean


def _read(handle: DeviceHandle, builder: ReadingBuilder) -> None:
    rates = handle.ask("nvmlDeviceGetUtilizationRates")
    gpu = rates if isinstance(rates, NvmlFailure) else rates.gpu
    memory = rates if isinstance(rates, NvmlFailure) else rates.memory
    if Signal.GPU_BUSY in builder.values:
        # Profiling counters may die and read 0 (dcgm-exporter#662); the busy share does not.
        is_zero, least = builder.values[Signal.GPU_BUSY] == 0, handle.settings.suspect_busy_ratio
        if is_zero and not isinstance(gpu, NvmlFailure) and least <= gpu / _PERCENT <= 1:
            builder.replace(Signal.GPU_BUSY, gpu / _PERCENT)
    else:
        # What GPM does not tell, the driver's own buffer does: the rates are those of its last
        # window, at most a second, and say nothing of the time before.
        gpu = _mean(handle, pynvml.NVML_GPU_UTILIZATION_SAMPLES, gpu)
        memory = _mean(handle, pynvml.NVML_MEMORY_UTILIZATION_SAMPLES, memory)
        if isinstance(gpu, NvmlFailure) and handle.target.device.awaits_mig_instances:
            gpu = 0  # Nothing can run there, which the driver knows and does not tell.
        builder.put_percent(Signal.GPU_BUSY, gpu)
    builder.put_percent(Signal.MEMORY_CONTROLLER_BUSY, memory)


UTILIZATION: Final = NvmlCollector(
    "utilization",
    (Signal.GPU_BUSY, Signal.MEMORY_CONTROLLER_BUSY),
    _read,
    is_essential=True,
    on_mig_parent=False,
    settles=True,
)
ENGINES: Final = NvmlCollector.of(
    "engines",
    # The second number of an answer is the sampling period.
    *(
        NvmlValue(signal, ((call,),), part=itemgetter(0), is_percent=True)
        for signal, call in (
            (Signal.ENCODER, "nvmlDeviceGetEncoderUtilization"),
            (Signal.DECODER, "nvmlDeviceGetDecoderUtilization"),
            (Signal.JPEG, "nvmlDeviceGetJpgUtilization"),
            (Signal.OFA, "nvmlDeviceGetOfaUtilization"),
        )
    ),
    part_of="utilization",
    on_mig_parent=False,
    settles=True,
)
# Beside the count: frames per second and latency, means over the sessions.
ENCODER_SESSIONS: Final = NvmlCollector.of(
    "encoder_sessions",
    NvmlValue(Signal.ENCODER_SESSIONS, (("nvmlDeviceGetEncoderStats",),), part=itemgetter(0)),
    on_mig_parent=False,
    is_slow=True,
    part_of="utilization",
)
