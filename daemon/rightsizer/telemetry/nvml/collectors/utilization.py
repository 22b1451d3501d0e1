"""Utilization of the engines from the driver's sample buffer: share of time busy, not load."""

from operator import itemgetter
from statistics import fmean
from typing import Any, Final

import pynvml

from rightsizer.model.values import Signal
from rightsizer.telemetry.nvml.collector import NvmlCollector, NvmlValue, SampleCursor
from rightsizer.telemetry.nvml.handle import DeviceHandle
from rightsizer.telemetry.nvml.library import NvmlFailure, value_of
from rightsizer.telemetry.nvml.reading_builder import ReadingBuilder

_SAMPLES_CALL: Final = "nvmlDeviceGetSamples"
_PERCENT: Final = 100


class SampleBuffer:
    """Samples of one kind of one device; uses each sample once.

    The driver takes about six samples a second and keeps some seconds of them (NVML API
    reference, nvmlDeviceGetSamples).
    """

    def __init__(self, handle: DeviceHandle, kind: int) -> None:
        self._handle = handle
        self._kind = kind
        self._cursor = SampleCursor()

    def mean(self) -> float | None:
        """Return the mean percentage since the last call, or `None` without a new sample.

        The first call returns `None`: the buffer holds samples from before it.
        """
        is_first = not self._cursor.last
        key = (_SAMPLES_CALL, self._kind)
        answer = self._handle.ask(_SAMPLES_CALL, self._kind, self._cursor.since, key=key)
        kind, samples = (0, ()) if isinstance(answer, NvmlFailure) else answer
        fresh = self._cursor.take(samples)
        percentages = (value_of(kind, sample.sampleValue) for sample in fresh)
        values = [value for value in percentages if value is not None and 0 <= value <= _PERCENT]
        return None if is_first or not values else fmean(values)


def _mean(handle: DeviceHandle, kind: int, rate: Any) -> Any:
    """Return the mean since the last round, or the driver's rate if there is none."""
    mean = handle.hold(SampleBuffer, kind).mean()
    return rate if mean is None else mean


def _read(handle: DeviceHandle, builder: ReadingBuilder) -> None:
    rates = handle.ask("nvmlDeviceGetUtilizationRates")
    gpu = rates if isinstance(rates, NvmlFailure) else rates.gpu
    memory = rates if isinstance(rates, NvmlFailure) else rates.memory
    if Signal.GPU_BUSY in builder.values:
        # Profiling counters may fail and read 0 (dcgm-exporter#662); the utilization does not.
        is_zero = builder.values[Signal.GPU_BUSY] == 0
        least = handle.settings.suspect_busy_ratio
        if is_zero and not isinstance(gpu, NvmlFailure) and least <= gpu / _PERCENT <= 1:
            builder.replace(Signal.GPU_BUSY, gpu / _PERCENT)
    else:
        # Without GPM the driver's sample buffer covers the whole round: its rates cover only the
        # last window, at most a second.
        gpu = _mean(handle, pynvml.NVML_GPU_UTILIZATION_SAMPLES, gpu)
        memory = _mean(handle, pynvml.NVML_MEMORY_UTILIZATION_SAMPLES, memory)
        if isinstance(gpu, NvmlFailure) and handle.target.device.awaits_mig_instances:
            gpu = 0  # Nothing can run there; the driver reports no utilization.
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
    # An answer's second number is the sampling period.
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
# The answer also has frames a second and latency, as means over the sessions.
ENCODER_SESSIONS: Final = NvmlCollector.of(
    "encoder_sessions",
    NvmlValue(Signal.ENCODER_SESSIONS, (("nvmlDeviceGetEncoderStats",),), part=itemgetter(0)),
    on_mig_parent=False,
    is_slow=True,
    part_of="utilization",
)
