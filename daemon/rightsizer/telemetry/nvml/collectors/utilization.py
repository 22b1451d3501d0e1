"""How busy the engines are: a share of time with something resident, never a load."""

from typing import Final

from rightsizer.domain.signal import Signal
from rightsizer.telemetry.nvml.collector import Collector
from rightsizer.telemetry.nvml.draft import Draft
from rightsizer.telemetry.nvml.failure import Failure
from rightsizer.telemetry.nvml.handle import Handle

__all__ = ["UTILIZATION"]

_ENGINES: Final = (
    (Signal.ENCODER, "nvmlDeviceGetEncoderUtilization"),
    (Signal.DECODER, "nvmlDeviceGetDecoderUtilization"),
    (Signal.JPEG, "nvmlDeviceGetJpgUtilization"),
    (Signal.OFA, "nvmlDeviceGetOfaUtilization"),
)


def _read(handle: Handle, draft: Draft) -> None:
    rates = handle.ask("nvmlDeviceGetUtilizationRates")
    if isinstance(rates, Failure):
        draft.fail(Signal.GPU_BUSY, rates)
        draft.fail(Signal.MEMORY_CONTROLLER_BUSY, rates)
    else:
        draft.put_percent(Signal.GPU_BUSY, rates.gpu)
        draft.put_percent(Signal.MEMORY_CONTROLLER_BUSY, rates.memory)
    for signal, call in _ENGINES:
        answer = handle.ask(call)
        # The second number is the sampling period.
        draft.put_percent(signal, answer if isinstance(answer, Failure) else answer[0])


UTILIZATION: Final = Collector(
    "utilization",
    (Signal.GPU_BUSY, Signal.MEMORY_CONTROLLER_BUSY, *(signal for signal, _ in _ENGINES)),
    _read,
    on_mig_parent=False,
    settles=True,
)
