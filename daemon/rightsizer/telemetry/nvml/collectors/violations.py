"""For how long power and heat held the clocks down: between two ticks too."""

from typing import Any, Final

import pynvml

from rightsizer.model.reading import Missing
from rightsizer.model.signal import Signal
from rightsizer.telemetry.nvml.collector import NvmlCollector
from rightsizer.telemetry.nvml.handle import DeviceHandle
from rightsizer.telemetry.nvml.library import NvmlFailure
from rightsizer.telemetry.nvml.reading_builder import ReadingBuilder

_POLICIES: Final = (
    (
        Signal.POWER_VIOLATION_SECONDS,
        pynvml.NVML_FI_DEV_PERF_POLICY_POWER,
        pynvml.NVML_PERF_POLICY_POWER,
    ),
    (
        Signal.THERMAL_VIOLATION_SECONDS,
        pynvml.NVML_FI_DEV_PERF_POLICY_THERMAL,
        pynvml.NVML_PERF_POLICY_THERMAL,
    ),
)
_NANO: Final = 1e-9


def _read(handle: DeviceHandle, draft: ReadingBuilder) -> None:
    for signal, field, policy in _POLICIES:
        answer = handle.field(field)
        if isinstance(answer, NvmlFailure) and answer.reason is Missing.NOT_SUPPORTED:
            answer = _violation_time(handle.ask("nvmlDeviceGetViolationStatus", policy))
        draft.put(signal, answer, _NANO)


def _violation_time(status: Any) -> Any:
    return status if isinstance(status, NvmlFailure) else status.violationTime


VIOLATIONS: Final = NvmlCollector(
    "violations",
    tuple(signal for signal, _, _ in _POLICIES),
    _read,
    fields=tuple(field for _, field, _ in _POLICIES),
    part_of="power",
)
