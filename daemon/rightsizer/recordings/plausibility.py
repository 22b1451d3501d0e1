"""Plausibility of recorded values against the board and the rest of their column."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from rightsizer.catalogue.catalogue import Catalogue
from rightsizer.model.device import Device
from rightsizer.model.reading import Missing
from rightsizer.model.signal import Signal
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
        self._texts: dict[tuple[str, Signal], tuple[str, str]] = {}
        for device in devices:
            stated = {
                Signal.POWER_WATTS: device.power_limit_watts,
                Signal.MEMORY_USED_BYTES: device.memory_total_bytes,
            }
            for signal, board_limit in stated.items():
                key = device.uuid, signal
                board = "its board" if board_limit else "the largest known board"
                limit = board_limit or largest[signal]
                if (highest := maxima.get(key, 0.0)) > _EXCESS_RATIO * limit:
                    self._limits[key] = _EXCESS_RATIO * limit
                    unit = _UNITS[signal]
                    text = f"has up to {highest:,.0f} {unit}, {board} {limit:,.0f}"
                    self._texts[key] = device.title, text

    def judge(self, rows: Iterable[RecordingRow]) -> None:
        """Decide for each column whether the excess is an outlier, and remark on it."""
        if not self._limits:
            return
        above: Counter[tuple[str, Signal]] = Counter()
        below: Counter[tuple[str, Signal]] = Counter()
        for row in rows:
            for signal in _UNITS.keys() & row.values.keys():
                key = row.device, signal
                if key in self._limits and row.values[signal]:
                    counts = above if row.values[signal] > self._limits[key] else below
                    counts[key] += 1
        for key, (title, text) in self._texts.items():
            if above[key] < below[key]:
                self.remarks.append(f"{title} {text}: {above[key]} impossible values are dropped")
            else:
                del self._limits[key]
                self.remarks.append(
                    f"{title} {text}: if these are sums over GPUs, or in another unit, record "
                    "each GPU, or its unit"
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
        return row._replace(
            values={name: value for name, value in row.values.items() if name not in outliers},
            missing={**row.missing, **dict.fromkeys(outliers, Missing.INVALID)},
        )
