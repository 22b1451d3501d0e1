"""The tracks of a shard's devices over a day: books first, then what they come to."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from rightsizer.accounting.books import BooksSettings
from rightsizer.domain.device import Device
from rightsizer.domain.signal import Signal
from rightsizer.domain.state import Condition
from rightsizer.fleet.estate import Held
from rightsizer.fleet.kept.grid import FINE_STEP, Grid
from rightsizer.fleet.kept.track import Track
from rightsizer.fleet.sources.dcgm_exporter.booking import DayBooks
from rightsizer.fleet.sources.dcgm_exporter.peaks import Peaks
from rightsizer.fleet.sources.dcgm_exporter.readings import DeviceDay
from rightsizer.fleet.sources.dcgm_exporter.tracks import TrackBuilder

__all__ = ["DayTracks"]

_THROTTLES: Final = (
    Condition.POWER_THROTTLED,
    Condition.THERMAL_THROTTLED,
    Condition.HARDWARE_SLOWDOWN,
)
_TENSOR_SIGNALS: Final = frozenset({Signal.SM_ACTIVE, Signal.TENSOR_ACTIVE, Signal.FP32_ACTIVE})


class DayTracks:
    """Judges a day as an agent would."""

    def __init__(self, grid: Grid, settings: BooksSettings | None = None) -> None:
        """Nothing is judged yet."""
        self._grid = grid
        self._books = DayBooks(grid, settings)

    def of(
        self,
        devices: Sequence[Device],
        read: Mapping[str, DeviceDay],
        known: Mapping[str, Sequence[float]],
        held: Mapping[str, Sequence[Held]],
    ) -> dict[str, Track]:
        """The track of each device.

        Args:
            devices: Those that were read.
            read: What was read of each.
            known: Seconds of each stretch that were watched.
            held: Who held each.
        """
        builders = {
            device.uuid: TrackBuilder(
                device,
                self._grid,
                known[device.uuid],
                _tellable(device, read[device.uuid], tells_ranks=self._tells_ranks(device, held)),
            )
            for device in devices
        }
        peaks = {device.uuid: Peaks(device, self._books) for device in devices}
        for uuid, booked in self._books.post(devices, read, known, held):
            throttled = _throttled(read[uuid], booked.stretch)
            builders[uuid].add(booked, peaks[uuid].of(booked), throttled)
        return {uuid: builder.track() for uuid, builder in builders.items()}

    def _tells_ranks(self, device: Device, held: Mapping[str, Sequence[Held]]) -> bool:
        """Whether unequal work would show: the judgement is over ten minutes."""
        return self._grid.step == FINE_STEP and bool(held.get(device.uuid))


def _tellable(device: Device, read: DeviceDay, *, tells_ranks: bool) -> Iterable[Condition]:
    """The conditions that would show; of others nobody can say that they did not hold."""
    found = set(read.violations)
    if read.reasons is not None:
        found |= set(_THROTTLES)
    if Signal.MEMORY_USED_BYTES in read.means and device.memory_total_bytes:
        found.add(Condition.NEAR_OUT_OF_MEMORY)
    if read.means.keys() >= _TENSOR_SIGNALS:
        found.add(Condition.NO_TENSOR_CORES)
    if tells_ranks:
        found.add(Condition.RANK_IMBALANCE)
    return sorted(found)


def _throttled(read: DeviceDay, stretch: int) -> Mapping[Condition, float]:
    """For how much of a stretch the clocks were held down, where that is known."""
    found: dict[Condition, float] = {}
    if read.reasons is not None:
        found = dict.fromkeys(_THROTTLES, read.reasons.at(stretch)[1])
    for condition, column in read.violations.items():
        share = column[stretch]
        if share >= 0.0:
            found[condition] = min(1.0, share)
    return found
