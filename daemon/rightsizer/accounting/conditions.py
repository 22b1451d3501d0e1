"""What may hold beside any state."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from rightsizer.accounting.network import NetworkSettings, is_network_bound
from rightsizer.accounting.placement import PlacementSettings, is_misplaced
from rightsizer.domain.clock_event import ClockEvent
from rightsizer.domain.device import Device
from rightsizer.domain.settings import setting
from rightsizer.domain.signal import Signal
from rightsizer.domain.state import Condition
from rightsizer.domain.workload import Allocator

__all__ = ["CONDITIONS", "Circumstances", "ConditionSettings", "conditions"]


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
    placement: PlacementSettings = field(default_factory=PlacementSettings)
    network: NetworkSettings = field(default_factory=NetworkSettings)


@dataclass(frozen=True, slots=True)
class Circumstances:
    """What is known of a device for one stretch of time, beside its state."""

    signals: Mapping[Signal, float]
    device: Device
    allocator: Allocator = Allocator.UNKNOWN
    clock_ratio: float = 1.0
    """SM clock over its maximum."""
    link_generation: float | None = None
    """The highest under load of late; `None` before there was load enough."""
    is_out_of_balance: bool = False
    """Whether the GPUs of its job do unequal work."""


_Test = Callable[[Circumstances, ConditionSettings], bool]


def conditions(around: Circumstances, settings: ConditionSettings) -> frozenset[Condition]:
    """Every condition that holds; one whose signals are missing does not."""
    return frozenset(condition for condition, holds in CONDITIONS if holds(around, settings))


def _throttled_by(mask: ClockEvent) -> _Test:
    bits = int(mask)

    def holds(around: Circumstances, settings: ConditionSettings) -> bool:
        signals = around.signals
        return (
            bool(int(signals.get(Signal.CLOCK_EVENT_REASONS, 0)) & bits)
            and signals.get(Signal.GPU_BUSY, 1.0) >= settings.throttle_busy_ratio
            and (
                Signal.SM_CLOCK_HERTZ not in signals
                or around.clock_ratio < settings.throttle_clock_ratio
            )
        )

    return holds


_SLOWDOWN: Final = int(ClockEvent.HW_SLOWDOWN | ClockEvent.HW_POWER_BRAKE_SLOWDOWN)


def _hardware_slowdown(around: Circumstances, _: ConditionSettings) -> bool:
    return bool(int(around.signals.get(Signal.CLOCK_EVENT_REASONS, 0)) & _SLOWDOWN)


def _link_degraded(around: Circumstances, settings: ConditionSettings) -> bool:
    """Against what device and slot allow together; the board alone may promise more."""
    signals, device = around.signals, around.device
    width_now, width = signals.get(Signal.PCIE_LINK_WIDTH), _stated(device, "pcie_width_maximum")
    if width_now and width and width_now < width:
        return True
    generation = _stated(device, "pcie_generation_maximum")
    reached = around.link_generation
    is_slow = bool(reached and generation and reached < generation)
    return is_slow and signals.get(Signal.GPU_BUSY, 0.0) >= settings.load_busy_ratio


def _stated(device: Device, name: str) -> float | None:
    """A capacity that is no assumption."""
    value: float | None = None if name in device.assumed else getattr(device, name)
    return value


def _numa_misplaced(around: Circumstances, settings: ConditionSettings) -> bool:
    return is_misplaced(around.signals, settings.placement)


def _near_out_of_memory(around: Circumstances, settings: ConditionSettings) -> bool:
    used = around.signals.get(Signal.MEMORY_USED)
    return (
        around.allocator is not Allocator.PREALLOCATING
        and used is not None
        and used >= settings.near_out_of_memory_ratio
    )


def _no_tensor_cores(around: Circumstances, settings: ConditionSettings) -> bool:
    signals = around.signals
    tensor = signals.get(Signal.TENSOR_ACTIVE)
    return (
        tensor is not None
        and tensor < settings.no_tensor_ratio
        and signals.get(Signal.SM_ACTIVE, 0.0) >= settings.no_tensor_sm_ratio
        and signals.get(Signal.FP32_ACTIVE, 0.0) >= settings.no_tensor_fp32_ratio
    )


def _rank_imbalance(around: Circumstances, _: ConditionSettings) -> bool:
    return around.is_out_of_balance


def _network_bound(around: Circumstances, settings: ConditionSettings) -> bool:
    return is_network_bound(around.signals, settings.network)


_THERMAL: Final = ClockEvent.SW_THERMAL_SLOWDOWN | ClockEvent.HW_THERMAL_SLOWDOWN

CONDITIONS: Final[tuple[tuple[Condition, _Test], ...]] = (
    (Condition.POWER_THROTTLED, _throttled_by(ClockEvent.SW_POWER_CAP)),
    (Condition.THERMAL_THROTTLED, _throttled_by(_THERMAL)),
    (Condition.HARDWARE_SLOWDOWN, _hardware_slowdown),
    (Condition.PCIE_LINK_DEGRADED, _link_degraded),
    (Condition.NUMA_MISPLACED, _numa_misplaced),
    (Condition.NEAR_OUT_OF_MEMORY, _near_out_of_memory),
    (Condition.NO_TENSOR_CORES, _no_tensor_cores),
    (Condition.RANK_IMBALANCE, _rank_imbalance),
    (Condition.NETWORK_BOUND, _network_bound),
)
"""All conditions, with how each is told."""
