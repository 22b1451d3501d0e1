"""What may hold beside any state, each from the signals of one stretch."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from rightsizer.accounting.signals import clock_ratio, highest
from rightsizer.domain.clock_event import ClockEvent
from rightsizer.domain.device import Device
from rightsizer.domain.settings import setting
from rightsizer.domain.signal import Signal
from rightsizer.domain.state import Condition
from rightsizer.domain.workload import Allocator

__all__ = ["CONDITIONS", "ConditionSettings", "conditions"]


@dataclass(frozen=True, slots=True)
class ConditionSettings:
    """From when on a condition holds."""

    throttle_busy_ratio: float = setting(
        0.5,
        help="Busy share from which on lowered clocks cost work.",
        unit="ratio",
        minimum=0,
        maximum=1,
        source="docs/definitions.md, sources: u > 0.5",
    )
    throttle_clock_ratio: float = setting(
        0.9,
        help="SM clock of the maximum below which a throttle reason matters.",
        unit="ratio",
        minimum=0,
        maximum=1,
        source="docs/definitions.md, sources: clk/clk_max < 0.9",
    )
    load_busy_ratio: float = setting(
        0.1,
        help="Busy share from which on the PCIe generation is judged; idle links train down.",
        unit="ratio",
        minimum=0,
        maximum=1,
        source="NVSentinel#890: idle GPUs lower their PCIe generation",
    )
    near_out_of_memory_ratio: float = setting(
        0.95,
        help="Memory in use from which on the next allocation may fail.",
        unit="ratio",
        minimum=0,
        maximum=1,
        source="docs/definitions.md, sources: mem >= 0.95",
    )
    no_tensor_sm_ratio: float = setting(
        0.5,
        help="SM activity from which on unused tensor cores are worth a word.",
        unit="ratio",
        minimum=0,
        maximum=1,
        source="docs/definitions.md, sources",
    )
    no_tensor_fp32_ratio: float = setting(
        0.2,
        help="FP32 activity from which on unused tensor cores are worth a word.",
        unit="ratio",
        minimum=0,
        maximum=1,
        source="docs/definitions.md, sources",
    )
    no_tensor_ratio: float = setting(
        0.02,
        help="Tensor activity below which the tensor cores are unused.",
        unit="ratio",
        minimum=0,
        maximum=1,
        source="docs/definitions.md, sources",
    )


Signals = dict[Signal, float]
_Test = Callable[[Signals, Device, Allocator, ConditionSettings], bool]


def conditions(
    signals: Signals, device: Device, allocator: Allocator, settings: ConditionSettings
) -> frozenset[Condition]:
    """Every condition that holds; one whose signals are missing does not."""
    return frozenset(
        condition for condition, holds in CONDITIONS if holds(signals, device, allocator, settings)
    )


def _throttled_by(mask: ClockEvent) -> _Test:
    def holds(signals: Signals, device: Device, _: Allocator, settings: ConditionSettings) -> bool:
        return (
            bool(int(signals.get(Signal.CLOCK_EVENT_REASONS, 0)) & mask)
            and signals.get(Signal.GPU_BUSY, 1.0) >= settings.throttle_busy_ratio
            and (
                Signal.SM_CLOCK_HERTZ not in signals
                or clock_ratio(signals, device) < settings.throttle_clock_ratio
            )
        )

    return holds


def _hardware_slowdown(
    signals: Signals, _device: Device, _allocator: Allocator, _: ConditionSettings
) -> bool:
    reasons = int(signals.get(Signal.CLOCK_EVENT_REASONS, 0))
    return bool(reasons & (ClockEvent.HW_SLOWDOWN | ClockEvent.HW_POWER_BRAKE_SLOWDOWN))


def _link_degraded(
    signals: Signals, device: Device, _: Allocator, settings: ConditionSettings
) -> bool:
    """Against what device and slot allow together; the board alone may promise more."""
    width_now, width = signals.get(Signal.PCIE_LINK_WIDTH), _stated(device, "pcie_width_maximum")
    generation_now = signals.get(Signal.PCIE_LINK_GENERATION)
    generation = _stated(device, "pcie_generation_maximum")
    is_loaded = signals.get(Signal.GPU_BUSY, 0.0) >= settings.load_busy_ratio
    is_narrow = bool(width_now and width and width_now < width)
    is_slow = bool(generation_now and generation and generation_now < generation)
    return is_narrow or (is_slow and is_loaded)


def _stated(device: Device, name: str) -> float | None:
    """A capacity that is no assumption."""
    value: float | None = None if name in device.assumed else getattr(device, name)
    return value


def _near_out_of_memory(
    signals: Signals, _: Device, allocator: Allocator, settings: ConditionSettings
) -> bool:
    used = signals.get(Signal.MEMORY_USED)
    return (
        allocator is not Allocator.PREALLOCATING
        and used is not None
        and used >= settings.near_out_of_memory_ratio
    )


def _no_tensor_cores(
    signals: Signals, _device: Device, _allocator: Allocator, settings: ConditionSettings
) -> bool:
    tensor = signals.get(Signal.TENSOR_ACTIVE)
    return (
        tensor is not None
        and tensor < settings.no_tensor_ratio
        and (highest(signals, Signal.SM_ACTIVE) or 0.0) >= settings.no_tensor_sm_ratio
        and (highest(signals, Signal.FP32_ACTIVE) or 0.0) >= settings.no_tensor_fp32_ratio
    )


_POWER: Final = ClockEvent.SW_POWER_CAP | ClockEvent.HW_POWER_BRAKE_SLOWDOWN
_THERMAL: Final = ClockEvent.SW_THERMAL_SLOWDOWN | ClockEvent.HW_THERMAL_SLOWDOWN

CONDITIONS: Final[tuple[tuple[Condition, _Test], ...]] = (
    (Condition.POWER_THROTTLED, _throttled_by(_POWER)),
    (Condition.THERMAL_THROTTLED, _throttled_by(_THERMAL)),
    (Condition.HARDWARE_SLOWDOWN, _hardware_slowdown),
    (Condition.PCIE_LINK_DEGRADED, _link_degraded),
    (Condition.NEAR_OUT_OF_MEMORY, _near_out_of_memory),
    (Condition.NO_TENSOR_CORES, _no_tensor_cores),
)
"""The conditions that can be told from one device's signals, with how."""
