"""The table of signals: name, unit, bounds, meaning, and how each is exported."""

from enum import StrEnum
from functools import partial
from typing import Final, NamedTuple, Self

from rightsizer.model.metric_family import Collector, Export, Origin
from rightsizer.model.units import Unit

_BOUNDS: Final[dict[Unit, tuple[float, float]]] = {
    # Rounding and MIG instances read a little above the whole; that is the whole.
    Unit.RATIO: (0.0, 1.1),
    Unit.BYTES: (0.0, 2.0**50),
    Unit.BYTES_PER_SECOND: (0.0, 1e14),
    Unit.WATTS: (0.0, 1e5),
    Unit.JOULES: (0.0, 1.4e11),
    Unit.HERTZ: (0.0, 1e11),
    Unit.CELSIUS: (-100.0, 300.0),
    Unit.COUNT: (0.0, 2.0**31 - 17),
    Unit.SECONDS: (0.0, 2e9),
}

_ACTIVITY = (Collector.ACTIVITY, Origin.BASIC)
_CLOCKS = (Collector.CLOCKS, Origin.BASIC)
_ERRORS = (Collector.ERRORS, Origin.BASIC)
_EXTRA = (Collector.EXTRA, Origin.BASIC)
_FABRIC = (Collector.FABRIC, Origin.HOST)
_HOST = (Collector.HOST, Origin.HOST)
_MEMORY = (Collector.MEMORY, Origin.BASIC)
_MORE_PIPES = (Collector.EXTRA, Origin.PROFILING)
_NVLINK = (Collector.NVLINK, Origin.BASIC)
_NVLINK_RATES = (Collector.NVLINK, Origin.PROFILING)
_PCIE = (Collector.PCIE, Origin.BASIC)
_PIPES = (Collector.ACTIVITY, Origin.PROFILING)
_POWER = (Collector.POWER, Origin.POWER)
_SERVING = (Collector.SERVING, Origin.SERVING)
_TEMPERATURE = (Collector.TEMPERATURE, Origin.BASIC)
_HISTOGRAM, _COUNTER = Export.HISTOGRAM, Export.COUNTER


class _Spec(NamedTuple):
    name: str
    meaning: str
    group: tuple[Collector, Origin] = _EXTRA
    export: Export = Export.GAUGE
    unit: Unit | None = None
    """By the end of the name, or a ratio, where it is not given."""


_count: Final = partial(_Spec, unit=Unit.COUNT)


class Signal(StrEnum):
    """A signal with its row of the table; its value is also its header in a CSV recording."""

    unit: Unit
    meaning: str
    """Sentence with its full stop."""
    collector: Collector
    """The group that its metrics are switched on and off with."""
    origin: Origin
    """Telemetry tier that it needs."""
    export: Export

    def __new__(
        cls,
        name: str,
        meaning: str = "",
        group: tuple[Collector, Origin] = _EXTRA,
        export: Export = Export.GAUGE,
        unit: Unit | None = None,
    ) -> Self:
        """Make the member of a row."""
        signal = str.__new__(cls, name)
        signal._value_ = name
        signal.meaning, signal.export = meaning, export
        signal.collector, signal.origin = group
        endings = (each for each in _BOUNDS if name.endswith(f"_{each}"))
        signal.unit = unit or next(endings, Unit.RATIO)
        return signal

    GPU_BUSY = _Spec("gpu_busy", "Share of time with a kernel resident.", _ACTIVITY, _HISTOGRAM)
    SM_ACTIVE = _Spec("sm_active", "SM activity, in actual cycles.", _PIPES)
    SM_OCCUPANCY = _Spec("sm_occupancy", "Resident warps of those possible.", _MORE_PIPES)
    SM_WORK = _Spec("sm_work", "SM activity times SM clock over maximum clock.", _PIPES, _HISTOGRAM)
    TENSOR_ACTIVE = _Spec("tensor_active", "Tensor pipe activity.", _PIPES, _HISTOGRAM)
    FP32_ACTIVE = _Spec("fp32_active", "FP32 pipe activity.", _MORE_PIPES)
    FP16_ACTIVE = _Spec("fp16_active", "FP16 pipe activity.", _MORE_PIPES)
    FP64_ACTIVE = _Spec("fp64_active", "FP64 pipe activity.", _MORE_PIPES)
    INTEGER_ACTIVE = _Spec("integer_active", "Integer pipe activity.", _MORE_PIPES)
    DRAM_ACTIVE = _Spec("dram_active", "Memory bandwidth used.", _PIPES, _HISTOGRAM)
    MEMORY_CONTROLLER_BUSY = _Spec(
        "memory_controller_busy",
        "Share of time the memory was read or written, relative to its current clock: a weaker "
        "stand-in for dram_active that says neither capacity nor activity.",
        _ACTIVITY,
    )
    MEMORY_USED = _Spec("memory_used", "Framebuffer used of total.", _MEMORY, _HISTOGRAM)
    PCIE_RECEIVE = _Spec("pcie_receive", "Received of the negotiated PCIe link.")
    PCIE_TRANSMIT = _Spec("pcie_transmit", "Transmitted of the negotiated PCIe link.")
    NVLINK_RECEIVE = _Spec("nvlink_receive", "Received of the NVLinks that are up.")
    NVLINK_TRANSMIT = _Spec("nvlink_transmit", "Transmitted of the NVLinks that are up.")
    POWER = _Spec(
        "power", "Draw above idle draw, of the enforced limit above idle draw.", _POWER, _HISTOGRAM
    )
    ENCODER = _Spec("encoder", "Video encoder busy share.", _ACTIVITY)
    DECODER = _Spec("decoder", "Video decoder busy share.", _ACTIVITY)
    JPEG = _Spec("jpeg", "JPEG engine busy share.")
    OFA = _Spec("ofa", "Optical flow engine busy share.")
    FAN_SPEED = _Spec("fan_speed", "Speed of the fastest fan, of its maximum.", _TEMPERATURE)
    CPU = _Spec("cpu", "CPU time used of the quota.", _HOST)
    CPU_PRESSURE = _Spec("cpu_pressure", "Share of time some task waited for a CPU.", _HOST)
    IO_PRESSURE = _Spec("io_pressure", "Share of time some task waited for I/O.", _HOST)
    MEMORY_PRESSURE = _Spec(
        "memory_pressure", "Share of time some task waited for host memory.", _HOST
    )
    IO_WAIT = _Spec("io_wait", "Share of CPU time that waited for a disk.", _HOST)
    CPU_AFFINITY_LOCAL = _Spec(
        "cpu_affinity_local",
        "CPUs of the GPU's own NUMA node, of those its processes may run on.",
        _HOST,
    )
    HOST_MEMORY_LOCAL = _Spec(
        "host_memory_local",
        "Host memory on the GPU's own NUMA node, of what its processes have.",
        _HOST,
    )
    INFINIBAND_RECEIVE = _Spec(
        "infiniband_receive",
        "Received of the rate of the nearest InfiniBand or RoCE ports.",
        _FABRIC,
    )
    INFINIBAND_TRANSMIT = _Spec(
        "infiniband_transmit",
        "Transmitted of the rate of the nearest InfiniBand or RoCE ports.",
        _FABRIC,
    )
    KV_CACHE_USED = _Spec(
        "kv_cache_used", "Key-value cache in use, of what the serving engine has.", _SERVING
    )
    MEMORY_USED_BYTES = _Spec("memory_used_bytes", "Framebuffer memory in use.", _MEMORY)
    MEMORY_TOTAL_BYTES = _Spec("memory_total_bytes", "Framebuffer memory in all.", _MEMORY)
    MEMORY_FREE_BYTES = _Spec("memory_free_bytes", "Framebuffer memory that is free.")
    MEMORY_RESERVED_BYTES = _Spec(
        "memory_reserved_bytes", "Framebuffer memory that the driver keeps for itself."
    )
    BAR1_USED_BYTES = _Spec("bar1_used_bytes", "Mapped of the PCIe window to the memory.")
    BAR1_TOTAL_BYTES = _Spec("bar1_total_bytes", "The PCIe window to the memory in all.")
    POWER_WATTS = _Spec("power_watts", "Power draw of the board.", _POWER)
    POWER_LIMIT_WATTS = _Spec("power_limit_watts", "Enforced power limit.", _POWER)
    ENERGY_JOULES = _Spec("energy_joules", "Energy since the driver was loaded.", _POWER, _COUNTER)
    TEMPERATURE_CELSIUS = _Spec("temperature_celsius", "Temperature of the GPU.", _TEMPERATURE)
    MEMORY_TEMPERATURE_CELSIUS = _Spec(
        "memory_temperature_celsius", "Temperature of the memory.", _TEMPERATURE
    )
    TEMPERATURE_MARGIN_CELSIUS = _Spec(
        "temperature_margin_celsius",
        "Degrees below the temperature at which clocks are slowed down.",
    )
    SM_CLOCK_HERTZ = _Spec("sm_clock_hertz", "SM clock.", _CLOCKS)
    SM_CLOCK_MAXIMUM_HERTZ = _Spec("sm_clock_maximum_hertz", "Highest SM clock.")
    SM_CLOCK_APPLICATION_HERTZ = _Spec(
        "sm_clock_application_hertz", "SM clock that applications ask for."
    )
    MEMORY_CLOCK_HERTZ = _Spec("memory_clock_hertz", "Memory clock.", _CLOCKS)
    MEMORY_CLOCK_MAXIMUM_HERTZ = _Spec("memory_clock_maximum_hertz", "Highest memory clock.")
    MEMORY_CLOCK_APPLICATION_HERTZ = _Spec(
        "memory_clock_application_hertz", "Memory clock that applications ask for."
    )
    VIDEO_CLOCK_HERTZ = _Spec("video_clock_hertz", "Clock of the video engines.")
    CLOCK_EVENT_REASONS = _count(
        "clock_event_reasons",
        "NVML's bit mask of why the clocks are what they are.",
        _CLOCKS,
        Export.NAMED,
    )
    POWER_VIOLATION_SECONDS = _Spec(
        "power_violation_seconds",
        "Time that the power limit held the clocks down, since the driver was loaded.",
        export=_COUNTER,
    )
    THERMAL_VIOLATION_SECONDS = _Spec(
        "thermal_violation_seconds",
        "Time that heat held the clocks down, since the driver was loaded.",
        export=_COUNTER,
    )
    PERFORMANCE_STATE = _count(
        "performance_state",
        "Performance state, 0 the highest; no sign of idleness on datacenter boards.",
    )
    PCIE_LINK_GENERATION = _count("pcie_link_generation", "Negotiated PCIe generation.", _PCIE)
    PCIE_LINK_WIDTH = _count("pcie_link_width", "Negotiated PCIe lanes.", _PCIE)
    PCIE_RECEIVE_BYTES_PER_SECOND = _Spec(
        "pcie_receive_bytes_per_second", "Received over PCIe.", _PCIE
    )
    PCIE_TRANSMIT_BYTES_PER_SECOND = _Spec(
        "pcie_transmit_bytes_per_second", "Transmitted over PCIe.", _PCIE
    )
    NVLINK_RECEIVE_BYTES_PER_SECOND = _Spec(
        "nvlink_receive_bytes_per_second", "Received over NVLink.", _NVLINK_RATES
    )
    NVLINK_TRANSMIT_BYTES_PER_SECOND = _Spec(
        "nvlink_transmit_bytes_per_second", "Transmitted over NVLink.", _NVLINK_RATES
    )
    NVLINK_LINKS = _count("nvlink_links", "NVLinks that the board has.")
    NVLINK_LINKS_UP = _count("nvlink_links_up", "NVLinks that are up.", _NVLINK)
    NVLINK_ERRORS = _count(
        "nvlink_errors",
        "NVLink errors of all kinds and links since the driver was loaded.",
        _NVLINK,
        _COUNTER,
    )
    PCIE_REPLAYS = _count(
        "pcie_replays", "PCIe packets sent again since the driver was loaded.", _PCIE, _COUNTER
    )
    FABRIC_STATE = _count(
        "fabric_state", "NVLink fabric registration: 1 not started, 2 in progress, 3 completed."
    )
    ECC_CORRECTED_ERRORS = _count(
        "ecc_corrected_errors",
        "Memory errors corrected since the driver was loaded.",
        export=_COUNTER,
    )
    ECC_UNCORRECTED_ERRORS = _count(
        "ecc_uncorrected_errors",
        "Memory errors that could not be corrected since the driver was loaded.",
        _ERRORS,
        _COUNTER,
    )
    ECC_CORRECTED_ERRORS_LIFETIME = _count(
        "ecc_corrected_errors_lifetime",
        "Memory errors corrected in the board's life.",
        export=_COUNTER,
    )
    ECC_UNCORRECTED_ERRORS_LIFETIME = _count(
        "ecc_uncorrected_errors_lifetime",
        "Memory errors that could not be corrected in the board's life.",
        export=_COUNTER,
    )
    RETIRED_PAGES_CORRECTABLE = _count(
        "retired_pages_correctable",
        "Memory pages retired for repeated correctable errors.",
        _ERRORS,
    )
    RETIRED_PAGES_UNCORRECTABLE = _count(
        "retired_pages_uncorrectable", "Memory pages retired for uncorrectable errors.", _ERRORS
    )
    RETIRED_PAGES_PENDING = _count(
        "retired_pages_pending",
        "Whether pages wait for a reboot to be retired (1) or not (0).",
        _ERRORS,
    )
    REMAPPED_ROWS_CORRECTABLE = _count(
        "remapped_rows_correctable", "Memory rows remapped for correctable errors."
    )
    REMAPPED_ROWS_UNCORRECTABLE = _count(
        "remapped_rows_uncorrectable", "Memory rows remapped for uncorrectable errors.", _ERRORS
    )
    REMAPPED_ROWS_PENDING = _count(
        "remapped_rows_pending",
        "Whether rows wait for a reset to be remapped (1) or not (0).",
        _ERRORS,
    )
    REMAPPED_ROWS_FAILED = _count(
        "remapped_rows_failed", "Whether remapping a row has failed (1) or not (0).", _ERRORS
    )
    RECOVERY_ACTION = _count(
        "recovery_action",
        "What would repair the GPU: 0 nothing, 1 reset, 2 reboot, 3 drain, 4 drain and reset; "
        "newer drivers know more.",
        _ERRORS,
    )
    ENCODER_SESSIONS = _count("encoder_sessions", "Video encoder sessions.")
    PROCESS_COUNT = _count("process_count", "Compute processes on the device.", _ACTIVITY)
    DISK_READ_BYTES_PER_SECOND = _Spec("disk_read_bytes_per_second", "Read from disks.", _HOST)
    DISK_WRITE_BYTES_PER_SECOND = _Spec("disk_write_bytes_per_second", "Written to disks.", _HOST)
    NETWORK_RECEIVE_BYTES_PER_SECOND = _Spec(
        "network_receive_bytes_per_second", "Received over network interfaces.", _HOST
    )
    NETWORK_TRANSMIT_BYTES_PER_SECOND = _Spec(
        "network_transmit_bytes_per_second", "Transmitted over network interfaces.", _HOST
    )
    INFINIBAND_RECEIVE_BYTES_PER_SECOND = _Spec(
        "infiniband_receive_bytes_per_second",
        "Received over the InfiniBand or RoCE ports nearest to the GPU.",
        _FABRIC,
    )
    INFINIBAND_TRANSMIT_BYTES_PER_SECOND = _Spec(
        "infiniband_transmit_bytes_per_second",
        "Transmitted over the InfiniBand or RoCE ports nearest to the GPU.",
        _FABRIC,
    )
    REQUESTS_RUNNING = _count(
        "requests_running", "Requests that the serving engine works on.", _SERVING
    )
    REQUESTS_WAITING = _count(
        "requests_waiting", "Requests that wait in the serving engine's queue.", _SERVING
    )
    PREEMPTIONS = _count(
        "preemptions",
        "Requests put back for want of key-value cache, since the engine started.",
        _SERVING,
        _COUNTER,
    )
    TIME_TO_FIRST_TOKEN_SECONDS = _Spec(
        "time_to_first_token_seconds", "Mean time to the first token of late requests.", _SERVING
    )
    TIME_PER_OUTPUT_TOKEN_SECONDS = _Spec(
        "time_per_output_token_seconds", "Mean time between two tokens of late requests.", _SERVING
    )
    REQUEST_LATENCY_SECONDS = _Spec(
        "request_latency_seconds",
        "Mean time from a request to its whole answer, of late requests.",
        _SERVING,
    )

    @property
    def bounds(self) -> tuple[float, float]:
        """Least and most that a reading can be at all."""
        return _BOUNDS[self.unit]

    @property
    def metric_name(self) -> str:
        """Name of the metric of the last reading."""
        if self.unit is Unit.RATIO:
            return f"rightsizer_{self}_ratio"
        if self is Signal.PROCESS_COUNT:  # Prometheus keeps the suffix `_count` for histograms.
            return "rightsizer_device_processes"
        suffix = "_total" if self.export is Export.COUNTER else ""
        return f"rightsizer_{self}{suffix}"

    @property
    def distribution_metric_name(self) -> str:
        """Name of the histogram of the seconds."""
        return f"rightsizer_{self}_distribution_ratio"


PIPES: Final = (
    Signal.TENSOR_ACTIVE,
    Signal.FP32_ACTIVE,
    Signal.FP16_ACTIVE,
    Signal.FP64_ACTIVE,
)
"""The arithmetic pipes; at least one must work before a GPU computes."""

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
"""Signals of the node, shared by all its devices; an owner's own go before them."""

SERVING_SIGNALS: Final = tuple(each for each in Signal if each.origin is Origin.SERVING)
"""What a serving engine says of itself: the only honest evidence of application pressure."""

COUNTER_SIGNALS: Final = frozenset(each for each in Signal if each.export is Export.COUNTER)
"""Signals that only grow, until the driver or the engine restarts."""

RATIO_SIGNALS: Final = frozenset(each for each in Signal if each.unit is Unit.RATIO)
"""Signals in 0..1 of a capacity."""

CAPACITY_SIGNALS: Final[dict[Signal, dict[Unit, Signal]]] = {
    Signal.MEMORY_USED: {Unit.BYTES: Signal.MEMORY_USED_BYTES},
    Signal.POWER: {Unit.WATTS: Signal.POWER_WATTS},
    Signal.PCIE_RECEIVE: {Unit.BYTES_PER_SECOND: Signal.PCIE_RECEIVE_BYTES_PER_SECOND},
    Signal.PCIE_TRANSMIT: {Unit.BYTES_PER_SECOND: Signal.PCIE_TRANSMIT_BYTES_PER_SECOND},
    Signal.NVLINK_RECEIVE: {Unit.BYTES_PER_SECOND: Signal.NVLINK_RECEIVE_BYTES_PER_SECOND},
    Signal.NVLINK_TRANSMIT: {Unit.BYTES_PER_SECOND: Signal.NVLINK_TRANSMIT_BYTES_PER_SECOND},
}
"""Ratios that can also be read as a quantity, which the device's capacity turns into the ratio."""


def in_unit(signal: Signal, unit: Unit) -> Signal:
    """The signal that holds this one's reading in a unit: `power` in watts is `power_watts`.

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
