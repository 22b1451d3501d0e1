"""For how long power and heat held the clocks down: between two ticks too."""

from typing import Any, Final

import pynvml

from rightsizer.domain.reading import Missing
from rightsizer.domain.signal import Signal
from rightsizer.telemetry.nvml.collector import Collector
from rightsizer.telemetry.nvml.draft import Draft
from rightsizer.telemetry.nvml.failure import Failure
from rightsizer.telemetry.nvml.handle import Handle

__all__ = ["VIOLATIONS"]

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


def _read(handle: Handle, draft: Draft) -> None:
    for signal, field, policy in _POLICIES:
        answer = handle.field(field)
        if isinstance(answer, Failure) and answer.reason is Missing.NOT_SUPPORTED:
            answer = _violation_time(handle.ask("nvmlDeviceGetViolationStatus", policy))
        draft.put(signal, answer, _NANO)


def _violation_time(status: Any) -> Any:
    return status if isinstance(status, Failure) else status.violationTime


VIOLATIONS: Final = Collector(
    "violations",
    tuple(signal for signal, _, _ in _POLICIES),
    _read,
    fields=tuple(field for _, field, _ in _POLICIES),
    part_of="power",
)
