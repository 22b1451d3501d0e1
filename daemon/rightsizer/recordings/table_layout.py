"""Rows of a table whose columns are known: a row per device, or all devices in one row."""

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import Final, TypeAlias

from msgspec import Struct

from rightsizer.model.values import (
    BY_INDEX,
    Holding,
    Missing,
    Nanoseconds,
    Signal,
    Workload,
    WorkloadKind,
)
from rightsizer.recordings.headed_table import HeadedTable, NumberedRow, TimeColumns
from rightsizer.recordings.heading_words import DMON_MARK, Heading, gpu_index
from rightsizer.recordings.nvidia_smi_columns import FACTS
from rightsizer.recordings.row import RecordingNotes, RecordingRow, on_node
from rightsizer.recordings.table import (
    CellColumn,
    CellTable,
    cells_at,
    decimal_mark,
    missing_cell,
    number_in,
    spaced_places,
    with_clock_events,
)
from rightsizer.recordings.unnamed_devices import SampledRow, device_order
from rightsizer.telemetry.device_description import DeviceDescription, mig_profile

_LINK_ENDS: Final = ("pcie.link.gen.gpumax", "pcie.link.gen.hostmax")
"""Of the generation of a link, whose smaller one counts."""
_BATCH: Final = 256
"""Rows whose columns are read at once."""
LayoutRow: TypeAlias = tuple[RecordingRow, Sequence[str]]
"""A device's row, with the cells that it was read from."""
_MEMORY_PARTS: Final = ("memory.free", "memory.used", "memory.reserved")


class LayoutColumns(Struct, frozen=True):
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
    instance: int | None = None
    """Of the MIG instance of a device."""
    facts: Mapping[str, int] = {}
    """By nvidia-smi's names, where the whole table has them."""
    numbers: Mapping[str, Heading] = {}
    """Of facts that are numbers, with their units."""
    reasons: Mapping[int, int] = {}
    """Of clock event reasons, by their bits."""


class TableLayout:
    """Readings of a table's rows; without a column of devices, by their order."""

    def __init__(
        self,
        table: HeadedTable,
        columns: LayoutColumns,
        times: TimeColumns,
        notes: RecordingNotes,
    ) -> None:
        self._notes = notes
        self._file = table.text.name
        self._time = times
        self._columns = columns
        self._identity = (
            columns.uuid,
            columns.device,
            columns.node,
            columns.board,
            columns.instance,
        )
        constant = [at for name, at in columns.facts.items() if name in FACTS]
        places = dict.fromkeys(at for at in (*self._identity, *constant) if at is not None)
        self._cells_of = cells_at([*places])
        self._known: dict[tuple[str, tuple[str, ...]], str] = {}
        self._facts: dict[str, DeviceDescription] = {}
        # A query may have nothing but the reasons of clocks.
        by_device: dict[str | None, list[CellColumn]] = {None: []} if columns.reasons else {}
        decimal = decimal_mark(table.cells(), columns.headings)
        for at, heading in columns.headings.items():
            if heading.facts is not None and heading.device is not None:
                self._facts[heading.device] = heading.facts
            unit = heading.unit or ""
            title = table.headings[at].removeprefix(DMON_MARK)
            column = CellColumn(at, title, heading.signal, unit, decimal)
            by_device.setdefault(heading.device, []).append(column)
        self._tables = {
            device: CellTable(cell_columns) for device, cell_columns in by_device.items()
        }
        self._numbers = {
            name: CellColumn(columns.facts[name], name, heading.signal, heading.unit or "", decimal)
            for name, heading in columns.numbers.items()
        }
        columns_read = [*chain(*by_device.values()), *self._numbers.values()]
        spaced = spaced_places(table.cells, [column.index for column in columns_read])
        for column in columns_read:
            column.is_spaced = column.index in spaced
        self._order = None
        if None in self._tables and columns.uuid is None and columns.device is None:
            count_at = columns.facts.get("count")
            first = next(iter(table.cells() if count_at is not None else ()), ())
            counted = number_in(first[count_at]) if first and count_at is not None else None
            self._order = device_order(
                self._sampled(table),
                table.text.stated,
                notes,
                None if counted is None else int(counted),
            )

    def rows(self, numbered: Iterable[NumberedRow]) -> Iterator[LayoutRow]:
        """Yield a row per device, except devices whose own columns are empty, with its cells."""
        rest = iter(numbered)
        while self._tables and (batch := [*islice(rest, _BATCH)]):
            yield from self._read(batch)

    def _read(self, batch: Sequence[NumberedRow]) -> Iterator[LayoutRow]:
        rows = [cells for _, cells in batch]
        read = zip(*(table.read(rows) for table in self._tables.values()), strict=True)
        identities = map(self._cells_of, rows)
        for (line, cells), identity, read_values in zip(batch, identities, read, strict=True):
            try:
                time = self._time.parse(cells)
            except ValueError:
                # Records of other events may lack a time.
                if any(_has_cells(table, cells) for table in self._tables.values()):
                    self._notes.count("unreadable timestamp", line, self._time.text(cells))
                continue
            for (device, table), (values, missing) in zip(
                self._tables.items(), read_values, strict=True
            ):
                if device is not None and not _has_cells(table, cells):
                    continue
                named = (device or (self._order(time, line) if self._order else ""), identity)
                if (key := self._known.get(named)) is None:
                    key = self._known[named] = self._key(named[0], cells)
                if key:
                    if missing or table.has_rivals:
                        table.note(cells, line, self._notes, key)
                    yield self._row(time, key, values, missing, cells), cells
                elif _has_cells(table, cells):
                    # Records of other things may lie between those of GPUs.
                    self._notes.count("row without a device", line)

    def _row(
        self,
        time: Nanoseconds,
        device: str,
        values: Mapping[Signal, float],
        missing: Mapping[Signal, Missing],
        cells: Sequence[str],
    ) -> RecordingRow:
        workload_at = self._columns.workload
        holdings = None if workload_at is None else _holdings(cells[workload_at].strip())
        row = RecordingRow(time, device, values, missing, self._file, 0, holdings)
        if reasons := self._columns.reasons:
            row = with_clock_events(row, {bit: cells[at] for bit, at in reasons.items()})
        return row

    def _key(self, device: str, cells: Sequence[str]) -> str:
        """Return the key of a row's device, and note its facts."""
        uuid, named, node, board, instance = (
            "" if at is None or missing_cell(cells[at]) else cells[at].strip()
            for at in self._identity
        )
        index = gpu_index(named)
        by_index = named if index is None else f"{BY_INDEX}{index}"
        key = on_node(device or uuid or by_index, node)
        if key and instance:
            key = f"{key.replace(BY_INDEX, 'GPU ')} MIG {instance}"
        if key and self._columns.facts:
            self._notes.of(key).learn(self._queried_facts(key, cells))
        elif key:
            place = (device or by_index).removeprefix(BY_INDEX)
            facts = self._facts.get(device) or DeviceDescription(
                index=int(place) if place.isdecimal() else None,
                # A name may be of something else; those of boards contain digits.
                name=board if any(map(str.isdigit, board)) else None,
            )
            self._notes.of(key).learn(facts)
        return key

    def _queried_facts(self, key: str, cells: Sequence[str]) -> DeviceDescription:
        """Return what the columns of nvidia-smi tell of a device."""
        places = self._columns.facts
        texts = {
            name: cells[places[name]].strip()
            for name in ("name", "index", "pci.bus_id")
            if name in places and not missing_cell(cells[places[name]])
        }
        numbers = {
            name: value
            for name, column in self._numbers.items()
            if isinstance(value := column[cells[column.index]], float)
        }
        ends = [numbers[name] for name in _LINK_ENDS if name in numbers]
        generation = numbers.get("pcie.link.gen.max", min(ends, default=None))
        width = numbers.get("pcie.link.width.max")
        is_whole = {*_MEMORY_PARTS[:2]} <= numbers.keys() and "memory.total" not in places
        parts = [numbers.get(name, 0.0) for name in _MEMORY_PARTS if is_whole]
        index = number_in(texts.get("index", ""))
        return DeviceDescription(
            index=None if index is None else int(index),
            name=texts.get("name"),
            pci_bus_id=texts.get("pci.bus_id"),
            power_limit_watts=numbers.get("power.default_limit"),
            memory_total_bytes=sum(parts) or None,
            pcie_generation_maximum=None if generation is None else int(generation),
            pcie_width_maximum=None if width is None else int(width),
            mig_profile=mig_profile(texts.get("name")) if key.startswith("MIG-") else None,
        )

    def _sampled(self, table: HeadedTable) -> Iterator[SampledRow]:
        """Yield rows without a device for the search of their order."""
        times = self._time.again(RecordingNotes(self._file))
        for cells in table.cells():
            with contextlib.suppress(ValueError):
                time = times.parse(cells)
                values, _ = next(self._tables[None].read([cells]))
                yield SampledRow(time, values, self._cells_of(cells))


def _has_cells(table: CellTable, cells: Sequence[str]) -> bool:
    """Whether any column has a cell that is not blank."""
    return any(cells[column.index].strip() for column in table.columns)


def _holdings(name: str) -> tuple[Holding, ...]:
    holder = Workload(f"recorded:{name}", WorkloadKind.RECORDED, name)
    return (Holding(holder, 1.0),) if name else ()
