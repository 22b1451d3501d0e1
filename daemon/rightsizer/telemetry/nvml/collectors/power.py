"""Power draw and energy of whole boards."""

from typing import Final

import pynvml

from rightsizer.model.frozen import replace
from rightsizer.model.signal import Signal
from rightsizer.telemetry.nvml.collector import NvmlCollector, NvmlValue
from rightsizer.telemetry.nvml.handle import DeviceHandle
from rightsizer.telemetry.nvml.reading_builder import ReadingBuilder

_MILLI: Final = 1e-3
_CALL: Final = "nvmlDeviceGetTotalEnergyConsumption"
_ENERGY: Final = pynvml.NVML_FI_DEV_TOTAL_ENERGY_CONSUMPTION
_ASKED_ENERGY: Final = NvmlValue(Signal.ENERGY_JOULES, ((_CALL,),), scale=_MILLI)
_COUNTED_ENERGY: Final = replace(_ASKED_ENERGY, field=_ENERGY)


def _read(handle: DeviceHandle, builder: ReadingBuilder) -> None:
    # A mean over a second from Ampere on but for GA100, the present draw before.
    builder.put(Signal.POWER_WATTS, handle.ask("nvmlDeviceGetPowerUsage"), _MILLI)
    # Where the field counts nothing, the function may.
    (_ASKED_ENERGY if handle.field(_ENERGY) == 0 else _COUNTED_ENERGY).read(handle, builder)


POWER: Final = NvmlCollector(
    "power",
    (Signal.POWER_WATTS, Signal.ENERGY_JOULES),
    _read,
    fields=(_ENERGY,),
    is_essential=True,
    settles=True,
)
