"""Signals that a simulated device offers: what the live source finds on such a board."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from rightsizer.model.signal import Signal
from rightsizer.simulator.device import SimulatedDevice
from rightsizer.simulator.physics import nvlink_is_up
from rightsizer.simulator.support import BoardFeature, support_of

PROFILED: Final = (
    Signal.GPU_BUSY,
    Signal.SM_ACTIVE,
    Signal.SM_OCCUPANCY,
    Signal.TENSOR_ACTIVE,
    Signal.DRAM_ACTIVE,
    Signal.FP64_ACTIVE,
    Signal.FP32_ACTIVE,
    Signal.FP16_ACTIVE,
    Signal.INTEGER_ACTIVE,
)


@dataclass(frozen=True, slots=True)
class _Rule:
    """Some signals, and what they need."""

    feature: BoardFeature
    signals: tuple[Signal, ...]
    with_mig: bool = True
    """Whether a GPU with MIG instances has them itself."""
    on_instance: bool = False


_NVLINK: Final = (
    Signal.NVLINK_RECEIVE_BYTES_PER_SECOND,
    Signal.NVLINK_TRANSMIT_BYTES_PER_SECOND,
    Signal.NVLINK_LINKS,
    Signal.NVLINK_LINKS_UP,
    Signal.NVLINK_ERRORS,
)
_RULES: Final = (
    _Rule(BoardFeature.GPM, PROFILED, with_mig=False, on_instance=True),
    _Rule(
        BoardFeature.UTILIZATION, (Signal.GPU_BUSY, Signal.MEMORY_CONTROLLER_BUSY), with_mig=False
    ),
    _Rule(
        BoardFeature.ENCODER_DECODER,
        (Signal.ENCODER, Signal.DECODER, Signal.ENCODER_SESSIONS),
        with_mig=False,
    ),
    _Rule(BoardFeature.JPEG, (Signal.JPEG,), with_mig=False),
    _Rule(BoardFeature.OFA, (Signal.OFA,), with_mig=False),
    _Rule(
        BoardFeature.MEMORY,
        (
            Signal.MEMORY_USED_BYTES,
            Signal.MEMORY_TOTAL_BYTES,
            Signal.MEMORY_FREE_BYTES,
            Signal.MEMORY_RESERVED_BYTES,
        ),
        on_instance=True,
    ),
    _Rule(
        BoardFeature.MEMORY,
        (Signal.BAR1_USED_BYTES, Signal.BAR1_TOTAL_BYTES, Signal.RECOVERY_ACTION),
    ),
    _Rule(BoardFeature.POWER, (Signal.POWER_WATTS, Signal.POWER_LIMIT_WATTS)),
    _Rule(BoardFeature.ENERGY, (Signal.ENERGY_JOULES,)),
    _Rule(
        BoardFeature.CLOCKS,
        (
            Signal.SM_CLOCK_HERTZ,
            Signal.SM_CLOCK_MAXIMUM_HERTZ,
            Signal.MEMORY_CLOCK_HERTZ,
            Signal.MEMORY_CLOCK_MAXIMUM_HERTZ,
            Signal.VIDEO_CLOCK_HERTZ,
            Signal.PERFORMANCE_STATE,
        ),
    ),
    _Rule(
        BoardFeature.APPLICATION_CLOCKS,
        (Signal.SM_CLOCK_APPLICATION_HERTZ, Signal.MEMORY_CLOCK_APPLICATION_HERTZ),
    ),
    _Rule(
        BoardFeature.CLOCK_EVENTS,
        (
            Signal.CLOCK_EVENT_REASONS,
            Signal.POWER_VIOLATION_SECONDS,
            Signal.THERMAL_VIOLATION_SECONDS,
        ),
    ),
    _Rule(BoardFeature.TEMPERATURE, (Signal.TEMPERATURE_CELSIUS,)),
    _Rule(BoardFeature.TEMPERATURE_MARGIN, (Signal.TEMPERATURE_MARGIN_CELSIUS,)),
    _Rule(BoardFeature.MEMORY_TEMPERATURE, (Signal.MEMORY_TEMPERATURE_CELSIUS,)),
    _Rule(BoardFeature.FANS, (Signal.FAN_SPEED,)),
    _Rule(
        BoardFeature.PCIE,
        (Signal.PCIE_LINK_GENERATION, Signal.PCIE_LINK_WIDTH, Signal.PCIE_REPLAYS),
    ),
    _Rule(
        BoardFeature.PCIE_COUNTERS,
        (Signal.PCIE_RECEIVE_BYTES_PER_SECOND, Signal.PCIE_TRANSMIT_BYTES_PER_SECOND),
    ),
    _Rule(BoardFeature.NVLINK, _NVLINK),
    _Rule(BoardFeature.FABRIC, (Signal.FABRIC_STATE,)),
    _Rule(
        BoardFeature.VOLATILE_ECC,
        (Signal.ECC_CORRECTED_ERRORS, Signal.ECC_UNCORRECTED_ERRORS),
        with_mig=False,
    ),
    # An instance counts uncorrected errors of its caches and registers.
    _Rule(BoardFeature.ECC, (Signal.ECC_UNCORRECTED_ERRORS,), with_mig=False, on_instance=True),
    _Rule(
        BoardFeature.ECC,
        (Signal.ECC_CORRECTED_ERRORS_LIFETIME, Signal.ECC_UNCORRECTED_ERRORS_LIFETIME),
    ),
    _Rule(
        BoardFeature.ROW_REMAPPING,
        (
            Signal.REMAPPED_ROWS_CORRECTABLE,
            Signal.REMAPPED_ROWS_UNCORRECTABLE,
            Signal.REMAPPED_ROWS_PENDING,
            Signal.REMAPPED_ROWS_FAILED,
        ),
        with_mig=False,
    ),
    _Rule(
        BoardFeature.RETIRED_PAGES,
        (
            Signal.RETIRED_PAGES_CORRECTABLE,
            Signal.RETIRED_PAGES_UNCORRECTABLE,
            Signal.RETIRED_PAGES_PENDING,
        ),
    ),
    _Rule(BoardFeature.PROCESSES, (Signal.PROCESS_COUNT,), with_mig=False, on_instance=True),
)


def signals_of_driver() -> frozenset[Signal]:
    """All that any device offers."""
    return frozenset(signal for rule in _RULES for signal in rule.signals)


def offered_signals(unit: SimulatedDevice, *, is_cut: bool) -> frozenset[Signal]:
    """What a device offers.

    Args:
        unit: A GPU or a MIG instance.
        is_cut: Whether the GPU has MIG instances.
    """
    return frozenset(_offered(unit, is_cut=is_cut))


def _offered(unit: SimulatedDevice, *, is_cut: bool) -> Iterator[Signal]:
    board = unit.slot.board
    support = support_of(board)
    for rule in _RULES:
        fits = rule.on_instance if unit.is_instance else rule.with_mig or not is_cut
        if rule.signals is _NVLINK and not nvlink_is_up(board):
            continue
        if fits and support.has(rule.feature):
            yield from rule.signals
