"""From what was read to what it means: ratios of the device's own capacity."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from rightsizer.accounting.power import Draws
from rightsizer.domain.device import Device
from rightsizer.domain.pcie import link_bytes_per_second
from rightsizer.domain.reading import Reading
from rightsizer.domain.settings import setting
from rightsizer.domain.signal import HOST_SIGNALS, PIPES, SIGNALS, Signal
from rightsizer.domain.state import Tier
from rightsizer.domain.units import Unit

__all__ = ["SignalSettings", "clock_ratio", "derive", "highest", "tier_of"]

_RATIOS: Final = frozenset(s for s, spec in SIGNALS.items() if spec.unit is Unit.RATIO)
_PROFILING: Final = frozenset({Signal.SM_ACTIVE, Signal.DRAM_ACTIVE, *PIPES})


@dataclass(frozen=True, slots=True)
class SignalSettings:
    """When profiling counters are not believed."""

    suspect_busy_ratio: float = setting(
        0.5,
        help="Busy share from which on profiling counters that all read 0 may be dead.",
        unit="ratio",
        minimum=0,
        maximum=1,
        source="dcgm-exporter#662",
    )
    suspect_power_ratio: float = setting(
        0.4,
        help="Power from which on they are.",
        unit="ratio",
        minimum=0,
        maximum=1,
        source="well above what a spinning collective draws",
    )


def derive(
    reading: Reading,
    device: Device,
    host: Mapping[Signal, float],
    draws: Draws,
    settings: SignalSettings,
) -> dict[Signal, float]:
    """All signals of a reading, with the ratios that follow from the device's capacity.

    Ratios are clamped to 0..1: profiling counters of MIG instances are known to pass 1
    (NVIDIA/DCGM#152). Profiling counters that read 0 on a device that is busy and draws power
    have died (dcgm-exporter#662) and are left out.

    Args:
        reading: What was read.
        device: Whose capacities count.
        host: The node's own signals, for what the reading does not say of its owner.
        draws: The device's learned idle draw, and the highest seen.
        settings: When profiling counters are not believed.
    """
    signals = {
        signal: _ratio(value) if signal in _RATIOS else value
        for signal, value in reading.values.items()
    }
    for signal in HOST_SIGNALS:
        if signal in host:
            signals.setdefault(signal, host[signal])
    _derive_memory(signals, device)
    _derive_power(signals, device, draws)
    _derive_links(signals, device)
    _drop_dead_counters(signals, settings)
    if (active := signals.get(Signal.SM_ACTIVE)) is not None:
        signals.setdefault(Signal.SM_WORK, active * clock_ratio(signals, device))
    return signals


def tier_of(signals: Mapping[Signal, float]) -> Tier:
    """What these signals allow to be claimed."""
    if not _PROFILING.isdisjoint(signals):
        return Tier.PROFILING
    if Signal.GPU_BUSY not in signals:
        return Tier.NONE
    return Tier.POWER if Signal.POWER in signals else Tier.BASIC


def clock_ratio(signals: Mapping[Signal, float], device: Device) -> float:
    """SM clock over its maximum, 1 where either is unknown."""
    clock = signals.get(Signal.SM_CLOCK_HERTZ)
    maximum = signals.get(Signal.SM_CLOCK_MAXIMUM_HERTZ) or device.sm_clock_maximum_hertz
    return _ratio(clock / maximum) if clock is not None and maximum else 1.0


def highest(signals: Mapping[Signal, float], *names: Signal) -> float | None:
    """The largest of these signals, `None` where none is known."""
    known = [signals[name] for name in names if name in signals]
    return max(known) if known else None


def _ratio(value: float) -> float:
    return min(1.0, max(0.0, value))


def _derive_memory(signals: dict[Signal, float], device: Device) -> None:
    total = signals.get(Signal.MEMORY_TOTAL_BYTES) or device.memory_total_bytes
    used = signals.get(Signal.MEMORY_USED_BYTES)
    if used is not None and total:
        signals.setdefault(Signal.MEMORY_USED, _ratio(used / total))


def _derive_power(signals: dict[Signal, float], device: Device, draws: Draws) -> None:
    watts = signals.get(Signal.POWER_WATTS)
    limit = signals.get(Signal.POWER_LIMIT_WATTS) or device.power_limit_watts or draws.highest_watts
    idle_watts = draws.idle_watts
    if watts is None or idle_watts is None or limit is None or limit <= idle_watts:
        return
    signals.setdefault(Signal.POWER, _ratio((watts - idle_watts) / (limit - idle_watts)))


def _derive_links(signals: dict[Signal, float], device: Device) -> None:
    generation = signals.get(Signal.PCIE_LINK_GENERATION, device.pcie_generation_maximum)
    width = signals.get(Signal.PCIE_LINK_WIDTH, device.pcie_width_maximum)
    pcie = link_bytes_per_second(generation, width) if generation and width else None
    for signal, quantity, capacity in (
        (Signal.PCIE_RECEIVE, Signal.PCIE_RECEIVE_BYTES_PER_SECOND, pcie),
        (Signal.PCIE_TRANSMIT, Signal.PCIE_TRANSMIT_BYTES_PER_SECOND, pcie),
        (
            Signal.NVLINK_RECEIVE,
            Signal.NVLINK_RECEIVE_BYTES_PER_SECOND,
            device.nvlink_bytes_per_second,
        ),
        (
            Signal.NVLINK_TRANSMIT,
            Signal.NVLINK_TRANSMIT_BYTES_PER_SECOND,
            device.nvlink_bytes_per_second,
        ),
    ):
        if capacity and quantity in signals:
            signals.setdefault(signal, _ratio(signals[quantity] / capacity))


def _drop_dead_counters(signals: dict[Signal, float], settings: SignalSettings) -> None:
    counters = _PROFILING & signals.keys()
    if (
        counters
        and not any(signals[counter] for counter in counters)
        and signals.get(Signal.GPU_BUSY, 0.0) >= settings.suspect_busy_ratio
        and signals.get(Signal.POWER, 0.0) >= settings.suspect_power_ratio
    ):
        for counter in counters:
            del signals[counter]
