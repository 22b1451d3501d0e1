"""Device of each line of an nvidia-smi log, by cell or by order within a poll."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice, pairwise
from typing import Final

from rightsizer.model.units import Nanoseconds
from rightsizer.telemetry.recordings.nvidia_smi_columns import IDENTITY
from rightsizer.telemetry.recordings.row import RecordingNotes
from rightsizer.telemetry.recordings.table import missing_cell, split_csv_line
from rightsizer.telemetry.recordings.text_file import TextFile
from rightsizer.telemetry.recordings.timestamps import parse_timestamp

_MILLISECOND: Final = 1_000_000
_LONGEST_GAP: Final = 500 * _MILLISECOND
"""A driver that takes longer for one device is no longer polling, it hangs."""
_SHORTEST_POLL: Final = 50 * _MILLISECOND
"""Rows that all lie closer than this are one poll: nobody polls so often."""
_MOST_DEVICES: Final = 64
_SEPARATION: Final = 2.0
"""Gaps between polls are at least so many times those within."""
_AGREEMENT: Final = 0.8
"""Share of polls that must have the usual number of rows."""


def poll_gap(times: Sequence[Nanoseconds]) -> Nanoseconds:
    """The longest time between two rows of one poll; -1 where each row is a poll of its own.

    The gaps fall into two heaps when several devices are polled: a few milliseconds from one
    device to the next, and the interval. A cut between the heaps is right when it leaves polls
    of equal size; of several such cuts the widest is taken.
    """
    gaps = [max(0, after - before) for before, after in pairwise(times)]
    if not gaps:
        return -1
    best, best_width = -1, 0.0
    for low, high in _cuts(sorted(set(gaps))):
        width = high / max(low, _MILLISECOND)
        if width > best_width and _is_regular(gaps, low):
            best, best_width = low, width
    return best


def _cuts(gaps: Sequence[Nanoseconds]) -> list[tuple[Nanoseconds, Nanoseconds]]:
    cuts = [
        (low, high)
        for low, high in pairwise(gaps)
        if low <= _LONGEST_GAP and high >= _SEPARATION * max(low, _MILLISECOND)
    ]
    if gaps[-1] <= _SHORTEST_POLL:
        cuts.append((gaps[-1], 2 * _LONGEST_GAP))
    return cuts


def _is_regular(gaps: Sequence[Nanoseconds], longest_within: Nanoseconds) -> bool:
    sizes = [1]
    for gap in gaps:
        if gap > longest_within:
            sizes.append(1)
        else:
            sizes[-1] += 1
    size, count = Counter(sizes).most_common(1)[0]
    return 1 < size <= _MOST_DEVICES and count >= _AGREEMENT * len(sizes)


_SAMPLED_ROWS: Final = 10_000


def identifier(
    text: TextFile, places: Mapping[str, int], width: int, delimiter: str
) -> Callable[[Sequence[str], Nanoseconds], str]:
    """What tells the device of a row from its cells and time.

    The first rows tell the polls apart where no column names devices.
    """
    for name in IDENTITY:
        if name in places:
            by_cell = _ByCell(places[name], name, places.get("index"))
            return lambda cells, _: by_cell.of(cells)
    times = islice(_times(text, places["timestamp"], width, delimiter), _SAMPLED_ROWS)
    return _ByOrder(poll_gap(tuple(times)), places.get("count")).of


class _ByCell:
    """Devices by a column that names them; anything but a uuid is numbered."""

    def __init__(self, at: int, name: str, index_at: int | None) -> None:
        self._at = at
        self._name = name
        self._index_at = index_at
        self._keys: dict[str, str] = {}

    def of(self, cells: Sequence[str]) -> str:
        cell = cells[self._at]
        key = self._keys.get(cell)
        if key is not None:
            return key
        if missing_cell(cell) and self._index_at is not None:
            return f"index:{cells[self._index_at].strip()}"
        plain = cell.strip()
        if self._name == "uuid":
            key = plain
        elif self._name == "index":
            key = f"index:{plain}"
        else:
            known = {other.strip(): key for other, key in self._keys.items()}
            key = known.get(plain, f"index:{len(set(known))}")
        self._keys[cell] = key
        return key


class _ByOrder:
    """Devices by their order in the poll."""

    def __init__(self, longest_gap: Nanoseconds, count_at: int | None) -> None:
        self._longest_gap = longest_gap
        self._count_at = count_at
        self._last: Nanoseconds | None = None
        self._position = -1

    def of(self, cells: Sequence[str], time: Nanoseconds) -> str:
        count = None if self._count_at is None else _number(cells[self._count_at])
        step = None if self._last is None else time - self._last
        if count is None or self._longest_gap >= 0:
            ended = step is None or not 0 <= step <= self._longest_gap
        else:
            ended = step is None
        ended = ended or (count is not None and self._position + 1 >= count)
        self._position = 0 if ended else self._position + 1
        self._last = time
        return f"index:{self._position}"


def _times(text: TextFile, at: int, width: int, delimiter: str) -> Iterator[Nanoseconds]:
    for _, line in text.lines(RecordingNotes(text.name)):
        cells = split_csv_line(line, delimiter)
        if len(cells) == width:
            try:
                yield parse_timestamp(cells[at].strip())
            except ValueError:
                continue


def _number(cell: str) -> float | None:
    try:
        return float(cell)
    except ValueError:
        return None
