"""How busy the engines are: a share of time with something resident, never a load."""

from typing import Any, Final

import pynvml

from rightsizer.domain.signal import Signal
from rightsizer.telemetry.nvml.collector import Collector
from rightsizer.telemetry.nvml.draft import Draft
from rightsizer.telemetry.nvml.failure import Failure
from rightsizer.telemetry.nvml.handle import Handle
from rightsizer.telemetry.nvml.sample_buffer import SampleBuffer

__all__ = ["ENGINES", "UTILIZATION"]

_ENGINES: Final = (
    (Signal.ENCODER, "nvmlDeviceGetEncoderUtilization"),
    (Signal.DECODER, "nvmlDeviceGetDecoderUtilization"),
    (Signal.JPEG, "nvmlDeviceGetJpgUtilization"),
    (Signal.OFA, "nvmlDeviceGetOfaUtilization"),
)


def _gpu_samples(handle: Handle) -> SampleBuffer:
    return SampleBuffer(handle, pynvml.NVML_GPU_UTILIZATION_SAMPLES)


def _memory_samples(handle: Handle) -> SampleBuffer:
    return SampleBuffer(handle, pynvml.NVML_MEMORY_UTILIZATION_SAMPLES)


def _read(handle: Handle, draft: Draft) -> None:
    rates = handle.ask("nvmlDeviceGetUtilizationRates")
    gpu = rates if isinstance(rates, Failure) else rates.gpu
    memory = rates if isinstance(rates, Failure) else rates.memory
    if Signal.GPU_BUSY in draft.values:
        _doubt(draft, gpu, handle.settings.suspect_busy_ratio)
    else:
        # What GPM does not tell, the driver's own buffer does: the rates are those of its last
        # window, at most a second, and say nothing of the time before.
        gpu = _mean(handle.hold(_gpu_samples), gpu)
        memory = _mean(handle.hold(_memory_samples), memory)
        if isinstance(gpu, Failure) and handle.target.device.awaits_mig_instances:
            gpu = 0  # Nothing can run there, which the driver knows and does not tell.
        draft.put_percent(Signal.GPU_BUSY, gpu)
    draft.put_percent(Signal.MEMORY_CONTROLLER_BUSY, memory)


def _read_engines(handle: Handle, draft: Draft) -> None:
    for signal, call in _ENGINES:
        answer = handle.ask(call)
        # The second number is the sampling period.
        draft.put_percent(signal, answer if isinstance(answer, Failure) else answer[0])


def _mean(buffer: SampleBuffer, rate: Any) -> Any:
    mean = buffer.mean()
    return rate if mean is None else mean


def _doubt(draft: Draft, rate: Any, suspect_ratio: float) -> None:
    """Profiling counters may die and read 0 (dcgm-exporter#662); the busy share does not."""
    if isinstance(rate, Failure) or not 100 * suspect_ratio <= rate <= 100:  # noqa: PLR2004
        return
    if not draft.values[Signal.GPU_BUSY]:
        draft.replace(Signal.GPU_BUSY, rate / 100)


UTILIZATION: Final = Collector(
    "utilization",
    (Signal.GPU_BUSY, Signal.MEMORY_CONTROLLER_BUSY),
    _read,
    is_essential=True,
    on_mig_parent=False,
    settles=True,
)
ENGINES: Final = Collector(
    "engines",
    tuple(signal for signal, _ in _ENGINES),
    _read_engines,
    part_of="utilization",
    on_mig_parent=False,
    settles=True,
)
