"""Layout of tables whose headings name content and GPU of each column, in words or as series."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

from rightsizer.io.near import near_words
from rightsizer.model.values import EvidenceKind, RecordingError, Signal
from rightsizer.recordings.column_choice import DeviceScores
from rightsizer.recordings.headed_table import (
    QUERY,
    HeadedTable,
    TimeColumns,
    UnitSample,
    with_units_of_cells,
)
from rightsizer.recordings.heading_words import (
    BUS_IDS,
    DEVICES,
    INSTANCES,
    NAMES,
    NODES,
    PIDS,
    UUIDS,
    Heading,
    heading_of,
    memory_names,
    names_gpu,
    place_of,
    places_of,
    read_headings,
    stated_unit,
    time_places,
    unread_headings,
)
from rightsizer.recordings.nvidia_smi_columns import (
    FACT_COLUMNS,
    IDENTITY,
    REASON_BITS,
    SIGNAL_COLUMNS,
    column_name,
    is_query_heading,
)
from rightsizer.recordings.process_rows import PARTS
from rightsizer.recordings.row import RecordingNotes
from rightsizer.recordings.table import decimal_mark, joined_thousands, spaced_places
from rightsizer.recordings.table_layout import LayoutColumns

_OTHER_SIGNALS: Final = {*Signal} - {Signal.POWER}
_BUSY: Final = (Signal.GPU_BUSY, Signal.SM_ACTIVE)
_QUERIED: Final = {**FACT_COLUMNS, **SIGNAL_COLUMNS}
_QUERY_NAMES: Final = (*_QUERIED, *(f"clocks.current.{clock}" for clock in ("sm", "gr", "mem")))
_MISSPELLED: Final = 0.9
"""Likeness from which a heading is a misspelled column.

Source: no column of `nvidia-smi --help-query-gpu` (580) that is not read is as like one that is."""
_ADD_UNIT: Final = "add it to the heading, like util_pct or memory_used_mib"
_REMEDY: Final = "where that is wrong, give a column map (--columns)"
_REMEDY_OF_JSON: Final = "where that is wrong, write it as CSV (docs/recordings.md)"


def _of_named_devices(
    read: dict[int, Heading], headings: Sequence[str], notes: RecordingNotes
) -> dict[int, Heading]:
    """If some headings name their GPU, assign others to the only named one, else to none."""
    devices = {
        heading.device: heading.facts for heading in read.values() if heading.device is not None
    }
    unnamed = {at: heading for at, heading in read.items() if heading.device is None}
    if not devices or not unnamed:
        return read
    named = {at: heading for at, heading in read.items() if at not in unnamed}
    if len(devices) > 1:
        left = ", ".join(f"'{headings[at]}'" for at in unnamed)
        notes.remark(f"which GPU {left} is of is not known, and it is left out")
        return named
    ((device, facts),) = devices.items()
    signals = {heading.signal for heading in named.values()}
    joined = {
        at: heading._replace(device=device, facts=facts)
        for at, heading in unnamed.items()
        if heading.signal not in signals
    }
    return named | joined


def has_named_columns(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> bool:
    """Whether there are a time and the load of a GPU, or columns of a known program.

    Power alone tells no state, but energy; it may be that of a host unless a GPU is named, and
    memory is that of processes.
    """
    if not time_places(headings):
        return False
    has_devices = place_of(headings, DEVICES | UUIDS | BUS_IDS) is not None
    has_processes = has_devices and place_of(headings, PIDS) is not None
    columns = read_headings(with_units_of_cells(headings, rows)).items()
    return any(
        heading.signal in _BUSY
        or (heading.signal is Signal.MEMORY_USED_BYTES and has_processes)
        or (heading.signal is Signal.POWER_WATTS and (has_devices or names_gpu(headings[at])))
        or (heading.is_exact and column_name(headings[at]) not in SIGNAL_COLUMNS)
        for at, heading in columns
    )


def are_signals(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> bool:
    """Whether headings are our own names of signals, in base units, beside time and device."""
    names = {*headings}
    # Others name power in watts like our share of the limit.
    return "timestamp" in names and (
        Signal.GPU_BUSY in names
        or (not names.isdisjoint(_OTHER_SIGNALS) and not has_named_columns(headings, rows))
    )


def are_queried(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> bool:
    """Whether all that headings say of GPUs is in the words of `nvidia-smi --query-gpu`."""
    names = [*map(column_name, headings)]
    return bool(time_places(headings) and is_query_heading(headings)) and (
        all(
            name in SIGNAL_COLUMNS or name in IDENTITY or heading_of(heading) is None
            for name, heading in zip(names, headings, strict=True)
        )
        or not has_named_columns(headings, rows)
    )


def _signal_columns(headings: Sequence[str], notes: RecordingNotes) -> LayoutColumns:
    for name in {*headings} - {*Signal, "timestamp", "device", "workload"}:
        near = near_words(name, [*Signal])
        hint = f"; did you mean '{near[0]}'?" if near else ""
        notes.remark(f"column '{name}' is not a signal and is left out{hint}")
    signals = (Signal(name) if name in {*Signal} else None for name in headings)
    return LayoutColumns(
        {at: Heading(signal, signal.unit) for at, signal in enumerate(signals) if signal},
        uuid=place_of(headings, {"device"}),
        workload=place_of(headings, {"workload"}),
    )


def _queried_headings(
    names: Mapping[int, str], table: HeadedTable, notes: RecordingNotes
) -> dict[int, Heading]:
    """Return nvidia-smi's columns; rows are searched only where a unit is not its own."""
    read: dict[int, Heading] = {}
    for at, name in names.items():
        column = _QUERIED[name]
        unit = stated_unit(table.headings[at], column)
        if unit is None:
            notes.remark(
                f"'{table.headings[at]}' has no unit of {column.signal} and is left out; "
                f"the usual one is {column.unit}"
            )
        else:
            read[at] = Heading(column.signal, unit, is_exact=unit == column.unit)
    units = _Units(read, table)
    for cells in table.cells() if units.are_wanted else ():
        units.add(cells)
    return _with_units(read, table, units, notes)


def _queried_columns(table: HeadedTable, notes: RecordingNotes) -> LayoutColumns:
    headings = table.headings
    names = [*map(column_name, headings)]
    at: dict[str, int] = {}
    for place, name in enumerate(names):
        if at.setdefault(name, place) != place and name in SIGNAL_COLUMNS:
            notes.remark(
                f"'{headings[place]}' repeats '{headings[at[name]]}', and is read where that is "
                "empty"
            )
    queried = sorted(
        (place for place, name in enumerate(names) if name in _QUERIED),
        key=lambda place: (_QUERIED[names[place]].rank, at[names[place]], -place),
    )
    reasons = {int(bit): at[name] for name, bit in REASON_BITS.items() if name in at}
    if SIGNAL_COLUMNS.keys().isdisjoint(names) and not reasons:
        raise RecordingError(
            f"{table.text.name}: none of the columns {', '.join(headings)} tells how busy a GPU "
            f"is; {QUERY}"
        )
    identity = next((name for name in IDENTITY if name in at), "index")
    read = _queried_headings({place: names[place] for place in queried}, table, notes)
    signals = {place: read[place] for place in read if names[place] in SIGNAL_COLUMNS}
    _remark_words(signals, table, notes)
    return LayoutColumns(
        signals,
        uuid=None if identity == "index" else at[identity],
        device=at.get("index", place_of(headings, DEVICES)),
        node=place_of(headings, NODES),
        facts=at,
        numbers={name: read[at[name]] for name in FACT_COLUMNS if at.get(name) in read},
        reasons={} if "clocks_event_reasons.active" in at else reasons,
    )


def named_columns(table: HeadedTable, times: TimeColumns, notes: RecordingNotes) -> LayoutColumns:
    """Return the columns of a table by their names, with a remark where words tell them."""
    headings = table.headings
    if are_signals(headings, table.cells()):
        return _signal_columns(headings, notes)
    if are_queried(headings, table.cells()):
        return _queried_columns(table, notes)
    uuid, device, node, board = (place_of(headings, of) for of in (UUIDS, DEVICES, NODES, NAMES))
    if uuid is None and device is None:
        uuid = place_of(headings, BUS_IDS)
    read = read_headings(with_units_of_cells(headings, table.cells()))
    is_open = uuid is None and not any(heading.device for heading in read.values())
    others = {*times.places, *read, node, board}
    # Names of processes separate the rows of a GPU.
    if place_of(headings, PIDS) is not None:
        others.update(range(len(headings)))
    scores = DeviceScores(places_of(headings, DEVICES), others, times.text)
    units = _Units(read, table, device if uuid is None else uuid)
    for cells in table.cells() if is_open or units.are_wanted else ():
        units.add(cells)
        if is_open:
            scores.add(cells)
    instance = None
    if is_open:
        device = _device_place(headings, scores, notes)
        # One of each row is a flag, or tells nothing more.
        if device is not None and not scores.is_apart(device):
            instance = place_of(headings, INSTANCES)
    if uuid is None and device is None:
        read = _of_named_devices(read, headings, notes)
    signal_columns = _with_units(read, table, units, notes)
    _remark_words(signal_columns, table, notes)
    return LayoutColumns(signal_columns, uuid, device, node, board, instance=instance)


def _device_place(
    headings: Sequence[str], scores: DeviceScores, notes: RecordingNotes
) -> int | None:
    """Return the column that separates devices, and remark on one that is not named for it."""
    at = scores.choice()
    candidates = scores.candidates
    if at is not None and at not in candidates[:1]:
        runner_up = (
            f", not '{headings[candidates[0]]}', which separates "
            f"{scores.separation(candidates[0]):.0%} of the rows of a poll"
            if candidates
            else ""
        )
        notes.remark(f"GPUs are told apart by '{headings[at]}'{runner_up}", EvidenceKind.READ)
    return at


def _with_units(
    read: dict[int, Heading],
    table: HeadedTable,
    units: "_Units",
    notes: RecordingNotes,
) -> dict[int, Heading]:
    """Return the columns whose units are known, with them."""
    with_units: dict[int, Heading] = {}
    for at, heading in read.items():
        # The size of the whole memory never changes.
        if heading.is_bare and not units.has_varying:
            continue
        if (unit := units.sample.unit_of(heading)) is not None:
            with_units[at] = heading._replace(unit=unit)
            continue
        title = table.headings[at]
        ending = "_pct" if heading.signal is Signal.GPU_BUSY else "_mib"
        stated = _stated_fields(table, {at: f"{title}{ending}"}, heading.signal)
        notes.remark(
            f"the unit of '{title}' is not known, it is left out; {_ADD_UNIT}"
            + (f", or state it with {stated}" if stated else "")
        )
    return with_units


def _stated_fields(table: HeadedTable, names: Mapping[int, str], signal: Signal) -> str:
    """Return `--fields` that read a signal by other names of some columns; empty without such."""
    fields = ",".join(names.get(at, text) for at, text in enumerate(table.headings))
    is_whole = table.is_csv and fields.count(",") + 1 == len(table.headings)
    read = read_headings(fields.split(",")).values() if is_whole and names else ()
    is_read = any(heading.signal is signal and heading.unit for heading in read)
    return f"--fields '{fields}'" if is_read else ""


def _remark_misspelled(
    read: Collection[int], headings: Sequence[str], notes: RecordingNotes
) -> list[int]:
    """Name the unread headings of a query that are like one of its columns; return their places."""
    misspelled = []
    names = [*map(column_name, headings)] if is_query_heading(headings) else []
    for at, name in enumerate(names):
        if at in read or name in _QUERIED or "." not in name:
            continue
        if near := near_words(name, _QUERY_NAMES, likeness=_MISSPELLED):
            misspelled.append(at)
            notes.remark(f"'{headings[at]}' is left out; did you mean '{near[0]}'?")
    return misspelled


def _remark_words(read: Mapping[int, Heading], table: HeadedTable, notes: RecordingNotes) -> None:
    misspelled = _remark_misspelled(read, table.headings, notes)
    texts: dict[Signal, str] = {}
    has_processes = place_of(table.headings, PIDS) is not None
    for at, heading in read.items():
        is_part = has_processes and column_name(table.headings[at]) in PARTS
        if not (heading.is_exact or is_part):
            text = f"'{table.headings[at]}' as {heading.signal} in {heading.unit}"
            texts.setdefault(heading.signal, text)
    if not texts:
        return
    remedy = _REMEDY if table.is_csv else _REMEDY_OF_JSON
    read_as = f"columns are read by their names: {', '.join(texts.values())}; {remedy}"
    notes.remark(read_as, EvidenceKind.READ)
    if unread := unread_headings(table.headings, {*read, *misspelled}):
        names = memory_names(table.headings, unread)
        fields = _stated_fields(table, names, Signal.MEMORY_USED_BYTES)
        notes.remark(
            f"left out: {', '.join(map(repr, unread))}"
            + (f"; if it is used memory, say so: {fields}" if fields else "")
        )


class _Units:
    """Numbers of all rows by which missing units are inferred."""

    def __init__(
        self, read: Mapping[int, Heading], table: HeadedTable, device_at: int | None = None
    ) -> None:
        self.sample = UnitSample(decimal_mark(table.cells(), read))
        self.has_varying = False
        """Whether bare memory ever varies for a device."""
        self._device_at = device_at
        self._wanted = {
            at: heading
            for at, heading in read.items()
            if not heading.is_exact or heading.unit is None
        }
        if self._wanted:
            self._wanted |= {
                at: heading
                for at, heading in read.items()
                if heading.signal is Signal.MEMORY_TOTAL_BYTES
            }
        self._spaced = spaced_places(table.cells, self._wanted) if self._wanted else frozenset()
        self._last: dict[tuple[int, str], float] = {}

    @property
    def are_wanted(self) -> bool:
        """Whether any unit is open."""
        return bool(self._wanted)

    def add(self, cells: Sequence[str]) -> None:
        """Add a row."""
        for at, heading in self._wanted.items():
            cell = joined_thousands(cells[at]) if at in self._spaced else cells[at]
            number = self.sample.add(heading, cell)
            if number is not None and heading.is_bare:
                key = at, "" if self._device_at is None else cells[self._device_at]
                self.has_varying |= self._last.setdefault(key, number) != number
