"""Load of a recording's devices at a bounded number of moments, for what is told by comparing."""

import math
from array import array
from enum import StrEnum
from typing import Final

from rightsizer.model.frozen import dataclass
from rightsizer.model.signal import Signal
from rightsizer.model.units import NANOSECONDS_PER_SECOND, Nanoseconds
from rightsizer.telemetry.recordings.row import RecordingRow

_MOST_MOMENTS: Final = 2048


class Load(StrEnum):
    """What is kept of a device."""

    BUSY = "busy"
    """0 to 1."""
    WATTS = "watts"
    MEMORY = "memory"
    """In whatever unit the recording has; one for all of it."""


_SIGNALS: Final = (
    (Load.BUSY, (Signal.GPU_BUSY, Signal.SM_ACTIVE)),
    (Load.WATTS, (Signal.POWER_WATTS,)),
    (Load.MEMORY, (Signal.MEMORY_USED_BYTES, Signal.MEMORY_USED)),
)
_LOADS: Final = tuple(load for load, _ in _SIGNALS)
_WIDTH: Final = 2 * len(_LOADS)


@dataclass(frozen=True, slots=True)
class LoadSeries:
    """Means of one device's loads over moments of equal length."""

    start: Nanoseconds
    """Wall time of the first moment; the same for all devices of a recording."""
    step: Nanoseconds
    values: dict[Load, list[float]]
    """`nan` where a load is not known at a moment."""

    def known(self, load: Load) -> bool:
        """Whether a load was ever read."""
        return any(not math.isnan(value) for value in self.values[load])


class LoadSeriesBuilder:
    """Sums of rows in the order of time; moments become longer as the recording does."""

    def __init__(self) -> None:
        self._start: Nanoseconds | None = None
        self._step: Nanoseconds = NANOSECONDS_PER_SECOND
        self._sums: dict[str, array[float]] = {}
        """Of each moment the number and the sum of the values of each load."""
        self.has_owners = False
        """Whether any row says who holds its device."""

    def see(self, row: RecordingRow) -> None:
        """Add a row."""
        if self._start is None:
            self._start = row.time
        if row.holdings:
            self.has_owners = True
        moment = (row.time - self._start) // self._step
        while moment >= _MOST_MOMENTS:
            self._widen()
            moment //= 2
        sums = self._sums.setdefault(row.device, array("d"))
        first = moment * _WIDTH
        if first >= len(sums):
            sums.extend([0.0] * (first + _WIDTH - len(sums)))
        values = row.values
        for place, (_, signals) in enumerate(_SIGNALS):
            for signal in signals:
                if signal in values:
                    sums[first + 2 * place] += 1.0
                    sums[first + 2 * place + 1] += values[signal]
                    break

    def series(self, interval: Nanoseconds) -> dict[str, LoadSeries]:
        """Those of all devices, with moments that hold a reading each."""
        while self._step < interval:
            self._widen()
        count = max(map(len, self._sums.values()), default=0) // _WIDTH
        return {
            device: LoadSeries(self._start or 0, self._step, _means(sums, count))
            for device, sums in self._sums.items()
        }

    def _widen(self) -> None:
        """Make one moment of each two."""
        self._step *= 2
        for device, sums in self._sums.items():
            count = -(-len(sums) // (2 * _WIDTH))
            sums.extend([0.0] * (2 * _WIDTH * count - len(sums)))
            self._sums[device] = array(
                "d",
                (
                    sums[2 * _WIDTH * moment + place] + sums[2 * _WIDTH * moment + _WIDTH + place]
                    for moment in range(count)
                    for place in range(_WIDTH)
                ),
            )


def _means(sums: "array[float]", count: int) -> dict[Load, list[float]]:
    found = {load: [math.nan] * count for load in _LOADS}
    for moment in range(len(sums) // _WIDTH):
        for place, load in enumerate(_LOADS):
            if times := sums[moment * _WIDTH + 2 * place]:
                found[load][moment] = sums[moment * _WIDTH + 2 * place + 1] / times
    return found
