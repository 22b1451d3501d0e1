"""Layout of tables whose headings name content and GPU of each column, in words or as series."""

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from rightsizer.model.device import BY_INDEX
from rightsizer.model.signal import Signal
from rightsizer.telemetry.recordings.headed_table import (
    HeadedTable,
    TimeColumns,
    UnitSample,
    with_units_of_cells,
)
from rightsizer.telemetry.recordings.heading_words import (
    DEVICES,
    NAMES,
    NODES,
    UUIDS,
    Heading,
    field_names,
    gpu_index,
    place_of,
    read_headings,
    time_places,
    unread_headings,
)
from rightsizer.telemetry.recordings.nvidia_smi_columns import SIGNAL_COLUMNS
from rightsizer.telemetry.recordings.row import (
    RecordingDeviceFacts,
    RecordingNotes,
    RecordingRow,
    on_node,
)
from rightsizer.telemetry.recordings.table import CellColumn, CellTable, missing_cell
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


def has_named_columns(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> bool:
    """Whether there are a time and the utilization of a GPU, or columns of a known program."""
    if not time_places(headings):
        return False
    found = read_headings(with_units_of_cells(headings, rows)).items()
    return any(
        each.signal is Signal.GPU_BUSY or (each.is_exact and headings[at] not in SIGNAL_COLUMNS)
        for at, each in found
    )


class NamedLayout:
    """Columns of a table by device."""

    def __init__(
        self, table: HeadedTable, sample: Sequence[Sequence[str]], notes: RecordingNotes
    ) -> None:
        self._notes, self._file = notes, table.text.name
        self._time = TimeColumns(table.headings, notes)
        names = (UUIDS, DEVICES, NODES, NAMES)
        self._identity = [place_of(table.headings, each) for each in names]
        self._facts: dict[str, RecordingDeviceFacts] = {}
        self._known: dict[tuple[str, ...], str] = {}
        is_unnamed = self._identity[0] is None and self._identity[1] is None
        headings = with_units_of_cells(table.headings, sample)
        read = read_headings(headings)
        if is_unnamed:
            read = _of_named_devices(read, table.headings, notes)
        self._tables = self._by_device(self._with_units(read, table, sample), table, notes)
        self._order = None
        if None in self._tables and is_unnamed:
            times = TimeColumns(table.headings, RecordingNotes(self._file))
            self._order = device_order(self._sampled(sample, times), table.text.stated, notes)

    def rows(self, line: int, cells: Sequence[str]) -> Iterator[RecordingRow]:
        """Yield a row per device, except devices whose own columns are empty."""
        try:
            time = self._time.parse(cells)
        except ValueError:
            # Records of other events may lack a time.
            if any(
                cells[column.index] for each in self._tables.values() for column in each.columns
            ):
                self._notes.count("unreadable timestamp", line, self._time.text(cells))
            return
        identity = tuple(["" if at is None else cells[at] for at in self._identity])
        for device, table in self._tables.items():
            if device is not None and not _has_cells(table, cells):
                continue
            values, missing = table.read(cells, line, self._notes)
            ordered = self._order(time, None, line) if device is None and self._order else None
            named = (device or ordered or "", *identity)
            if (key := self._known.get(named)) is None:
                key = self._known[named] = self._key(*named)
            if key:
                yield RecordingRow(time, key, values, missing, self._file)
            else:
                self._notes.count("row without a device", line)

    def _key(self, device: str, *identity: str) -> str:
        """Return the key of a row's device, and note its facts."""
        uuid, named, node, board = ("" if missing_cell(cell) else cell.strip() for cell in identity)
        index = gpu_index(named)
        by_index = named if index is None else f"{BY_INDEX}{index}"
        if not (key := on_node(device or uuid or by_index, node)):
            return ""
        place = (device or by_index).removeprefix(BY_INDEX)
        self._notes.learn(
            key,
            self._facts.get(device)
            or RecordingDeviceFacts(
                index=int(place) if place.isdecimal() else None,
                # InfluxDB's 'name' is the measurement's; board names contain digits.
                name=board if any(map(str.isdigit, board)) else None,
            ),
        )
        return key

    def _with_units(
        self, read: dict[int, Heading], table: HeadedTable, sample: Sequence[Sequence[str]]
    ) -> dict[int, Heading]:
        """Return the columns whose units are known, with them."""
        device_at = self._identity[1] if self._identity[0] is None else self._identity[0]
        units, has_varying = _column_sample(sample, read, device_at)
        found: dict[int, Heading] = {}
        for at, heading in read.items():
            # The size of the whole memory never changes.
            if heading.is_bare and not has_varying:
                continue
            if (unit := units.unit_of(heading)) is not None:
                found[at] = heading._replace(unit=unit)
                continue
            title = table.headings[at]
            ending = "_pct" if heading.signal is Signal.GPU_BUSY else "_mib"
            stated = ",".join([*table.headings[:at], f"{title}{ending}", *table.headings[at + 1 :]])
            self._notes.remark(
                f"the unit of '{title}' is not known, it is left out; {_ADD_UNIT}"
                + (f", or state it with --fields '{stated}'" if table.is_csv else "")
            )
        return found

    def _by_device(
        self, read: Mapping[int, Heading], table: HeadedTable, notes: RecordingNotes
    ) -> dict[str | None, CellTable]:
        columns: dict[str | None, list[CellColumn]] = {}
        texts: dict[Signal, str] = {}
        for at, heading in read.items():
            title, unit = table.headings[at], heading.unit or ""
            if heading.facts is not None and heading.device is not None:
                self._facts[heading.device] = heading.facts
            if not heading.is_exact:
                texts.setdefault(heading.signal, f"'{title}' as {heading.signal} in {unit}")
            column = CellColumn(at, title, heading.signal, unit)
            columns.setdefault(heading.device, []).append(column)
        if texts:
            _remark_words(texts.values(), unread_headings(table.headings, read), table, notes)
        return {device: CellTable(found) for device, found in columns.items()}

    def _sampled(self, rows: Iterable[Sequence[str]], times: TimeColumns) -> Iterator[SampledRow]:
        """Yield rows without a device for the search of their order."""
        for cells in rows:
            with contextlib.suppress(ValueError):
                time = times.parse(cells)
                values, _ = self._tables[None].read(cells, 0, RecordingNotes(self._file))
                yield SampledRow(time, values)


def _has_cells(table: CellTable, cells: Sequence[str]) -> bool:
    """Whether any column has a cell that is not blank."""
    return any(cells[column.index].strip() for column in table.columns)


def _remark_words(
    texts: Iterable[str], unread: Sequence[str], table: HeadedTable, notes: RecordingNotes
) -> None:
    remedy = _REMEDY if table.is_csv else _REMEDY_OF_JSON
    notes.remark(f"columns are read by their names: {', '.join(texts)}; {remedy}")
    if unread:
        fields = field_names(table.headings, unread) if table.is_csv else ""
        notes.remark(
            f"left out: {', '.join(map(repr, unread))}"
            + (f"; if it is used memory, say so: --fields '{fields}'" if fields else "")
        )


def _column_sample(
    rows: Sequence[Sequence[str]], read: Mapping[int, Heading], device_at: int | None
) -> tuple[UnitSample, bool]:
    """Return numbers by which missing units are inferred, and whether bare memory ever varies."""
    units, varies = UnitSample(len(rows)), False
    wanted = {at: each for at, each in read.items() if each.unit is None or each.is_bare}
    last: dict[tuple[int, str], float] = {}
    for cells in rows if wanted else ():
        for at, heading in wanted.items():
            if (number := units.add(heading.signal, cells[at])) is not None and heading.is_bare:
                key = at, "" if device_at is None else cells[device_at]
                varies |= last.setdefault(key, number) != number
    return units, varies
