"""Power draw and energy; for whole boards only."""

from typing import Final

import pynvml

from rightsizer.model.signal import Signal
from rightsizer.telemetry.nvml.collector import NvmlCollector
from rightsizer.telemetry.nvml.handle import DeviceHandle
from rightsizer.telemetry.nvml.reading_builder import ReadingBuilder

_MILLI: Final = 1e-3
_CALL: Final = "nvmlDeviceGetTotalEnergyConsumption"
_ENERGY: Final = pynvml.NVML_FI_DEV_TOTAL_ENERGY_CONSUMPTION


def _read(handle: DeviceHandle, draft: ReadingBuilder) -> None:
    # A mean over a second from Ampere on but for GA100, the present draw before.
    draft.put(Signal.POWER_WATTS, handle.ask("nvmlDeviceGetPowerUsage"), _MILLI)
    energy = handle.field_or_ask(_ENERGY, _CALL)
    # Where the field counts nothing, the function may.
    draft.put(Signal.ENERGY_JOULES, handle.ask(_CALL) if energy == 0 else energy, _MILLI)


POWER: Final = NvmlCollector(
    "power",
    (Signal.POWER_WATTS, Signal.ENERGY_JOULES),
    _read,
    fields=(_ENERGY,),
    is_essential=True,
    settles=True,
)
