"""Which device a line of an nvidia-smi log is about."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Final

from rightsizer.domain.units import Nanoseconds
from rightsizer.telemetry.recorded.cells import missing_cell
from rightsizer.telemetry.recorded.csv_rows import split
from rightsizer.telemetry.recorded.nvidia_smi_columns import IDENTITY
from rightsizer.telemetry.recorded.polls import poll_gap
from rightsizer.telemetry.recorded.row import Notes
from rightsizer.telemetry.recorded.text import TextFile
from rightsizer.telemetry.recorded.timestamps import parse_timestamp

__all__ = ["identifier"]

_SAMPLED_ROWS: Final = 10_000


def identifier(
    text: TextFile, places: Mapping[str, int], width: int, delimiter: str
) -> Callable[[Sequence[str], Nanoseconds], str]:
    """What tells the device of a row from its cells and time.

    Args:
        text: The file, whose first rows tell the polls apart where no column names devices.
        places: The columns by their names.
        width: How many cells a row has.
        delimiter: What stands between them.
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
    for _, line in text.lines(Notes(text.name)):
        cells = split(line, delimiter)
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
