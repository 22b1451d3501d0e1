"""Signals of `signals.csv`: name, unit, bounds, meaning, and export."""

from enum import StrEnum, auto
from typing import Final, Self

from rightsizer.model.metric_family import Collector, Export, Level, Origin
from rightsizer.model.table import table_rows
from rightsizer.model.units import Unit

_BY_UNIT: Final[dict[Unit, tuple[float, float]]] = {
    # Rounding and MIG instances may read slightly above 1; such values are clamped.
    Unit.RATIO: (0.0, 1.1),
    Unit.BYTES: (0.0, 2.0**50),
    Unit.BYTES_PER_SECOND: (0.0, 1e14),
    # Ten times the largest board's draw.
    Unit.WATTS: (0.0, 20e3),
    Unit.JOULES: (0.0, 1.4e11),
    # A board that responds has clocks that run.
    Unit.HERTZ: (1.0, 1e11),
    Unit.CELSIUS: (-60.0, 200.0),
    Unit.COUNT: (0.0, 2.0**31 - 17),
    Unit.SECONDS: (0.0, 2e9),
}
_BY_NAME: Final[dict[str, tuple[float, float]]] = {
    "temperature_margin_celsius": (-200.0, 200.0),
    "bar1_total_bytes": (1.0, 2.0**50),
    "power_limit_watts": (1e-3, 20e3),
    "performance_state": (0.0, 15.0),
    "pcie_link_generation": (1.0, 16.0),
    "pcie_link_width": (1.0, 64.0),
    # At least ten times the rates of PCIe 7.0 and NVLink 6.
    "pcie_receive_bytes_per_second": (0.0, 4e12),
    "pcie_transmit_bytes_per_second": (0.0, 4e12),
    "nvlink_receive_bytes_per_second": (0.0, 50e12),
    "nvlink_transmit_bytes_per_second": (0.0, 50e12),
}
"""Possible values of a device, bounds included; wide enough for future boards."""

_ROWS: Final = {row["name"]: row for row in table_rows(__file__, "signals.csv")}


class Signal(StrEnum):
    """Signal of the table; its value is also its column in a CSV recording."""

    unit: Unit
    bounds: tuple[float, float]
    """Minimum and maximum of a plausible reading."""
    meaning: str
    """Full sentence with a period."""
    collector: Collector
    """Collector that enables its metrics."""
    origin: Origin
    """Required telemetry tier."""
    export: Export
    level: Level
    """Lowest level that exports its metric; its histogram needs the full one."""

    def __new__(cls, name: str) -> Self:
        """Make a member from its row."""
        signal = str.__new__(cls, name)
        row = _ROWS[name]
        signal._value_ = name
        signal.meaning = row["meaning"]
        signal.unit = Unit(row["unit"])
        signal.export = Export[row["export"].upper()]
        signal.bounds = _BY_NAME.get(name, _BY_UNIT[signal.unit])
        signal.collector = Collector(row["collector"])
        signal.origin = Origin(row["origin"])
        signal.level = Level(row["level"])
        return signal

    GPU_BUSY = auto()
    SM_ACTIVE = auto()
    SM_OCCUPANCY = auto()
    SM_WORK = auto()
    TENSOR_ACTIVE = auto()
    FP32_ACTIVE = auto()
    FP16_ACTIVE = auto()
    FP64_ACTIVE = auto()
    INTEGER_ACTIVE = auto()
    DRAM_ACTIVE = auto()
    MEMORY_CONTROLLER_BUSY = auto()
    MEMORY_USED = auto()
    PCIE_RECEIVE = auto()
    PCIE_TRANSMIT = auto()
    NVLINK_RECEIVE = auto()
    NVLINK_TRANSMIT = auto()
    POWER = auto()
    ENCODER = auto()
    DECODER = auto()
    JPEG = auto()
    OFA = auto()
    FAN_SPEED = auto()
    CPU = auto()
    PROCESS_CPU = auto()
    CPU_PRESSURE = auto()
    IO_PRESSURE = auto()
    MEMORY_PRESSURE = auto()
    IO_WAIT = auto()
    CPU_AFFINITY_LOCAL = auto()
    HOST_MEMORY_LOCAL = auto()
    INFINIBAND_RECEIVE = auto()
    INFINIBAND_TRANSMIT = auto()
    KV_CACHE_USED = auto()
    MEMORY_USED_BYTES = auto()
    MEMORY_TOTAL_BYTES = auto()
    MEMORY_FREE_BYTES = auto()
    MEMORY_RESERVED_BYTES = auto()
    BAR1_USED_BYTES = auto()
    BAR1_TOTAL_BYTES = auto()
    POWER_WATTS = auto()
    POWER_LIMIT_WATTS = auto()
    ENERGY_JOULES = auto()
    TEMPERATURE_CELSIUS = auto()
    MEMORY_TEMPERATURE_CELSIUS = auto()
    TEMPERATURE_MARGIN_CELSIUS = auto()
    SM_CLOCK_HERTZ = auto()
    SM_CLOCK_MAXIMUM_HERTZ = auto()
    SM_CLOCK_APPLICATION_HERTZ = auto()
    MEMORY_CLOCK_HERTZ = auto()
    MEMORY_CLOCK_MAXIMUM_HERTZ = auto()
    MEMORY_CLOCK_APPLICATION_HERTZ = auto()
    VIDEO_CLOCK_HERTZ = auto()
    CLOCK_EVENT_REASONS = auto()
    POWER_VIOLATION_SECONDS = auto()
    THERMAL_VIOLATION_SECONDS = auto()
    PERFORMANCE_STATE = auto()
    PCIE_LINK_GENERATION = auto()
    PCIE_LINK_WIDTH = auto()
    PCIE_RECEIVE_BYTES_PER_SECOND = auto()
    PCIE_TRANSMIT_BYTES_PER_SECOND = auto()
    NVLINK_RECEIVE_BYTES_PER_SECOND = auto()
    NVLINK_TRANSMIT_BYTES_PER_SECOND = auto()
    NVLINK_LINKS = auto()
    NVLINK_LINKS_UP = auto()
    NVLINK_ERRORS = auto()
    PCIE_REPLAYS = auto()
    FABRIC_STATE = auto()
    ECC_CORRECTED_ERRORS = auto()
    ECC_UNCORRECTED_ERRORS = auto()
    ECC_CORRECTED_ERRORS_LIFETIME = auto()
    ECC_UNCORRECTED_ERRORS_LIFETIME = auto()
    RETIRED_PAGES_CORRECTABLE = auto()
    RETIRED_PAGES_UNCORRECTABLE = auto()
    RETIRED_PAGES_PENDING = auto()
    REMAPPED_ROWS_CORRECTABLE = auto()
    REMAPPED_ROWS_UNCORRECTABLE = auto()
    REMAPPED_ROWS_PENDING = auto()
    REMAPPED_ROWS_FAILED = auto()
    RECOVERY_ACTION = auto()
    ENCODER_SESSIONS = auto()
    PROCESS_COUNT = auto()
    DISK_READ_BYTES_PER_SECOND = auto()
    DISK_WRITE_BYTES_PER_SECOND = auto()
    NETWORK_RECEIVE_BYTES_PER_SECOND = auto()
    NETWORK_TRANSMIT_BYTES_PER_SECOND = auto()
    INFINIBAND_RECEIVE_BYTES_PER_SECOND = auto()
    INFINIBAND_TRANSMIT_BYTES_PER_SECOND = auto()
    REQUESTS_RUNNING = auto()
    REQUESTS_WAITING = auto()
    PREEMPTIONS = auto()
    TIME_TO_FIRST_TOKEN_SECONDS = auto()
    TIME_PER_OUTPUT_TOKEN_SECONDS = auto()
    REQUEST_LATENCY_SECONDS = auto()

    @property
    def metric_name(self) -> str:
        """Metric name of the last reading."""
        if self.unit is Unit.RATIO:
            return f"rightsizer_{self}_ratio"
        if self is Signal.PROCESS_COUNT:  # Prometheus keeps the suffix `_count` for histograms.
            return "rightsizer_device_processes"
        suffix = "_total" if self.export is Export.COUNTER else ""
        return f"rightsizer_{self}{suffix}"

    @property
    def distribution_metric_name(self) -> str:
        """Metric name of the histogram of seconds."""
        return f"rightsizer_{self}_distribution_ratio"


PIPES: Final = (Signal.TENSOR_ACTIVE, Signal.FP32_ACTIVE, Signal.FP16_ACTIVE, Signal.FP64_ACTIVE)
"""Arithmetic pipes; a computing GPU uses at least one."""

MEDIA_ENGINES: Final = (Signal.ENCODER, Signal.DECODER, Signal.JPEG)
"""Engines for video and images."""

HOST_SIGNALS: Final = (
    Signal.CPU,
    Signal.CPU_PRESSURE,
    Signal.IO_PRESSURE,
    Signal.MEMORY_PRESSURE,
    Signal.IO_WAIT,
    Signal.DISK_READ_BYTES_PER_SECOND,
    Signal.DISK_WRITE_BYTES_PER_SECOND,
    Signal.NETWORK_RECEIVE_BYTES_PER_SECOND,
    Signal.NETWORK_TRANSMIT_BYTES_PER_SECOND,
)
"""Signals of the node, shared by its devices; an owner's own signals take precedence."""

RATIO_SIGNALS: Final = frozenset(signal for signal in Signal if signal.unit is Unit.RATIO)
"""Signals in 0..1 of a capacity."""

CAPACITY_SIGNALS: Final[dict[Signal, dict[Unit, Signal]]] = {
    Signal.MEMORY_USED: {Unit.BYTES: Signal.MEMORY_USED_BYTES},
    Signal.POWER: {Unit.WATTS: Signal.POWER_WATTS},
    Signal.PCIE_RECEIVE: {Unit.BYTES_PER_SECOND: Signal.PCIE_RECEIVE_BYTES_PER_SECOND},
    Signal.PCIE_TRANSMIT: {Unit.BYTES_PER_SECOND: Signal.PCIE_TRANSMIT_BYTES_PER_SECOND},
    Signal.NVLINK_RECEIVE: {Unit.BYTES_PER_SECOND: Signal.NVLINK_RECEIVE_BYTES_PER_SECOND},
    Signal.NVLINK_TRANSMIT: {Unit.BYTES_PER_SECOND: Signal.NVLINK_TRANSMIT_BYTES_PER_SECOND},
}
"""Ratios that may be read as quantities and are divided by the device's capacity."""


def in_unit(signal: Signal, unit: Unit) -> Signal:
    """Signal for the same measurement in a unit: `power` in watts is `power_watts`.

    Raises:
        ValueError: the signal is not measured in that unit.
    """
    if signal.unit is unit:
        return signal
    try:
        return CAPACITY_SIGNALS[signal][unit]
    except KeyError:
        raise ValueError(
            f"'{signal}' is not measured in {unit}; its unit is {signal.unit}"
        ) from None
