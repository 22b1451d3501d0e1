"""Table of the simulated signals: what the driver answers for each, and what offers it."""

from collections.abc import Callable
from operator import attrgetter
from typing import Final

from msgspec import Struct

from rightsizer.model.values import MIB, Signal, count_computing, nanoseconds
from rightsizer.simulator.physics import HIGHEST_CELSIUS
from rightsizer.simulator.support import BoardFeature
from rightsizer.simulator.transients import shown_watts
from rightsizer.simulator.view import DeviceView

VIDEO_RATIO: Final = 0.9
"""Clock of the video engines, relative to the graphics clock."""
INTEGER_RATIO: Final = 0.3
"""Relative to SM activity: addresses and loops take integer work in all kernels."""
BAR1_USED_BYTES: Final = 3 * MIB
FABRIC_COMPLETED: Final = 3
_NOTHING, _RESET = range(2)
_WHOLE: Final = frozenset({"whole", "cut"})
_EVERYWHERE: Final = frozenset({"whole", "cut", "instance"})
_UNDIVIDED: Final = frozenset({"whole", "instance"})


def megahertz(hertz: float) -> int:
    """Convert a clock to the driver's unit."""
    return round(hertz / 1e6)


def milli(value: float) -> int:
    """Convert watts to milliwatts, or joules to millijoules."""
    return int(value * 1000.0)


def percent(ratio: float) -> int:
    """Convert a ratio to NVML's percentage."""
    return round(100.0 * ratio)


def _recovery_action(device: DeviceView) -> int:
    """Return the recovery action: none, or a reset that remaps rows or retrains links."""
    health = device.health
    needs = health.is_remapping_pending or health.has_remapping_failed or health.links_down
    return _RESET if needs else _NOTHING


def _celsius(device: DeviceView) -> int:
    return round(device.state.electrical.temperature_celsius)


class SimulatedSignal(Struct, frozen=True):
    """What the driver answers for a signal, and how."""

    signal: Signal
    feature: BoardFeature
    """Feature that a board needs."""
    read: Callable[[DeviceView], float]
    """Answer in the driver's unit; of a metric, in the signal's, before the mean is taken."""
    per: float = 1.0
    """Driver's units in one of the signal's."""
    scopes: frozenset[str] = _WHOLE
    """Whole GPUs, GPUs cut into MIG instances, and instances."""
    calls: tuple[str, ...] = ()
    """Functions that answer nothing else and take no argument."""
    field: int | None = None
    """NVML's field id (nvml.h, NVML_FI_*), which never changes."""
    is_long: bool = False
    """Whether the field has 64 bits."""
    metric: int | None = None
    """NVML's id of the GPM metric."""
    is_steady: bool = False
    """Whether only faults change it."""


SIGNALS: Final = (
    SimulatedSignal(
        Signal.GPU_BUSY,
        BoardFeature.GPM,
        attrgetter("state.load.gpu_busy"),
        scopes=_UNDIVIDED,
        metric=1,
    ),
    SimulatedSignal(
        Signal.SM_ACTIVE,
        BoardFeature.GPM,
        attrgetter("state.load.sm_active"),
        scopes=_UNDIVIDED,
        metric=2,
    ),
    SimulatedSignal(
        Signal.SM_OCCUPANCY,
        BoardFeature.GPM,
        attrgetter("state.load.sm_occupancy"),
        scopes=_UNDIVIDED,
        metric=3,
    ),
    SimulatedSignal(
        Signal.INTEGER_ACTIVE,
        BoardFeature.GPM,
        lambda device: INTEGER_RATIO * device.state.load.sm_active,
        scopes=_UNDIVIDED,
        metric=4,
    ),
    SimulatedSignal(
        Signal.TENSOR_ACTIVE,
        BoardFeature.GPM,
        attrgetter("state.load.tensor_active"),
        scopes=_UNDIVIDED,
        metric=5,
    ),
    SimulatedSignal(
        Signal.DRAM_ACTIVE,
        BoardFeature.GPM,
        attrgetter("state.load.dram_active"),
        scopes=_UNDIVIDED,
        metric=10,
    ),
    SimulatedSignal(
        Signal.FP64_ACTIVE,
        BoardFeature.GPM,
        attrgetter("state.load.fp64_active"),
        scopes=_UNDIVIDED,
        metric=11,
    ),
    SimulatedSignal(
        Signal.FP32_ACTIVE,
        BoardFeature.GPM,
        attrgetter("state.load.fp32_active"),
        scopes=_UNDIVIDED,
        metric=12,
    ),
    SimulatedSignal(
        Signal.FP16_ACTIVE,
        BoardFeature.GPM,
        attrgetter("state.load.fp16_active"),
        scopes=_UNDIVIDED,
        metric=13,
    ),
    SimulatedSignal(
        Signal.PCIE_TRANSMIT_BYTES_PER_SECOND,
        BoardFeature.PCIE_COUNTERS,
        attrgetter("state.pcie_transmit_bytes_per_second"),
        metric=20,
    ),
    SimulatedSignal(
        Signal.PCIE_RECEIVE_BYTES_PER_SECOND,
        BoardFeature.PCIE_COUNTERS,
        attrgetter("state.pcie_receive_bytes_per_second"),
        metric=21,
    ),
    SimulatedSignal(
        Signal.NVLINK_RECEIVE_BYTES_PER_SECOND,
        BoardFeature.NVLINK,
        attrgetter("state.nvlink_receive_bytes_per_second"),
        metric=60,
    ),
    SimulatedSignal(
        Signal.NVLINK_TRANSMIT_BYTES_PER_SECOND,
        BoardFeature.NVLINK,
        attrgetter("state.nvlink_transmit_bytes_per_second"),
        metric=61,
    ),
    SimulatedSignal(
        Signal.GPU_BUSY,
        BoardFeature.UTILIZATION,
        lambda device: percent(device.state.load.gpu_busy),
        per=100.0,
    ),
    SimulatedSignal(
        Signal.MEMORY_CONTROLLER_BUSY,
        BoardFeature.UTILIZATION,
        lambda device: percent(device.state.memory_controller_busy),
        per=100.0,
    ),
    SimulatedSignal(
        Signal.ENCODER,
        BoardFeature.ENCODER_DECODER,
        lambda device: percent(device.state.load.encoder),
        per=100.0,
    ),
    SimulatedSignal(
        Signal.DECODER,
        BoardFeature.ENCODER_DECODER,
        lambda device: percent(device.state.load.decoder),
        per=100.0,
    ),
    SimulatedSignal(
        Signal.ENCODER_SESSIONS,
        BoardFeature.ENCODER_DECODER,
        lambda device: 1 if device.state.load.encoder > 0.0 else 0,
    ),
    SimulatedSignal(
        Signal.JPEG,
        BoardFeature.JPEG,
        lambda device: percent(device.state.load.jpeg),
        per=100.0,
    ),
    SimulatedSignal(
        Signal.OFA,
        BoardFeature.OFA,
        lambda device: percent(device.state.load.ofa),
        per=100.0,
    ),
    SimulatedSignal(
        Signal.MEMORY_USED_BYTES,
        BoardFeature.MEMORY,
        attrgetter("state.memory_used_bytes"),
        scopes=_EVERYWHERE,
    ),
    SimulatedSignal(
        Signal.MEMORY_TOTAL_BYTES,
        BoardFeature.MEMORY,
        attrgetter("state.memory_total_bytes"),
        scopes=_EVERYWHERE,
    ),
    SimulatedSignal(
        Signal.MEMORY_FREE_BYTES,
        BoardFeature.MEMORY,
        lambda device: max(
            0,
            device.state.memory_total_bytes
            - device.state.memory_reserved_bytes
            - device.state.memory_used_bytes,
        ),
        scopes=_EVERYWHERE,
    ),
    SimulatedSignal(
        Signal.MEMORY_RESERVED_BYTES,
        BoardFeature.MEMORY,
        attrgetter("state.memory_reserved_bytes"),
        scopes=_EVERYWHERE,
    ),
    SimulatedSignal(
        Signal.BAR1_USED_BYTES,
        BoardFeature.MEMORY,
        lambda _: BAR1_USED_BYTES,
    ),
    SimulatedSignal(
        Signal.BAR1_TOTAL_BYTES,
        BoardFeature.MEMORY,
        # The power of two that holds all memory.
        lambda device: MIB << (device.state.memory_total_bytes // MIB).bit_length(),
    ),
    SimulatedSignal(
        Signal.POWER_WATTS,
        BoardFeature.POWER,
        lambda device: milli(
            shown_watts(
                device.state,
                device.unit.around,
                device.now(),
                averages=device.support.has(BoardFeature.POWER_AVERAGE),
            )
        ),
        per=1e3,
        calls=("nvmlDeviceGetPowerUsage",),
    ),
    SimulatedSignal(
        Signal.POWER_LIMIT_WATTS,
        BoardFeature.POWER,
        lambda device: milli(device.around.power_limit_watts),
        per=1e3,
        calls=("nvmlDeviceGetEnforcedPowerLimit", "nvmlDeviceGetPowerManagementLimit"),
        is_steady=True,
    ),
    SimulatedSignal(
        Signal.ENERGY_JOULES,
        BoardFeature.ENERGY,
        lambda device: milli(device.counters.energy_joules),
        per=1e3,
        calls=("nvmlDeviceGetTotalEnergyConsumption",),
        field=83,
        is_long=True,
    ),
    SimulatedSignal(
        Signal.SM_CLOCK_HERTZ,
        BoardFeature.CLOCKS,
        lambda device: megahertz(device.state.electrical.sm_clock_hertz),
        per=1e-6,
    ),
    SimulatedSignal(
        Signal.MEMORY_CLOCK_HERTZ,
        BoardFeature.CLOCKS,
        lambda device: megahertz(device.state.electrical.memory_clock_hertz),
        per=1e-6,
    ),
    SimulatedSignal(
        Signal.VIDEO_CLOCK_HERTZ,
        BoardFeature.CLOCKS,
        lambda device: megahertz(VIDEO_RATIO * device.state.electrical.sm_clock_hertz),
        per=1e-6,
    ),
    SimulatedSignal(
        Signal.SM_CLOCK_MAXIMUM_HERTZ,
        BoardFeature.CLOCKS,
        lambda device: megahertz(device.around.sm_clock_maximum_hertz),
        per=1e-6,
        is_steady=True,
    ),
    SimulatedSignal(
        Signal.MEMORY_CLOCK_MAXIMUM_HERTZ,
        BoardFeature.CLOCKS,
        lambda device: megahertz(device.around.family.memory_clock_hertz),
        per=1e-6,
        is_steady=True,
    ),
    SimulatedSignal(
        Signal.SM_CLOCK_APPLICATION_HERTZ,
        BoardFeature.APPLICATION_CLOCKS,
        lambda device: megahertz(device.around.sm_clock_maximum_hertz),
        per=1e-6,
        is_steady=True,
    ),
    SimulatedSignal(
        Signal.MEMORY_CLOCK_APPLICATION_HERTZ,
        BoardFeature.APPLICATION_CLOCKS,
        lambda device: megahertz(device.around.family.memory_clock_hertz),
        per=1e-6,
        is_steady=True,
    ),
    SimulatedSignal(
        Signal.PERFORMANCE_STATE,
        BoardFeature.CLOCKS,
        attrgetter("state.electrical.performance_state"),
        calls=("nvmlDeviceGetPerformanceState",),
    ),
    SimulatedSignal(
        Signal.CLOCK_EVENT_REASONS,
        BoardFeature.CLOCK_EVENTS,
        attrgetter("state.electrical.clock_event_reasons"),
        calls=(
            "nvmlDeviceGetCurrentClocksThrottleReasons",
            "nvmlDeviceGetCurrentClocksEventReasons",
        ),
    ),
    SimulatedSignal(
        Signal.POWER_VIOLATION_SECONDS,
        BoardFeature.CLOCK_EVENTS,
        lambda device: nanoseconds(device.counters.power_violation_seconds),
        per=1e9,
        field=74,
        is_long=True,
    ),
    SimulatedSignal(
        Signal.THERMAL_VIOLATION_SECONDS,
        BoardFeature.CLOCK_EVENTS,
        lambda device: nanoseconds(device.counters.thermal_violation_seconds),
        per=1e9,
        field=75,
        is_long=True,
    ),
    SimulatedSignal(
        Signal.TEMPERATURE_CELSIUS,
        BoardFeature.TEMPERATURE,
        _celsius,
    ),
    SimulatedSignal(
        Signal.TEMPERATURE_MARGIN_CELSIUS,
        BoardFeature.TEMPERATURE_MARGIN,
        lambda device: HIGHEST_CELSIUS - _celsius(device),
    ),
    SimulatedSignal(
        Signal.MEMORY_TEMPERATURE_CELSIUS,
        BoardFeature.MEMORY_TEMPERATURE,
        lambda device: round(device.state.electrical.memory_temperature_celsius),
        field=82,
    ),
    SimulatedSignal(
        Signal.FAN_SPEED,
        BoardFeature.FANS,
        lambda device: max(30, min(100, 2 * (_celsius(device) - 35))),
        per=100.0,
        calls=("nvmlDeviceGetFanSpeed",),
    ),
    SimulatedSignal(
        Signal.PCIE_LINK_GENERATION,
        BoardFeature.PCIE,
        attrgetter("state.electrical.pcie_generation"),
        calls=("nvmlDeviceGetCurrPcieLinkGeneration",),
    ),
    SimulatedSignal(
        Signal.PCIE_LINK_WIDTH,
        BoardFeature.PCIE,
        attrgetter("state.electrical.pcie_width"),
        calls=("nvmlDeviceGetCurrPcieLinkWidth",),
    ),
    SimulatedSignal(
        Signal.PCIE_REPLAYS,
        BoardFeature.PCIE,
        attrgetter("health.pcie_replays"),
        calls=("nvmlDeviceGetPcieReplayCounter",),
        field=94,
        is_steady=True,
    ),
    SimulatedSignal(
        Signal.NVLINK_LINKS,
        BoardFeature.NVLINK,
        lambda device: len(device.links),
    ),
    SimulatedSignal(
        Signal.NVLINK_LINKS_UP,
        BoardFeature.NVLINK,
        lambda device: sum(link.is_up for link in device.links),
    ),
    SimulatedSignal(
        Signal.NVLINK_ERRORS,
        BoardFeature.NVLINK,
        lambda device: sum(error.total for error in device.health.link_errors.values()),
        is_steady=True,
    ),
    SimulatedSignal(
        Signal.FABRIC_STATE,
        BoardFeature.FABRIC,
        lambda _: FABRIC_COMPLETED,
        is_steady=True,
    ),
    SimulatedSignal(
        Signal.ECC_CORRECTED_ERRORS,
        BoardFeature.VOLATILE_ECC,
        attrgetter("recent_health.corrected_errors"),
        field=3,
        is_long=True,
        is_steady=True,
    ),
    SimulatedSignal(
        Signal.ECC_UNCORRECTED_ERRORS,
        BoardFeature.VOLATILE_ECC,
        attrgetter("recent_health.uncorrected_errors"),
        field=4,
        is_long=True,
        is_steady=True,
    ),
    SimulatedSignal(
        # Outside the memory chips.
        Signal.ECC_UNCORRECTED_ERRORS,
        BoardFeature.ECC,
        lambda _: 0,
        scopes=frozenset({"instance"}),
        is_steady=True,
    ),
    SimulatedSignal(
        Signal.ECC_CORRECTED_ERRORS_LIFETIME,
        BoardFeature.ECC,
        attrgetter("health.corrected_errors"),
        field=5,
        is_long=True,
        is_steady=True,
    ),
    SimulatedSignal(
        Signal.ECC_UNCORRECTED_ERRORS_LIFETIME,
        BoardFeature.ECC,
        attrgetter("health.uncorrected_errors"),
        field=6,
        is_long=True,
        is_steady=True,
    ),
    SimulatedSignal(
        Signal.RETIRED_PAGES_CORRECTABLE,
        BoardFeature.RETIRED_PAGES,
        attrgetter("health.rows_correctable"),
        field=29,
        is_long=True,
        is_steady=True,
    ),
    SimulatedSignal(
        Signal.RETIRED_PAGES_UNCORRECTABLE,
        BoardFeature.RETIRED_PAGES,
        attrgetter("health.rows_uncorrectable"),
        field=30,
        is_long=True,
        is_steady=True,
    ),
    SimulatedSignal(
        Signal.RETIRED_PAGES_PENDING,
        BoardFeature.RETIRED_PAGES,
        attrgetter("health.is_remapping_pending"),
        field=31,
        is_long=True,
        is_steady=True,
    ),
    SimulatedSignal(
        Signal.REMAPPED_ROWS_CORRECTABLE,
        BoardFeature.ROW_REMAPPING,
        attrgetter("health.rows_correctable"),
        field=142,
        is_steady=True,
    ),
    SimulatedSignal(
        Signal.REMAPPED_ROWS_UNCORRECTABLE,
        BoardFeature.ROW_REMAPPING,
        attrgetter("health.rows_uncorrectable"),
        field=143,
        is_steady=True,
    ),
    SimulatedSignal(
        Signal.REMAPPED_ROWS_PENDING,
        BoardFeature.ROW_REMAPPING,
        attrgetter("health.is_remapping_pending"),
        field=144,
        is_steady=True,
    ),
    SimulatedSignal(
        Signal.REMAPPED_ROWS_FAILED,
        BoardFeature.ROW_REMAPPING,
        attrgetter("health.has_remapping_failed"),
        field=145,
        is_steady=True,
    ),
    SimulatedSignal(
        Signal.RECOVERY_ACTION,
        BoardFeature.MEMORY,
        _recovery_action,
        field=230,
        is_steady=True,
    ),
    SimulatedSignal(
        Signal.PROCESS_COUNT,
        BoardFeature.PROCESSES,
        lambda device: count_computing(device.processes),
        scopes=_UNDIVIDED,
    ),
)
"""The first row of a signal whose feature a device has gives its value."""

ROWS: Final = {row.signal: row for row in reversed(SIGNALS)}
"""The first row of each signal."""
