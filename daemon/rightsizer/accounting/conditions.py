"""Conditions beside a state.

Throttling, degraded links, NUMA placement, network, memory, imbalance.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from rightsizer.accounting.classification_settings import (
    ConditionSettings,
    NetworkSettings,
    NumaPlacementSettings,
)
from rightsizer.accounting.signals import highest
from rightsizer.model.device import Device
from rightsizer.model.driver_codes import ClockEvent
from rightsizer.model.signal import PIPES, Signal
from rightsizer.model.state import Condition
from rightsizer.model.workload import Allocator


def is_numa_misplaced(signals: Mapping[Signal, float], settings: NumaPlacementSettings) -> bool:
    """Whether data takes the way over another NUMA node; `False` where nobody measures.

    That processes may run anywhere is no misplacement: the scheduler knows better. That most of
    their memory is elsewhere, or that they are kept elsewhere, is one, once data moves.
    """
    traffic = highest(signals, Signal.PCIE_RECEIVE, Signal.PCIE_TRANSMIT)
    if traffic is None or traffic < settings.traffic_ratio:
        return False
    memory = signals.get(Signal.HOST_MEMORY_LOCAL)
    cpus = signals.get(Signal.CPU_AFFINITY_LOCAL)
    return (memory is not None and memory < settings.memory_local_ratio) or (
        cpus is not None and cpus < settings.cpu_local_ratio
    )


def is_network_bound(signals: Mapping[Signal, float], settings: NetworkSettings) -> bool:
    """Whether the nearest InfiniBand or RoCE ports are at their limit while the GPU waits.

    Only a port's rate tells what full is; of other interfaces it is not known, so that nothing is
    claimed of them.
    """
    port = highest(signals, Signal.INFINIBAND_RECEIVE, Signal.INFINIBAND_TRANSMIT)
    return (
        port is not None
        and port >= settings.port_ratio
        and signals.get(Signal.GPU_BUSY, 0.0) >= settings.busy_ratio
        and _waits(signals, settings)
    )


def _waits(signals: Mapping[Signal, float], settings: NetworkSettings) -> bool:
    """By the best witness: a collective's kernels keep a GPU busy while it waits."""
    pipes = highest(signals, *PIPES)
    if pipes is not None:
        dram = signals.get(Signal.DRAM_ACTIVE, 0.0)
        return pipes < settings.pipe_ratio and dram < settings.dram_ratio
    power = signals.get(Signal.POWER)
    if power is not None:
        return power < settings.power_ratio
    return signals[Signal.GPU_BUSY] < settings.gap_busy_ratio


@dataclass(frozen=True, slots=True)
class ConditionInput:
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


_Test = Callable[[ConditionInput, ConditionSettings], bool]


def conditions(around: ConditionInput, settings: ConditionSettings) -> frozenset[Condition]:
    """Every condition that holds; one whose signals are missing does not."""
    return frozenset(condition for condition, holds in CONDITIONS if holds(around, settings))


def _throttled_by(mask: ClockEvent) -> _Test:
    bits = int(mask)

    def holds(around: ConditionInput, settings: ConditionSettings) -> bool:
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


def _hardware_slowdown(around: ConditionInput, _: ConditionSettings) -> bool:
    return bool(int(around.signals.get(Signal.CLOCK_EVENT_REASONS, 0)) & _SLOWDOWN)


def _link_degraded(around: ConditionInput, settings: ConditionSettings) -> bool:
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


def _test_numa_misplaced(around: ConditionInput, settings: ConditionSettings) -> bool:
    return is_numa_misplaced(around.signals, settings.placement)


def _near_out_of_memory(around: ConditionInput, settings: ConditionSettings) -> bool:
    used = around.signals.get(Signal.MEMORY_USED)
    return (
        around.allocator is not Allocator.PREALLOCATING
        and used is not None
        and used >= settings.near_out_of_memory_ratio
    )


def _no_tensor_cores(around: ConditionInput, settings: ConditionSettings) -> bool:
    signals = around.signals
    tensor = signals.get(Signal.TENSOR_ACTIVE)
    return (
        tensor is not None
        and tensor < settings.no_tensor_ratio
        and signals.get(Signal.SM_ACTIVE, 0.0) >= settings.no_tensor_sm_ratio
        and signals.get(Signal.FP32_ACTIVE, 0.0) >= settings.no_tensor_fp32_ratio
    )


def _rank_imbalance(around: ConditionInput, _: ConditionSettings) -> bool:
    return around.is_out_of_balance


def _test_network_bound(around: ConditionInput, settings: ConditionSettings) -> bool:
    return is_network_bound(around.signals, settings.network)


_THERMAL: Final = ClockEvent.SW_THERMAL_SLOWDOWN | ClockEvent.HW_THERMAL_SLOWDOWN

CONDITIONS: Final[tuple[tuple[Condition, _Test], ...]] = (
    (Condition.POWER_THROTTLED, _throttled_by(ClockEvent.SW_POWER_CAP)),
    (Condition.THERMAL_THROTTLED, _throttled_by(_THERMAL)),
    (Condition.HARDWARE_SLOWDOWN, _hardware_slowdown),
    (Condition.PCIE_LINK_DEGRADED, _link_degraded),
    (Condition.NUMA_MISPLACED, _test_numa_misplaced),
    (Condition.NEAR_OUT_OF_MEMORY, _near_out_of_memory),
    (Condition.NO_TENSOR_CORES, _no_tensor_cores),
    (Condition.RANK_IMBALANCE, _rank_imbalance),
    (Condition.NETWORK_BOUND, _test_network_bound),
)
"""All conditions, with how each is told."""
