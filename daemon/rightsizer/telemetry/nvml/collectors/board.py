"""A board as a whole: memory, power, clocks, temperatures, fans and its PCIe link."""

from operator import attrgetter
from typing import Final

import pynvml

from rightsizer.model.frozen import replace
from rightsizer.model.reading import Missing
from rightsizer.model.signal import Signal
from rightsizer.telemetry.nvml.collector import NvmlCollector, NvmlRate, NvmlValue
from rightsizer.telemetry.nvml.handle import DeviceHandle
from rightsizer.telemetry.nvml.library import FieldKey, NvmlFailure, is_blank
from rightsizer.telemetry.nvml.reading_builder import ReadingBuilder

_MEMORY_CALL: Final = "nvmlDeviceGetMemoryInfo"
_MEMORY_PARTS: Final = {
    Signal.MEMORY_USED_BYTES: "used",
    Signal.MEMORY_TOTAL_BYTES: "total",
    Signal.MEMORY_FREE_BYTES: "free",
    Signal.MEMORY_RESERVED_BYTES: "reserved",
}
"""Used and free do not sum to the total."""
# The window to the memory; full, it stops RDMA and mappings.
_BAR1_PARTS: Final = {Signal.BAR1_USED_BYTES: "bar1Used", Signal.BAR1_TOTAL_BYTES: "bar1Total"}
_CONTRADICTION: Final = NvmlFailure(
    Missing.INVALID, _MEMORY_CALL, "more is in use than there is, or there is none"
)


def _read_memory(handle: DeviceHandle, builder: ReadingBuilder) -> None:
    # The first version counts the driver's own part as used; only older drivers need it.
    answer = handle.ask_first((_MEMORY_CALL, pynvml.nvmlMemory_v2), (_MEMORY_CALL,))
    if not isinstance(answer, NvmlFailure):
        used, total = answer.used, answer.total
        if not total or (used > total and not is_blank(used)):
            answer = _CONTRADICTION
    builder.put_parts(_MEMORY_PARTS, answer)


MEMORY: Final = NvmlCollector(
    "memory", tuple(_MEMORY_PARTS), _read_memory, is_essential=True, on_mig_instance=True
)
BAR1: Final = NvmlCollector(
    "bar1",
    tuple(_BAR1_PARTS),
    lambda handle, builder: builder.put_parts(
        _BAR1_PARTS, handle.ask("nvmlDeviceGetBAR1MemoryInfo")
    ),
    is_slow=True,
    part_of="memory",
)

_MILLI: Final = 1e-3
_NANO: Final = 1e-9
_ENERGY: Final = pynvml.NVML_FI_DEV_TOTAL_ENERGY_CONSUMPTION
_ASKED_ENERGY: Final = NvmlValue(
    Signal.ENERGY_JOULES, (("nvmlDeviceGetTotalEnergyConsumption",),), scale=_MILLI
)
_COUNTED_ENERGY: Final = replace(_ASKED_ENERGY, field=_ENERGY)


def _read_power(handle: DeviceHandle, builder: ReadingBuilder) -> None:
    # A mean over a second from Ampere on but for GA100, the present draw before.
    builder.put(Signal.POWER_WATTS, handle.ask("nvmlDeviceGetPowerUsage"), _MILLI)
    # Where the field counts nothing, the function may.
    (_ASKED_ENERGY if handle.field(_ENERGY) == 0 else _COUNTED_ENERGY).read(handle, builder)


def _violation(signal: Signal, field: FieldKey, policy: int) -> NvmlValue:
    part = attrgetter("violationTime")
    return NvmlValue(signal, (("nvmlDeviceGetViolationStatus", policy),), field, _NANO, part)


POWER: Final = NvmlCollector(
    "power",
    (Signal.POWER_WATTS, Signal.ENERGY_JOULES),
    _read_power,
    fields=(_ENERGY,),
    is_essential=True,
    settles=True,
)
# The least of the operator's limit and what board and chassis allow.
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
# For how long power and heat held the clocks.
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
    part_of="power",
)

_MEGAHERTZ: Final = 1e6
_NOW: Final = "nvmlDeviceGetClockInfo"
_HIGHEST: Final = "nvmlDeviceGetMaxClockInfo"
_APPLICATION: Final = "nvmlDeviceGetApplicationsClock"
_SM, _MEMORY, _VIDEO = pynvml.NVML_CLOCK_SM, pynvml.NVML_CLOCK_MEM, pynvml.NVML_CLOCK_VIDEO
_STATE: Final = "nvmlDeviceGetPerformanceState"
_UNKNOWN: Final = NvmlFailure(Missing.NOT_SUPPORTED, _STATE, "the driver answers 'unknown'")


def _clock(signal: Signal, call: str, kind: int, *, is_constant: bool = False) -> NvmlValue:
    return NvmlValue(signal, ((call, kind),), scale=_MEGAHERTZ, is_constant=is_constant)


CLOCKS: Final = NvmlCollector.of(
    "clocks",
    _clock(Signal.SM_CLOCK_HERTZ, _NOW, _SM),
    _clock(Signal.MEMORY_CLOCK_HERTZ, _NOW, _MEMORY),
)
CLOCK_LIMITS: Final = NvmlCollector.of(
    "clock_limits",
    _clock(Signal.SM_CLOCK_MAXIMUM_HERTZ, _HIGHEST, _SM, is_constant=True),
    _clock(Signal.MEMORY_CLOCK_MAXIMUM_HERTZ, _HIGHEST, _MEMORY, is_constant=True),
    # The bindings know no application clock of the SMs; the graphics clock drives them.
    _clock(Signal.SM_CLOCK_APPLICATION_HERTZ, _APPLICATION, pynvml.NVML_CLOCK_GRAPHICS),
    _clock(Signal.MEMORY_CLOCK_APPLICATION_HERTZ, _APPLICATION, _MEMORY),
    _clock(Signal.VIDEO_CLOCK_HERTZ, _NOW, _VIDEO),
    is_slow=True,
    part_of="clocks",
)
CLOCK_EVENTS: Final = NvmlCollector.of(
    "clock_events",
    NvmlValue(
        Signal.CLOCK_EVENT_REASONS,
        # Drivers before R535 know the same mask by the second name.
        (
            ("nvmlDeviceGetCurrentClocksEventReasons",),
            ("nvmlDeviceGetCurrentClocksThrottleReasons",),
        ),
    ),
    part_of="clocks",
)
# Datacenter boards idle in their highest state.
PERFORMANCE_STATE: Final = NvmlCollector.of(
    "performance_state",
    NvmlValue(
        Signal.PERFORMANCE_STATE,
        ((_STATE,),),
        part=lambda state: _UNKNOWN if state == pynvml.NVML_PSTATE_UNKNOWN else state,
    ),
    is_slow=True,
    part_of="clocks",
)

_TEMPERATURE_CALLS: Final = (
    ("nvmlDeviceGetTemperature", pynvml.NVML_TEMPERATURE_GPU),
    ("nvmlDeviceGetTemperatureV", pynvml.NVML_TEMPERATURE_GPU),
)
_MEMORY_TEMPERATURE: Final = pynvml.NVML_FI_DEV_MEMORY_TEMP
_NO_SENSOR: Final = NvmlFailure(
    Missing.NOT_SUPPORTED, "nvmlDeviceGetFieldValues", "0 degrees: there is no memory sensor"
)
_NO_FAN: Final = NvmlFailure(Missing.NOT_SUPPORTED, "nvmlDeviceGetNumFans", "the board has no fan")
_FAN_OVERSHOOT_RATIO: Final = 1.0
"""The driver counts in parts of the intended maximum, which a fan may pass (NVML API reference,
nvmlDeviceGetFanSpeed)."""


def _read_temperature(handle: DeviceHandle, builder: ReadingBuilder) -> None:
    builder.put(Signal.TEMPERATURE_CELSIUS, handle.ask_first(*_TEMPERATURE_CALLS))
    memory = handle.field(_MEMORY_TEMPERATURE)
    builder.put(Signal.MEMORY_TEMPERATURE_CELSIUS, _NO_SENSOR if memory == 0 else memory)


def _read_fans(handle: DeviceHandle, builder: ReadingBuilder) -> None:
    """The fastest."""
    count = handle.ask_once("nvmlDeviceGetNumFans")
    if isinstance(count, NvmlFailure) or is_blank(count):
        fastest = handle.ask("nvmlDeviceGetFanSpeed")
    else:
        speeds = [handle.ask("nvmlDeviceGetFanSpeed_v2", fan) for fan in range(count)]
        known = [speed for speed in speeds if not isinstance(speed, NvmlFailure)]
        fastest = max(known) if known else next(iter(speeds), _NO_FAN)
    builder.put_percent(Signal.FAN_SPEED, fastest, _FAN_OVERSHOOT_RATIO)


TEMPERATURE: Final = NvmlCollector(
    "temperature",
    (Signal.TEMPERATURE_CELSIUS, Signal.MEMORY_TEMPERATURE_CELSIUS),
    _read_temperature,
    fields=(_MEMORY_TEMPERATURE,),
)
# From Hopper on there are no fixed thresholds: the driver tells how far away they are, and by how
# much they are passed.
TEMPERATURE_MARGIN: Final = NvmlCollector.of(
    "temperature_margin",
    NvmlValue(Signal.TEMPERATURE_MARGIN_CELSIUS, (("nvmlDeviceGetMarginTemperature",),)),
    is_slow=True,
    part_of="temperature",
)
FANS: Final = NvmlCollector(
    "fans", (Signal.FAN_SPEED,), _read_fans, is_slow=True, part_of="temperature"
)

_KIBIBYTE: Final = 2.0**10
_RECEIVED: Final = Signal.PCIE_RECEIVE_BYTES_PER_SECOND
_TRANSMITTED: Final = Signal.PCIE_TRANSMIT_BYTES_PER_SECOND
_DIRECTIONS: Final = {
    _RECEIVED: pynvml.NVML_PCIE_UTIL_RX_BYTES,
    _TRANSMITTED: pynvml.NVML_PCIE_UTIL_TX_BYTES,
}


def _read_throughput(handle: DeviceHandle, builder: ReadingBuilder) -> None:
    """Ask where no other collector has it: each direction blocks the driver for 20 ms."""
    for signal, direction in _DIRECTIONS.items():
        if signal not in builder.values:
            builder.put(signal, handle.ask("nvmlDeviceGetPcieThroughput", direction), _KIBIBYTE)


# A lower generation is normal while idle.
PCIE: Final = NvmlCollector.of(
    "pcie",
    NvmlValue(Signal.PCIE_LINK_GENERATION, (("nvmlDeviceGetCurrPcieLinkGeneration",),)),
    NvmlValue(Signal.PCIE_LINK_WIDTH, (("nvmlDeviceGetCurrPcieLinkWidth",),)),
)
# Counters that newer drivers keep, where GPM does not tell the traffic.
PCIE_COUNTERS: Final = NvmlCollector.of(
    "pcie_counters",
    # NVML_FI_DEV_PCIE_COUNT_TX_BYTES and _RX_BYTES, which the oldest bindings allowed do not name.
    NvmlRate(_TRANSMITTED, 197),
    NvmlRate(_RECEIVED, 198),
    part_of="pcie",
)
PCIE_THROUGHPUT: Final = NvmlCollector(
    "pcie_throughput", tuple(_DIRECTIONS), _read_throughput, part_of="pcie"
)
PCIE_REPLAYS: Final = NvmlCollector.of(
    "pcie_replays",
    NvmlValue(
        Signal.PCIE_REPLAYS,
        (("nvmlDeviceGetPcieReplayCounter",),),
        pynvml.NVML_FI_DEV_PCIE_REPLAY_COUNTER,
    ),
    is_slow=True,
    part_of="pcie",
)
