"""Power draw, the limit in force and energy; for whole boards only."""

from typing import Final

from rightsizer.domain.signal import Signal
from rightsizer.telemetry.nvml.collector import Collector
from rightsizer.telemetry.nvml.draft import Draft
from rightsizer.telemetry.nvml.handle import Handle

__all__ = ["POWER"]

_CALLS: Final = (
    (Signal.POWER_WATTS, "nvmlDeviceGetPowerUsage"),
    (Signal.POWER_LIMIT_WATTS, "nvmlDeviceGetEnforcedPowerLimit"),
    (Signal.ENERGY_JOULES, "nvmlDeviceGetTotalEnergyConsumption"),
)


def _read(handle: Handle, draft: Draft) -> None:
    for signal, call in _CALLS:
        draft.put(signal, handle.ask(call), 1e-3)


POWER: Final = Collector("power", tuple(signal for signal, _ in _CALLS), _read, settles=True)
