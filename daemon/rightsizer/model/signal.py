"""The table of signals: name, unit, bounds, and how each is judged."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from rightsizer.model.units import Unit


class Signal(StrEnum):
    """The name of a signal; its value is also the header that a CSV recording uses for it."""

    GPU_BUSY = "gpu_busy"
    SM_ACTIVE = "sm_active"
    SM_OCCUPANCY = "sm_occupancy"
    SM_WORK = "sm_work"
    TENSOR_ACTIVE = "tensor_active"
    FP32_ACTIVE = "fp32_active"
    FP16_ACTIVE = "fp16_active"
    FP64_ACTIVE = "fp64_active"
    INTEGER_ACTIVE = "integer_active"
    DRAM_ACTIVE = "dram_active"
    MEMORY_CONTROLLER_BUSY = "memory_controller_busy"
    MEMORY_USED = "memory_used"
    PCIE_RECEIVE = "pcie_receive"
    PCIE_TRANSMIT = "pcie_transmit"
    NVLINK_RECEIVE = "nvlink_receive"
    NVLINK_TRANSMIT = "nvlink_transmit"
    POWER = "power"
    ENCODER = "encoder"
    DECODER = "decoder"
    JPEG = "jpeg"
    OFA = "ofa"
    FAN_SPEED = "fan_speed"
    CPU = "cpu"
    CPU_PRESSURE = "cpu_pressure"
    IO_PRESSURE = "io_pressure"
    MEMORY_PRESSURE = "memory_pressure"
    IO_WAIT = "io_wait"
    CPU_AFFINITY_LOCAL = "cpu_affinity_local"
    HOST_MEMORY_LOCAL = "host_memory_local"
    INFINIBAND_RECEIVE = "infiniband_receive"
    INFINIBAND_TRANSMIT = "infiniband_transmit"
    KV_CACHE_USED = "kv_cache_used"

    MEMORY_USED_BYTES = "memory_used_bytes"
    MEMORY_TOTAL_BYTES = "memory_total_bytes"
    MEMORY_FREE_BYTES = "memory_free_bytes"
    MEMORY_RESERVED_BYTES = "memory_reserved_bytes"
    BAR1_USED_BYTES = "bar1_used_bytes"
    BAR1_TOTAL_BYTES = "bar1_total_bytes"
    POWER_WATTS = "power_watts"
    POWER_LIMIT_WATTS = "power_limit_watts"
    ENERGY_JOULES = "energy_joules"
    TEMPERATURE_CELSIUS = "temperature_celsius"
    MEMORY_TEMPERATURE_CELSIUS = "memory_temperature_celsius"
    TEMPERATURE_MARGIN_CELSIUS = "temperature_margin_celsius"
    SM_CLOCK_HERTZ = "sm_clock_hertz"
    SM_CLOCK_MAXIMUM_HERTZ = "sm_clock_maximum_hertz"
    SM_CLOCK_APPLICATION_HERTZ = "sm_clock_application_hertz"
    MEMORY_CLOCK_HERTZ = "memory_clock_hertz"
    MEMORY_CLOCK_MAXIMUM_HERTZ = "memory_clock_maximum_hertz"
    MEMORY_CLOCK_APPLICATION_HERTZ = "memory_clock_application_hertz"
    VIDEO_CLOCK_HERTZ = "video_clock_hertz"
    CLOCK_EVENT_REASONS = "clock_event_reasons"
    POWER_VIOLATION_SECONDS = "power_violation_seconds"
    THERMAL_VIOLATION_SECONDS = "thermal_violation_seconds"
    PERFORMANCE_STATE = "performance_state"
    PCIE_LINK_GENERATION = "pcie_link_generation"
    PCIE_LINK_WIDTH = "pcie_link_width"
    PCIE_REPLAYS = "pcie_replays"
    PCIE_RECEIVE_BYTES_PER_SECOND = "pcie_receive_bytes_per_second"
    PCIE_TRANSMIT_BYTES_PER_SECOND = "pcie_transmit_bytes_per_second"
    NVLINK_RECEIVE_BYTES_PER_SECOND = "nvlink_receive_bytes_per_second"
    NVLINK_TRANSMIT_BYTES_PER_SECOND = "nvlink_transmit_bytes_per_second"
    NVLINK_LINKS = "nvlink_links"
    NVLINK_LINKS_UP = "nvlink_links_up"
    NVLINK_ERRORS = "nvlink_errors"
    FABRIC_STATE = "fabric_state"
    ECC_CORRECTED_ERRORS = "ecc_corrected_errors"
    ECC_UNCORRECTED_ERRORS = "ecc_uncorrected_errors"
    ECC_CORRECTED_ERRORS_LIFETIME = "ecc_corrected_errors_lifetime"
    ECC_UNCORRECTED_ERRORS_LIFETIME = "ecc_uncorrected_errors_lifetime"
    RETIRED_PAGES_CORRECTABLE = "retired_pages_correctable"
    RETIRED_PAGES_UNCORRECTABLE = "retired_pages_uncorrectable"
    RETIRED_PAGES_PENDING = "retired_pages_pending"
    REMAPPED_ROWS_CORRECTABLE = "remapped_rows_correctable"
    REMAPPED_ROWS_UNCORRECTABLE = "remapped_rows_uncorrectable"
    REMAPPED_ROWS_PENDING = "remapped_rows_pending"
    REMAPPED_ROWS_FAILED = "remapped_rows_failed"
    RECOVERY_ACTION = "recovery_action"
    ENCODER_SESSIONS = "encoder_sessions"
    PROCESS_COUNT = "process_count"

    DISK_READ_BYTES_PER_SECOND = "disk_read_bytes_per_second"
    DISK_WRITE_BYTES_PER_SECOND = "disk_write_bytes_per_second"
    NETWORK_RECEIVE_BYTES_PER_SECOND = "network_receive_bytes_per_second"
    NETWORK_TRANSMIT_BYTES_PER_SECOND = "network_transmit_bytes_per_second"
    INFINIBAND_RECEIVE_BYTES_PER_SECOND = "infiniband_receive_bytes_per_second"
    INFINIBAND_TRANSMIT_BYTES_PER_SECOND = "infiniband_transmit_bytes_per_second"
    REQUESTS_RUNNING = "requests_running"
    REQUESTS_WAITING = "requests_waiting"
    PREEMPTIONS = "preemptions"
    TIME_TO_FIRST_TOKEN_SECONDS = "time_to_first_token_seconds"  # noqa: S105 - of a model.
    TIME_PER_OUTPUT_TOKEN_SECONDS = "time_per_output_token_seconds"  # noqa: S105 - of a model.
    REQUEST_LATENCY_SECONDS = "request_latency_seconds"


@dataclass(frozen=True, slots=True)
class SignalSpecification:
    """What a signal means and in which base unit it is kept."""

    unit: Unit
    meaning: str


_RATIO: Final = Unit.RATIO
SIGNALS: Final[dict[Signal, SignalSpecification]] = {
    Signal.GPU_BUSY: SignalSpecification(_RATIO, "Share of time with a kernel resident."),
    Signal.SM_ACTIVE: SignalSpecification(_RATIO, "SM activity, in actual cycles."),
    Signal.SM_OCCUPANCY: SignalSpecification(_RATIO, "Resident warps of those possible."),
    Signal.SM_WORK: SignalSpecification(_RATIO, "SM activity times SM clock over maximum clock."),
    Signal.TENSOR_ACTIVE: SignalSpecification(_RATIO, "Tensor pipe activity."),
    Signal.FP32_ACTIVE: SignalSpecification(_RATIO, "FP32 pipe activity."),
    Signal.FP16_ACTIVE: SignalSpecification(_RATIO, "FP16 pipe activity."),
    Signal.FP64_ACTIVE: SignalSpecification(_RATIO, "FP64 pipe activity."),
    Signal.INTEGER_ACTIVE: SignalSpecification(_RATIO, "Integer pipe activity."),
    Signal.DRAM_ACTIVE: SignalSpecification(_RATIO, "Memory bandwidth used."),
    Signal.MEMORY_CONTROLLER_BUSY: SignalSpecification(
        _RATIO,
        "Share of time the memory was read or written, relative to its current clock: a weaker "
        "stand-in for dram_active that says neither capacity nor activity.",
    ),
    Signal.MEMORY_USED: SignalSpecification(_RATIO, "Framebuffer used of total."),
    Signal.PCIE_RECEIVE: SignalSpecification(_RATIO, "Received of the negotiated PCIe link."),
    Signal.PCIE_TRANSMIT: SignalSpecification(_RATIO, "Transmitted of the negotiated PCIe link."),
    Signal.NVLINK_RECEIVE: SignalSpecification(_RATIO, "Received of the NVLinks that are up."),
    Signal.NVLINK_TRANSMIT: SignalSpecification(_RATIO, "Transmitted of the NVLinks that are up."),
    Signal.POWER: SignalSpecification(
        _RATIO, "Draw above idle draw, of the enforced limit above idle draw."
    ),
    Signal.ENCODER: SignalSpecification(_RATIO, "Video encoder busy share."),
    Signal.DECODER: SignalSpecification(_RATIO, "Video decoder busy share."),
    Signal.JPEG: SignalSpecification(_RATIO, "JPEG engine busy share."),
    Signal.OFA: SignalSpecification(_RATIO, "Optical flow engine busy share."),
    Signal.FAN_SPEED: SignalSpecification(_RATIO, "Speed of the fastest fan, of its maximum."),
    Signal.CPU: SignalSpecification(_RATIO, "CPU time used of the quota."),
    Signal.CPU_PRESSURE: SignalSpecification(_RATIO, "Share of time some task waited for a CPU."),
    Signal.IO_PRESSURE: SignalSpecification(_RATIO, "Share of time some task waited for I/O."),
    Signal.MEMORY_PRESSURE: SignalSpecification(
        _RATIO, "Share of time some task waited for host memory."
    ),
    Signal.IO_WAIT: SignalSpecification(_RATIO, "Share of CPU time that waited for a disk."),
    Signal.CPU_AFFINITY_LOCAL: SignalSpecification(
        _RATIO, "CPUs of the GPU's own NUMA node, of those its processes may run on."
    ),
    Signal.HOST_MEMORY_LOCAL: SignalSpecification(
        _RATIO, "Host memory on the GPU's own NUMA node, of what its processes have."
    ),
    Signal.INFINIBAND_RECEIVE: SignalSpecification(
        _RATIO, "Received of the rate of the nearest InfiniBand or RoCE ports."
    ),
    Signal.INFINIBAND_TRANSMIT: SignalSpecification(
        _RATIO, "Transmitted of the rate of the nearest InfiniBand or RoCE ports."
    ),
    Signal.KV_CACHE_USED: SignalSpecification(
        _RATIO, "Key-value cache in use, of what the serving engine has."
    ),
    Signal.MEMORY_USED_BYTES: SignalSpecification(Unit.BYTES, "Framebuffer memory in use."),
    Signal.MEMORY_TOTAL_BYTES: SignalSpecification(Unit.BYTES, "Framebuffer memory in all."),
    Signal.MEMORY_FREE_BYTES: SignalSpecification(Unit.BYTES, "Framebuffer memory that is free."),
    Signal.MEMORY_RESERVED_BYTES: SignalSpecification(
        Unit.BYTES, "Framebuffer memory that the driver keeps for itself."
    ),
    Signal.BAR1_USED_BYTES: SignalSpecification(
        Unit.BYTES, "Mapped of the PCIe window to the memory."
    ),
    Signal.BAR1_TOTAL_BYTES: SignalSpecification(
        Unit.BYTES, "The PCIe window to the memory in all."
    ),
    Signal.POWER_WATTS: SignalSpecification(Unit.WATTS, "Power draw of the board."),
    Signal.POWER_LIMIT_WATTS: SignalSpecification(Unit.WATTS, "Enforced power limit."),
    Signal.ENERGY_JOULES: SignalSpecification(Unit.JOULES, "Energy since the driver was loaded."),
    Signal.TEMPERATURE_CELSIUS: SignalSpecification(Unit.CELSIUS, "Temperature of the GPU."),
    Signal.MEMORY_TEMPERATURE_CELSIUS: SignalSpecification(
        Unit.CELSIUS, "Temperature of the memory."
    ),
    Signal.TEMPERATURE_MARGIN_CELSIUS: SignalSpecification(
        Unit.CELSIUS, "Degrees below the temperature at which clocks are slowed down."
    ),
    Signal.SM_CLOCK_HERTZ: SignalSpecification(Unit.HERTZ, "SM clock."),
    Signal.SM_CLOCK_MAXIMUM_HERTZ: SignalSpecification(Unit.HERTZ, "Highest SM clock."),
    Signal.SM_CLOCK_APPLICATION_HERTZ: SignalSpecification(
        Unit.HERTZ, "SM clock that applications ask for."
    ),
    Signal.MEMORY_CLOCK_HERTZ: SignalSpecification(Unit.HERTZ, "Memory clock."),
    Signal.MEMORY_CLOCK_MAXIMUM_HERTZ: SignalSpecification(Unit.HERTZ, "Highest memory clock."),
    Signal.MEMORY_CLOCK_APPLICATION_HERTZ: SignalSpecification(
        Unit.HERTZ, "Memory clock that applications ask for."
    ),
    Signal.VIDEO_CLOCK_HERTZ: SignalSpecification(Unit.HERTZ, "Clock of the video engines."),
    Signal.CLOCK_EVENT_REASONS: SignalSpecification(
        Unit.COUNT, "NVML's bit mask of why the clocks are what they are."
    ),
    Signal.POWER_VIOLATION_SECONDS: SignalSpecification(
        Unit.SECONDS, "Time that the power limit held the clocks down, since the driver was loaded."
    ),
    Signal.THERMAL_VIOLATION_SECONDS: SignalSpecification(
        Unit.SECONDS, "Time that heat held the clocks down, since the driver was loaded."
    ),
    Signal.PERFORMANCE_STATE: SignalSpecification(
        Unit.COUNT, "Performance state, 0 the highest; no sign of idleness on datacenter boards."
    ),
    Signal.PCIE_LINK_GENERATION: SignalSpecification(Unit.COUNT, "Negotiated PCIe generation."),
    Signal.PCIE_LINK_WIDTH: SignalSpecification(Unit.COUNT, "Negotiated PCIe lanes."),
    Signal.PCIE_REPLAYS: SignalSpecification(
        Unit.COUNT, "PCIe packets sent again since the driver was loaded."
    ),
    Signal.PCIE_RECEIVE_BYTES_PER_SECOND: SignalSpecification(
        Unit.BYTES_PER_SECOND, "Received over PCIe."
    ),
    Signal.PCIE_TRANSMIT_BYTES_PER_SECOND: SignalSpecification(
        Unit.BYTES_PER_SECOND, "Transmitted over PCIe."
    ),
    Signal.NVLINK_RECEIVE_BYTES_PER_SECOND: SignalSpecification(
        Unit.BYTES_PER_SECOND, "Received over NVLink."
    ),
    Signal.NVLINK_TRANSMIT_BYTES_PER_SECOND: SignalSpecification(
        Unit.BYTES_PER_SECOND, "Transmitted over NVLink."
    ),
    Signal.NVLINK_LINKS: SignalSpecification(Unit.COUNT, "NVLinks that the board has."),
    Signal.NVLINK_LINKS_UP: SignalSpecification(Unit.COUNT, "NVLinks that are up."),
    Signal.NVLINK_ERRORS: SignalSpecification(
        Unit.COUNT, "NVLink errors of all kinds and links since the driver was loaded."
    ),
    Signal.FABRIC_STATE: SignalSpecification(
        Unit.COUNT, "NVLink fabric registration: 1 not started, 2 in progress, 3 completed."
    ),
    Signal.ECC_CORRECTED_ERRORS: SignalSpecification(
        Unit.COUNT, "Memory errors corrected since the driver was loaded."
    ),
    Signal.ECC_UNCORRECTED_ERRORS: SignalSpecification(
        Unit.COUNT, "Memory errors that could not be corrected since the driver was loaded."
    ),
    Signal.ECC_CORRECTED_ERRORS_LIFETIME: SignalSpecification(
        Unit.COUNT, "Memory errors corrected in the board's life."
    ),
    Signal.ECC_UNCORRECTED_ERRORS_LIFETIME: SignalSpecification(
        Unit.COUNT, "Memory errors that could not be corrected in the board's life."
    ),
    Signal.RETIRED_PAGES_CORRECTABLE: SignalSpecification(
        Unit.COUNT, "Memory pages retired for repeated correctable errors."
    ),
    Signal.RETIRED_PAGES_UNCORRECTABLE: SignalSpecification(
        Unit.COUNT, "Memory pages retired for uncorrectable errors."
    ),
    Signal.RETIRED_PAGES_PENDING: SignalSpecification(
        Unit.COUNT, "Whether pages wait for a reboot to be retired (1) or not (0)."
    ),
    Signal.REMAPPED_ROWS_CORRECTABLE: SignalSpecification(
        Unit.COUNT, "Memory rows remapped for correctable errors."
    ),
    Signal.REMAPPED_ROWS_UNCORRECTABLE: SignalSpecification(
        Unit.COUNT, "Memory rows remapped for uncorrectable errors."
    ),
    Signal.REMAPPED_ROWS_PENDING: SignalSpecification(
        Unit.COUNT, "Whether rows wait for a reset to be remapped (1) or not (0)."
    ),
    Signal.REMAPPED_ROWS_FAILED: SignalSpecification(
        Unit.COUNT, "Whether remapping a row has failed (1) or not (0)."
    ),
    Signal.RECOVERY_ACTION: SignalSpecification(
        Unit.COUNT,
        "What would repair the GPU: 0 nothing, 1 reset, 2 reboot, 3 drain, 4 drain and reset; "
        "newer drivers know more.",
    ),
    Signal.ENCODER_SESSIONS: SignalSpecification(Unit.COUNT, "Video encoder sessions."),
    Signal.PROCESS_COUNT: SignalSpecification(Unit.COUNT, "Compute processes on the device."),
    Signal.DISK_READ_BYTES_PER_SECOND: SignalSpecification(
        Unit.BYTES_PER_SECOND, "Read from disks."
    ),
    Signal.DISK_WRITE_BYTES_PER_SECOND: SignalSpecification(
        Unit.BYTES_PER_SECOND, "Written to disks."
    ),
    Signal.NETWORK_RECEIVE_BYTES_PER_SECOND: SignalSpecification(
        Unit.BYTES_PER_SECOND, "Received over network interfaces."
    ),
    Signal.NETWORK_TRANSMIT_BYTES_PER_SECOND: SignalSpecification(
        Unit.BYTES_PER_SECOND, "Transmitted over network interfaces."
    ),
    Signal.INFINIBAND_RECEIVE_BYTES_PER_SECOND: SignalSpecification(
        Unit.BYTES_PER_SECOND, "Received over the InfiniBand or RoCE ports nearest to the GPU."
    ),
    Signal.INFINIBAND_TRANSMIT_BYTES_PER_SECOND: SignalSpecification(
        Unit.BYTES_PER_SECOND, "Transmitted over the InfiniBand or RoCE ports nearest to the GPU."
    ),
    Signal.REQUESTS_RUNNING: SignalSpecification(
        Unit.COUNT, "Requests that the serving engine works on."
    ),
    Signal.REQUESTS_WAITING: SignalSpecification(
        Unit.COUNT, "Requests that wait in the serving engine's queue."
    ),
    Signal.PREEMPTIONS: SignalSpecification(
        Unit.COUNT, "Requests put back for want of key-value cache, since the engine started."
    ),
    Signal.TIME_TO_FIRST_TOKEN_SECONDS: SignalSpecification(
        Unit.SECONDS, "Mean time to the first token of late requests."
    ),
    Signal.TIME_PER_OUTPUT_TOKEN_SECONDS: SignalSpecification(
        Unit.SECONDS, "Mean time between two tokens of late requests."
    ),
    Signal.REQUEST_LATENCY_SECONDS: SignalSpecification(
        Unit.SECONDS, "Mean time from a request to its whole answer, of late requests."
    ),
}

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

PRESSURE_SIGNALS: Final = (
    Signal.CPU,
    Signal.CPU_PRESSURE,
    Signal.IO_PRESSURE,
    Signal.MEMORY_PRESSURE,
)
"""The host's ratios, which say why a GPU waits."""

SERVING_SIGNALS: Final = (
    Signal.REQUESTS_RUNNING,
    Signal.REQUESTS_WAITING,
    Signal.KV_CACHE_USED,
    Signal.PREEMPTIONS,
    Signal.TIME_TO_FIRST_TOKEN_SECONDS,
    Signal.TIME_PER_OUTPUT_TOKEN_SECONDS,
    Signal.REQUEST_LATENCY_SECONDS,
)
"""What a serving engine says of itself: the only honest evidence of application pressure."""

COUNTER_SIGNALS: Final = frozenset(
    {
        Signal.ENERGY_JOULES,
        Signal.POWER_VIOLATION_SECONDS,
        Signal.THERMAL_VIOLATION_SECONDS,
        Signal.PCIE_REPLAYS,
        Signal.NVLINK_ERRORS,
        Signal.ECC_CORRECTED_ERRORS,
        Signal.ECC_UNCORRECTED_ERRORS,
        Signal.ECC_CORRECTED_ERRORS_LIFETIME,
        Signal.ECC_UNCORRECTED_ERRORS_LIFETIME,
        Signal.PREEMPTIONS,
    }
)
"""Signals that only grow, until the driver or the engine starts anew."""

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
    if SIGNALS[signal].unit is unit:
        return signal
    try:
        return CAPACITY_SIGNALS[signal][unit]
    except KeyError:
        raise ValueError(
            f"'{signal}' is not measured in {unit}; its unit is {SIGNALS[signal].unit}"
        ) from None
