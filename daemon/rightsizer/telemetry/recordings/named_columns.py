"""CSV whose headings name content and GPU of each column in words, or are series."""

import contextlib
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Final

from rightsizer.model.device import BY_INDEX
from rightsizer.model.signal import Signal
from rightsizer.model.units import Nanoseconds
from rightsizer.telemetry.recordings.heading_words import (
    DEVICES,
    NAMES,
    NODES,
    SAMPLED_ROWS,
    UUIDS,
    Heading,
    NumberedRow,
    field_names,
    gpu_index,
    heading_line,
    is_series,
    likely_unit,
    place_of,
    read_headings,
    table_cells,
    time_places,
    unread_headings,
    words_of,
)
from rightsizer.telemetry.recordings.nvidia_smi_columns import column_name
from rightsizer.telemetry.recordings.row import RecordingDeviceFacts, RecordingNotes, RecordingRow
from rightsizer.telemetry.recordings.table import CellColumn, CellTable
from rightsizer.telemetry.recordings.text_file import (
    RecordingFormat,
    TextFile,
)
from rightsizer.telemetry.recordings.timestamps import EPOCH_UNITS, parse_epoch, parse_timestamp
from rightsizer.telemetry.recordings.unnamed_devices import SampledRow, device_order

_ADD_UNIT: Final = "add it to the heading, like util_pct or memory_used_mib"
_REMEDY: Final = "where that is wrong, give a column map (--columns)"
_REMEDY_OF_JSON: Final = "where that is wrong, write it as CSV (docs/recordings.md)"


def _of_named_devices(
    read: dict[int, Heading], headings: Sequence[str], notes: RecordingNotes
) -> dict[int, Heading]:
    """If some headings name their GPU, assign others to the only named one, else to none."""
    devices = {each.device: each.facts for each in read.values() if each.device is not None}
    unnamed = {at: each for at, each in read.items() if each.device is None}
    if not devices or not unnamed:
        return read
    named = {at: each for at, each in read.items() if at not in unnamed}
    if len(devices) > 1:
        left = ", ".join(f"'{headings[at]}'" for at in unnamed)
        notes.remark(f"which GPU {left} is of is not known, and it is left out")
        return named
    ((device, facts),) = devices.items()
    known = {each.signal for each in named.values()}
    joined = {
        at: each._replace(device=device, facts=facts)
        for at, each in unnamed.items()
        if each.signal not in known
    }
    return named | joined


def _recognizes(head: Sequence[str]) -> bool:
    _, headings = heading_line(head)
    if not time_places(headings) or Signal.GPU_BUSY in headings:
        return False
    if any(column_name(text) == "utilization.gpu" for text in headings):
        return False
    return any(
        heading.signal is Signal.GPU_BUSY or is_series(headings[at])
        for at, heading in read_headings(headings).items()
    )


def _rows(text: TextFile, notes: RecordingNotes) -> Iterator[RecordingRow]:
    _, headings = heading_line(text.head)
    layout = NamedLayout(headings, partial(table_cells, text), text, notes)
    for number, cells in table_cells(text, notes):
        yield from layout.rows(number, cells)


NAMED_CSV: Final = RecordingFormat("CSV with columns named for GPUs", _recognizes, _rows)
"""Logs of scripts and exports of Grafana; a row per GPU, or all GPUs in one row."""


class NamedLayout:
    """Columns of a file by device.

    `rows` reads the cells of all rows with their lines, as often as it is called. Only of CSV can a
    column be stated by a flag.
    """

    def __init__(
        self,
        headings: Sequence[str],
        rows: Callable[[RecordingNotes], Iterable[NumberedRow]],
        text: TextFile,
        notes: RecordingNotes,
        *,
        is_csv: bool = True,
    ) -> None:
        self._notes, self._file = notes, text.name
        self._times = time_places(headings)
        # What counts from 0 on tells its unit by the heading alone.
        self._unit = EPOCH_UNITS.get(words_of(headings[self._times[0]])[-1])
        self._node_at = place_of(headings, NODES)
        uuid_at = place_of(headings, UUIDS)
        self._device_at = place_of(headings, DEVICES) if uuid_at is None else uuid_at
        self._name_at = place_of(headings, NAMES)
        self._tables: dict[str | None, CellTable] = {}
        self._facts: dict[str, RecordingDeviceFacts] = {}
        self._known: set[str] = set()
        columns: dict[str | None, list[CellColumn]] = {}
        texts: dict[Signal, str] = {}
        read = read_headings(headings)
        if self._device_at is None:
            read = _of_named_devices(read, headings, notes)
        first_rows = [cells for _, cells in islice(rows(RecordingNotes(text.name)), SAMPLED_ROWS)]
        sample = _ColumnSample(first_rows, read, self._device_at)
        # The size of the whole memory never changes.
        read = {at: each for at, each in read.items() if at in sample.varying or not each.is_bare}
        for at, heading in read.items():
            title, unit = headings[at], sample.unit_of(heading)
            if unit is None:
                ending = "_pct" if heading.signal is Signal.GPU_BUSY else "_mib"
                stated = ",".join([*headings[:at], f"{title}{ending}", *headings[at + 1 :]])
                notes.remark(
                    f"the unit of '{title}' is not known, it is left out; {_ADD_UNIT}"
                    + (f", or state it with --fields '{stated}'" if is_csv else "")
                )
                continue
            if heading.facts is not None and heading.device is not None:
                self._facts[heading.device] = heading.facts
            if not is_series(title):
                texts.setdefault(heading.signal, f"'{title}' as {heading.signal} in {unit}")
            column = CellColumn(at, title, heading.signal, unit)
            columns.setdefault(heading.device, []).append(column)
        if texts:
            remedy = _REMEDY if is_csv else _REMEDY_OF_JSON
            notes.remark(f"columns are read by their names: {', '.join(texts.values())}; {remedy}")
            unread = unread_headings(headings, read)
            fields = field_names(headings, unread) if is_csv else ""
            if unread:
                notes.remark(
                    f"left out: {', '.join(map(repr, unread))}"
                    + (f"; if it is used memory, say so: --fields '{fields}'" if fields else "")
                )
        self._tables = {device: CellTable(found) for device, found in columns.items()}
        self._order = None
        if None in self._tables and self._device_at is None:
            self._order = device_order(self._sampled(first_rows), text.stated, notes)

    def rows(self, line: int, cells: Sequence[str]) -> Iterator[RecordingRow]:
        """Yield a row per device, except devices whose own columns are empty."""
        try:
            time = self._time_of(cells)
        except ValueError:
            self._notes.count("unreadable timestamp", line, self._time_text(cells))
            return
        node = "" if self._node_at is None else cells[self._node_at].strip()
        for device, table in self._tables.items():
            values, missing = table.read(cells, line, self._notes)
            if device is not None and not values:
                continue
            named = device or self._named(cells, time, line)
            if not named:
                self._notes.count("row without a device", line)
                continue
            index = named.removeprefix(BY_INDEX)
            key = f"{node} GPU {index}" if node and index.isdecimal() else named
            if key not in self._known:
                self._known.add(key)
                self._notes.learn(key, self._facts.get(named) or self._learned(cells, named))
            yield RecordingRow(time, key, values, missing, self._file)

    def _time_text(self, cells: Sequence[str]) -> str:
        """Return the time of a row as written, with its date first."""
        return " ".join(cells[at].strip() for at in self._times)

    def _time_of(self, cells: Sequence[str]) -> Nanoseconds:
        """Return the time of a row; raise `ValueError` for an invalid one."""
        text = self._time_text(cells)
        if self._unit is not None:
            with contextlib.suppress(ValueError):
                return parse_epoch(text, self._unit)
        return parse_timestamp(text)

    def _sampled(self, rows: Iterable[Sequence[str]]) -> Iterator[SampledRow]:
        """Yield rows without a device for the search of their order."""
        for cells in rows:
            with contextlib.suppress(ValueError):
                time = self._time_of(cells)
                values, _ = self._tables[None].read(cells, 0, RecordingNotes(self._file))
                yield SampledRow(time, values)

    def _named(self, cells: Sequence[str], time: Nanoseconds, line: int) -> str:
        """Return the device of a row about one."""
        if self._device_at is None:
            return "" if self._order is None else self._order(time, None, line)
        cell = cells[self._device_at].strip()
        index = gpu_index(cell)
        return cell if index is None else f"{BY_INDEX}{index}"

    def _learned(self, cells: Sequence[str], device: str) -> RecordingDeviceFacts:
        name = "" if self._name_at is None else cells[self._name_at].strip()
        index = device.removeprefix(BY_INDEX)
        return RecordingDeviceFacts(
            index=int(index) if index.isdecimal() else None,
            # InfluxDB's 'name' is the measurement's; board names contain digits.
            name=name if any(map(str.isdigit, name)) else None,
        )


class _ColumnSample:
    """Numbers in the first rows, by which missing units are inferred."""

    def __init__(
        self, rows: Sequence[Sequence[str]], read: Mapping[int, Heading], device_at: int | None
    ) -> None:
        self._values: dict[Signal, list[float]] = {each.signal: [] for each in read.values()}
        self.varying: set[int] = set()
        """Columns whose numbers change on one device."""
        self._are_all = len(rows) < SAMPLED_ROWS
        wanted = {at: each for at, each in read.items() if each.unit is None or each.is_bare}
        last: dict[tuple[int, str], float] = {}
        for cells in rows if wanted else ():
            for at, heading in wanted.items():
                with contextlib.suppress(ValueError):
                    number = float(cells[at].strip().partition(" ")[0].replace(",", "."))
                    if not math.isfinite(number):
                        continue
                    self._values[heading.signal].append(number)
                    key = at, "" if device_at is None else cells[device_at]
                    if last.setdefault(key, number) != number:
                        self.varying.add(at)

    def unit_of(self, heading: Heading) -> str | None:
        """Return the unit of a column, or `None` if it is ambiguous."""
        values = self._values[heading.signal]
        return heading.unit or likely_unit(heading.signal, values, are_all=self._are_all)
