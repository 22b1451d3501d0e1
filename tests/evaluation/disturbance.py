"""Snapshots as other sources might give them: less, and less exactly."""

from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Final

from rightsizer.domain.reading import Reading
from rightsizer.domain.signal import HOST_SIGNALS, PIPES, SIGNALS, Signal
from rightsizer.domain.snapshot import Snapshot
from rightsizer.domain.units import Unit

__all__ = ["disturbed", "without_profiling"]

_PROFILING: Final = frozenset(
    {
        *PIPES,
        Signal.SM_ACTIVE,
        Signal.SM_OCCUPANCY,
        Signal.SM_WORK,
        Signal.DRAM_ACTIVE,
        Signal.PCIE_RECEIVE,
        Signal.PCIE_TRANSMIT,
        Signal.NVLINK_RECEIVE,
        Signal.NVLINK_TRANSMIT,
        Signal.PCIE_RECEIVE_BYTES_PER_SECOND,
        Signal.PCIE_TRANSMIT_BYTES_PER_SECOND,
        Signal.NVLINK_RECEIVE_BYTES_PER_SECOND,
        Signal.NVLINK_TRANSMIT_BYTES_PER_SECOND,
    }
)
"""What GPM or DCGM gives and NVML alone does not, without waiting for it."""
_RATIO_SPREAD: Final = 0.2
_POWER_SPREAD: Final = 0.1
_LOST_SHARE: Final = 0.05


def without_profiling(snapshot: Snapshot) -> Snapshot:
    """As NVML alone would give it."""

    def reduce(reading: Reading) -> Reading:
        kept = {name: value for name, value in reading.values.items() if name not in _PROFILING}
        return replace(reading, values=kept)

    return _each(snapshot, reduce)


def disturbed(snapshot: Snapshot, random: Random) -> Snapshot:
    """With every activity off by a fifth (one sigma), power by a tenth, one value in 20 missing."""

    def disturb(reading: Reading) -> Reading:
        values = {
            name: _blurred(name, value, random)
            for name, value in reading.values.items()
            if random.random() >= _LOST_SHARE
        }
        return replace(reading, values=values)

    return _each(snapshot, disturb)


def _blurred(name: Signal, value: float, random: Random) -> float:
    if name is Signal.POWER_WATTS:
        return value * max(0.0, random.gauss(1.0, _POWER_SPREAD))
    is_activity = SIGNALS[name].unit is Unit.RATIO and name not in HOST_SIGNALS
    if not is_activity or name is Signal.MEMORY_USED:
        return value
    return min(1.0, value * max(0.0, random.gauss(1.0, _RATIO_SPREAD)))


def _each(snapshot: Snapshot, change: Callable[[Reading], Reading]) -> Snapshot:
    readings = {uuid: change(reading) for uuid, reading in snapshot.readings.items()}
    return replace(snapshot, readings=readings)
