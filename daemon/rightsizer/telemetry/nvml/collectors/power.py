"""Power draw, energy and limit of whole boards; time that power and heat throttled the clocks."""

import math
from operator import attrgetter
from typing import Final

import pynvml
from msgspec.structs import replace

from rightsizer.model.values import Signal
from rightsizer.telemetry.nvml.collector import NvmlCollector, NvmlValue
from rightsizer.telemetry.nvml.handle import DeviceHandle
from rightsizer.telemetry.nvml.library import FieldKey, NvmlFailure
from rightsizer.telemetry.nvml.reading_builder import ReadingBuilder

_MILLI: Final = 1e-3
_NANO: Final = 1e-9
_CALL: Final = "nvmlDeviceGetTotalEnergyConsumption"
_ENERGY: Final = pynvml.NVML_FI_DEV_TOTAL_ENERGY_CONSUMPTION
_ASKED_ENERGY: Final = NvmlValue(Signal.ENERGY_JOULES, ((_CALL,),), scale=_MILLI)
_COUNTED_ENERGY: Final = replace(_ASKED_ENERGY, field=_ENERGY)


def _read_energy(handle: DeviceHandle, builder: ReadingBuilder) -> None:
    # On boards where the field stays 0, the function may work.
    (_ASKED_ENERGY if handle.field(_ENERGY) == 0 else _COUNTED_ENERGY).read(handle, builder)


def _read_power(handle: DeviceHandle, builder: ReadingBuilder) -> None:
    answer = handle.ask("nvmlDeviceGetPowerUsage")
    device = handle.target.device
    limit = device.power_limit_maximum_watts or device.power_limit_watts or math.inf
    plausible_watts = handle.settings.plausible_limit_ratio * limit
    # No responding board draws nothing.
    if not isinstance(answer, NvmlFailure) and not 0 < answer * _MILLI <= plausible_watts:
        builder.reject(Signal.POWER_WATTS, answer)
    else:
        builder.put(Signal.POWER_WATTS, answer, _MILLI)


def _violation(signal: Signal, field: FieldKey, policy: int) -> NvmlValue:
    part = attrgetter("violationTime")
    return NvmlValue(signal, (("nvmlDeviceGetViolationStatus", policy),), field, _NANO, part)


# A mean over a second from Ampere on, except GA100; before, the present draw.
POWER: Final = NvmlCollector(
    "power", (Signal.POWER_WATTS,), _read_power, is_essential=True, settles=True
)
# Slow, since on H100 and H200 the driver computes for 3 to 5 ms; between two reads energy is the
# integral of power, which the next read corrects.
ENERGY: Final = NvmlCollector(
    "energy",
    (Signal.ENERGY_JOULES,),
    _read_energy,
    fields=(_ENERGY,),
    is_slow=True,
    part_of="power",
)
# Lowest of the operator's limit and those of board and chassis.
POWER_LIMIT: Final = NvmlCollector.of(
    "power_limit",
    NvmlValue(
        Signal.POWER_LIMIT_WATTS,
        (("nvmlDeviceGetEnforcedPowerLimit",), ("nvmlDeviceGetPowerManagementLimit",)),
        scale=_MILLI,
    ),
    is_slow=True,
    part_of="power",
)
# Slow as well: half a millisecond for counters that only show why a clock is low.
VIOLATIONS: Final = NvmlCollector.of(
    "violations",
    _violation(
        Signal.POWER_VIOLATION_SECONDS,
        pynvml.NVML_FI_DEV_PERF_POLICY_POWER,
        pynvml.NVML_PERF_POLICY_POWER,
    ),
    _violation(
        Signal.THERMAL_VIOLATION_SECONDS,
        pynvml.NVML_FI_DEV_PERF_POLICY_THERMAL,
        pynvml.NVML_PERF_POLICY_THERMAL,
    ),
    is_slow=True,
    part_of="power",
)
