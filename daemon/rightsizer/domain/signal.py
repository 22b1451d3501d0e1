"""The signals: everything that is read of a GPU and its host, by name, with its unit.

Signals without a unit in their name are ratios of the device's capacity, 0 to 1.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from rightsizer.domain.units import Unit

__all__ = [
    "CAPACITY_SIGNALS",
    "HOST_SIGNALS",
    "PIPES",
    "SIGNALS",
    "Signal",
    "SignalSpecification",
    "in_unit",
]


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
    CPU = "cpu"
    CPU_PRESSURE = "cpu_pressure"
    IO_PRESSURE = "io_pressure"
    MEMORY_PRESSURE = "memory_pressure"

    MEMORY_USED_BYTES = "memory_used_bytes"
    MEMORY_TOTAL_BYTES = "memory_total_bytes"
    MEMORY_RESERVED_BYTES = "memory_reserved_bytes"
    POWER_WATTS = "power_watts"
    POWER_LIMIT_WATTS = "power_limit_watts"
    ENERGY_JOULES = "energy_joules"
    TEMPERATURE_CELSIUS = "temperature_celsius"
    MEMORY_TEMPERATURE_CELSIUS = "memory_temperature_celsius"
    SM_CLOCK_HERTZ = "sm_clock_hertz"
    SM_CLOCK_MAXIMUM_HERTZ = "sm_clock_maximum_hertz"
    MEMORY_CLOCK_HERTZ = "memory_clock_hertz"
    CLOCK_EVENT_REASONS = "clock_event_reasons"
    PCIE_LINK_GENERATION = "pcie_link_generation"
    PCIE_LINK_WIDTH = "pcie_link_width"
    PCIE_RECEIVE_BYTES_PER_SECOND = "pcie_receive_bytes_per_second"
    PCIE_TRANSMIT_BYTES_PER_SECOND = "pcie_transmit_bytes_per_second"
    NVLINK_RECEIVE_BYTES_PER_SECOND = "nvlink_receive_bytes_per_second"
    NVLINK_TRANSMIT_BYTES_PER_SECOND = "nvlink_transmit_bytes_per_second"
    PROCESS_COUNT = "process_count"


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
    Signal.CPU: SignalSpecification(_RATIO, "CPU time used of the quota."),
    Signal.CPU_PRESSURE: SignalSpecification(_RATIO, "Share of time some task waited for a CPU."),
    Signal.IO_PRESSURE: SignalSpecification(_RATIO, "Share of time some task waited for I/O."),
    Signal.MEMORY_PRESSURE: SignalSpecification(
        _RATIO, "Share of time some task waited for host memory."
    ),
    Signal.MEMORY_USED_BYTES: SignalSpecification(Unit.BYTES, "Framebuffer memory in use."),
    Signal.MEMORY_TOTAL_BYTES: SignalSpecification(Unit.BYTES, "Framebuffer memory in all."),
    Signal.MEMORY_RESERVED_BYTES: SignalSpecification(
        Unit.BYTES, "Framebuffer memory that the driver keeps for itself."
    ),
    Signal.POWER_WATTS: SignalSpecification(Unit.WATTS, "Power draw of the board."),
    Signal.POWER_LIMIT_WATTS: SignalSpecification(Unit.WATTS, "Enforced power limit."),
    Signal.ENERGY_JOULES: SignalSpecification(Unit.JOULES, "Energy since the driver was loaded."),
    Signal.TEMPERATURE_CELSIUS: SignalSpecification(Unit.CELSIUS, "Temperature of the GPU."),
    Signal.MEMORY_TEMPERATURE_CELSIUS: SignalSpecification(
        Unit.CELSIUS, "Temperature of the memory."
    ),
    Signal.SM_CLOCK_HERTZ: SignalSpecification(Unit.HERTZ, "SM clock."),
    Signal.SM_CLOCK_MAXIMUM_HERTZ: SignalSpecification(Unit.HERTZ, "Highest SM clock."),
    Signal.MEMORY_CLOCK_HERTZ: SignalSpecification(Unit.HERTZ, "Memory clock."),
    Signal.CLOCK_EVENT_REASONS: SignalSpecification(
        Unit.COUNT, "NVML's bit mask of why the clocks are what they are."
    ),
    Signal.PCIE_LINK_GENERATION: SignalSpecification(Unit.COUNT, "Negotiated PCIe generation."),
    Signal.PCIE_LINK_WIDTH: SignalSpecification(Unit.COUNT, "Negotiated PCIe lanes."),
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
    Signal.PROCESS_COUNT: SignalSpecification(Unit.COUNT, "Compute processes on the device."),
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
)
"""Signals of the node, shared by all its devices."""

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
