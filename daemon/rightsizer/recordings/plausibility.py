"""Plausibility of recorded values against the board and the rest of their column."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from msgspec.structs import replace

from rightsizer.catalogue.catalogue import Catalogue
from rightsizer.model.values import Device, Missing, Signal
from rightsizer.recordings.row import RecordingRow

_EXCESS_RATIO: Final = 1.5
"""Multiple of a board's limit from which a value is no peak, but a sum or in another unit.

Source: assumed."""
_UNITS: Final = {Signal.POWER_WATTS: "W", Signal.MEMORY_USED_BYTES: "bytes"}
"""Signals with a limit that is known of every board."""

Maxima = Mapping[tuple[str, Signal], float]
"""Largest values by device and signal."""


class BoardLimits:
    """Values that no board has: few of a column are dropped, most of one are another quantity."""

    def __init__(self, devices: Iterable[Device], catalogue: Catalogue, maxima: Maxima) -> None:
        boards = catalogue.boards.values()
        largest = {
            Signal.POWER_WATTS: max(board.power_limit_watts for board in boards),
            Signal.MEMORY_USED_BYTES: max(board.memory_bytes for board in boards),
        }
        self.remarks: list[str] = []
        self._limits: dict[tuple[str, Signal], float] = {}
        self._texts: dict[tuple[str, Signal], str] = {}
        for device in devices:
            stated = {
                Signal.POWER_WATTS: device.power_limit_watts,
                Signal.MEMORY_USED_BYTES: device.memory_total_bytes,
            }
            for signal, stated_limit in stated.items():
                board = "its board" if stated_limit else "the largest known board"
                limit = stated_limit or largest[signal]
                highest = maxima.get((device.uuid, signal), 0.0)
                if highest > _EXCESS_RATIO * limit:
                    unit = _UNITS[signal]
                    self._limits[device.uuid, signal] = _EXCESS_RATIO * limit
                    self._texts[device.uuid, signal] = (
                        f"{device.title} has up to {highest:,.0f} {unit}, {board} {limit:,.0f}"
                    )

    def judge(self, rows: Iterable[RecordingRow]) -> None:
        """Decide for each column whether the excess is an outlier, and remark on it."""
        if not self._limits:
            return
        counts: Counter[tuple[str, Signal, bool]] = Counter(
            (row.device, signal, row.values[signal] > self._limits[row.device, signal])
            for row in rows
            for signal in _UNITS
            if (row.device, signal) in self._limits and row.values.get(signal)
        )
        for key, text in self._texts.items():
            above = counts[*key, True]
            if above < counts[*key, False]:
                self.remarks.append(f"{text}: {above} impossible values are dropped")
            else:
                del self._limits[key]
                self.remarks.append(
                    f"{text}: if these are sums over GPUs, or in another unit, record each GPU, or "
                    "its unit"
                )

    def plausible(self, rows: Iterator[RecordingRow]) -> Iterator[RecordingRow]:
        """Return the rows without outliers."""
        return map(self._checked, rows) if self._limits else rows

    def _checked(self, row: RecordingRow) -> RecordingRow:
        outliers: Sequence[Signal] = [
            signal
            for signal in _UNITS
            if row.values.get(signal, 0.0) > self._limits.get((row.device, signal), float("inf"))
        ]
        if not outliers:
            return row
        return replace(
            row,
            values={name: value for name, value in row.values.items() if name not in outliers},
            missing={**row.missing, **dict.fromkeys(outliers, Missing.INVALID)},
        )
