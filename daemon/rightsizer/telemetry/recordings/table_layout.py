"""Rows of a table whose columns are known: a row per device, or all devices in one row."""

import contextlib
from collections.abc import Iterator, Mapping, Sequence

from rightsizer.model.device import BY_INDEX
from rightsizer.model.frozen import dataclass
from rightsizer.model.workload import Holding, Workload, WorkloadKind
from rightsizer.telemetry.recordings.headed_table import HeadedTable, TimeColumns
from rightsizer.telemetry.recordings.heading_words import Heading, gpu_index
from rightsizer.telemetry.recordings.row import (
    RecordingDeviceFacts,
    RecordingNotes,
    RecordingRow,
    on_node,
)
from rightsizer.telemetry.recordings.table import CellColumn, CellTable, missing_cell
from rightsizer.telemetry.recordings.unnamed_devices import SampledRow, device_order


@dataclass(frozen=True, slots=True)
class LayoutColumns:
    """Positions of the columns of a table."""

    headings: Mapping[int, Heading]
    """Signals, with their units."""
    uuid: int | None = None
    """Of any name that is a device's own."""
    device: int | None = None
    """Of an index, or else such a name."""
    node: int | None = None
    board: int | None = None
    workload: int | None = None


class TableLayout:
    """Readings of a table's rows; without a column of devices, by their order."""

    def __init__(
        self,
        table: HeadedTable,
        columns: LayoutColumns,
        times: TimeColumns,
        notes: RecordingNotes,
    ) -> None:
        self._notes, self._file, self._time = notes, table.text.name, times
        self._identity = (columns.uuid, columns.device, columns.node, columns.board)
        self._workload = columns.workload
        self._known: dict[tuple[str, ...], str] = {}
        self._facts: dict[str, RecordingDeviceFacts] = {}
        by_device: dict[str | None, list[CellColumn]] = {}
        for at, heading in columns.headings.items():
            if heading.facts is not None and heading.device is not None:
                self._facts[heading.device] = heading.facts
            column = CellColumn(at, table.headings[at], heading.signal, heading.unit or "")
            by_device.setdefault(heading.device, []).append(column)
        self._tables = {device: CellTable(found) for device, found in by_device.items()}
        self._order = None
        if None in self._tables and columns.uuid is None and columns.device is None:
            self._order = device_order(self._sampled(table), table.text.stated, notes)

    def rows(self, line: int, cells: Sequence[str]) -> Iterator[RecordingRow]:
        """Yield a row per device, except devices whose own columns are empty."""
        try:
            time = self._time.parse(cells)
        except ValueError:
            # Records of other events may lack a time.
            if any(_has_cells(each, cells) for each in self._tables.values()):
                self._notes.count("unreadable timestamp", line, self._time.text(cells))
            return
        identity = tuple(["" if at is None else cells[at] for at in self._identity])
        holdings = None if self._workload is None else _holdings(cells[self._workload].strip())
        for device, table in self._tables.items():
            if device is not None and not _has_cells(table, cells):
                continue
            ordered = self._order(time, None, line) if device is None and self._order else None
            named = (device or ordered or "", *identity)
            if (key := self._known.get(named)) is None:
                key = self._known[named] = self._key(*named)
            if not key:
                self._notes.count("row without a device", line)
                continue
            values, missing = table.read(cells, line, self._notes)
            yield RecordingRow(time, key, values, missing, self._file, holdings=holdings)

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

    def _sampled(self, table: HeadedTable) -> Iterator[SampledRow]:
        """Yield rows without a device for the search of their order."""
        notes = RecordingNotes(self._file)
        times = self._time.again(notes)
        for line, cells in table.rows(notes):
            with contextlib.suppress(ValueError):
                time = times.parse(cells)
                values, _ = self._tables[None].read(cells, line, notes)
                yield SampledRow(time, values)


def _has_cells(table: CellTable, cells: Sequence[str]) -> bool:
    """Whether any column has a cell that is not blank."""
    return any(cells[column.index].strip() for column in table.columns)


def _holdings(name: str) -> tuple[Holding, ...]:
    holder = Workload(f"recorded:{name}", WorkloadKind.RECORDED, name)
    return (Holding(holder, 1.0),) if name else ()


def layout_rows(
    table: HeadedTable, columns: LayoutColumns, times: TimeColumns, notes: RecordingNotes
) -> Iterator[RecordingRow]:
    """Yield the rows of a table."""
    layout = TableLayout(table, columns, times, notes)
    for number, cells in table.rows(notes):
        yield from layout.rows(number, cells)
