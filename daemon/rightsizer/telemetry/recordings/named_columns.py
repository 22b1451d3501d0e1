"""CSV whose headings name content and GPU of each column in words, or are series."""

import contextlib
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from itertools import islice
from typing import Any, Final, NamedTuple

from rightsizer.io.yaml import load_beside
from rightsizer.model.dcgm_fields import DCGM_FIELDS
from rightsizer.model.device import BY_INDEX
from rightsizer.model.signal import Signal
from rightsizer.model.units import Nanoseconds, Unit
from rightsizer.telemetry.dcgm.series import DcgmSeries, interpret
from rightsizer.telemetry.recordings.nvidia_smi_columns import column_name, signal_columns
from rightsizer.telemetry.recordings.prometheus_text import named_line
from rightsizer.telemetry.recordings.row import RecordingDeviceFacts, RecordingNotes, RecordingRow
from rightsizer.telemetry.recordings.table import CellColumn, CellTable, sampled_rows
from rightsizer.telemetry.recordings.text_file import (
    RecordingFormat,
    TextFile,
    delimiter_of,
    split_csv_line,
)
from rightsizer.telemetry.recordings.timestamps import (
    CLOCKS_SET,
    EPOCH_UNITS,
    parse_epoch,
    parse_timestamp,
)
from rightsizer.telemetry.recordings.unnamed_devices import device_order

_WORD: Final = re.compile(r"%|[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+")
_UNIT_CASE: Final = re.compile("iB|[mk][WB]|Hz")
"""Units that are one word in spite of their capitals."""
_LOADED: Final[Mapping[str, Any]] = load_beside(__file__, "headings.yaml")
_UNITS, _SYNONYMS = (
    {word: meaning for meaning, words in _LOADED[section].items() for word in words}
    for section in ("units", "synonyms")
)
_FILLERS, _VAGUE, _OF_GPUS, _OF_HOSTS = (
    frozenset(_LOADED[section]) for section in ("fillers", "vague", "gpus", "hosts")
)
_TIMES, _DEVICES, _UUIDS, _NAMES, _NODES = (
    frozenset(_LOADED[section]) for section in ("times", "devices", "uuids", "names", "nodes")
)
_SIGNALS: Final = {
    frozenset(words.split()): (column.signal, column.unit)
    for words, column in signal_columns("words").items()
}
"""By significant words of a heading; an empty unit is stated or inferred."""
_DEVICE_WORDS: Final = frozenset({"gpu", "cuda", "card", "device"})
_INDEX: Final = re.compile(r"(?:gpu|cuda|card|device|nvidia)?[\s_:/#-]*(\d+)", re.IGNORECASE)
_FOR_EXCEL: Final = "sep="
_ADD_UNIT: Final = "add it to the heading, like util_pct or memory_used_mib"
_NAMED: Final = "--fields timestamp,gpu_index,util_pct,memory_used_gib,x"
_REMEDY: Final = "where that is wrong, give a column map (--columns)"
_NUMBER: Final = re.compile(r"-?\d+(?:[.,]\d+)? ?%?")
_DIGITS: Final = re.compile(r"\d+")
_SAMPLED: Final = 10_000
"""Rows by which missing units are inferred."""
_BYTES_FROM: Final = 2**24
"""Maximum from which memory must be in bytes: as MiB it would be 16 TiB."""
_MILLIWATTS_FROM: Final = 5000
"""Maximum from which power must be in NVML's milliwatts: no board draws as many watts."""
_MIB_FROM: Final = 512
"""Maximum from which memory must be in MiB: no board has as many GiB; below, it is ambiguous."""


class _Heading(NamedTuple):
    """Content of a column: a signal of a device, or of the row's device."""

    signal: Signal
    unit: str | None
    device: str | None = None
    facts: RecordingDeviceFacts | None = None


def _words(heading: str) -> list[str]:
    plain = _UNIT_CASE.sub(lambda unit: unit[0].lower(), heading)
    return [word.lower() for word in _WORD.findall(plain)]


def _heading(text: str, *, is_of_host: bool) -> _Heading | None:
    """Interpret a heading's words; `None` unless it is about a GPU."""
    words, device, facts = _words(text), None, None
    if len(words) > 1 and words[0] in _DEVICE_WORDS and words[1].isdecimal():
        facts = RecordingDeviceFacts(index=int(words[1]))
        device, words = f"{BY_INDEX}{facts.index}", words[2:]
    unit = next((_UNITS[word] for word in words if word in _UNITS), None)
    said = {_SYNONYMS.get(word, word) for word in words if word not in _UNITS}
    signal, usual = _SIGNALS.get(frozenset(said - _FILLERS), (None, None))
    names_gpu = device is not None or not _OF_GPUS.isdisjoint(words)
    if signal is None or not (names_gpu or not (is_of_host or said <= _VAGUE)):
        return None
    if signal is Signal.MEMORY_USED_BYTES and unit in ("%", "ratio"):
        signal = Signal.MEMORY_USED
    return _Heading(signal, unit or usual or None, device, facts)


def _series_heading(text: str) -> _Heading | None:
    """Parse name and labels of a series, as in Grafana's exports."""
    if "{" not in text:
        return None
    try:
        series = interpret(named_line(text))
    except ValueError:
        return None
    if not isinstance(series, DcgmSeries) or series.signal is None:
        return None
    field = DCGM_FIELDS.get(series.metric)
    unit = series.signal.unit.value if field is None else field.unit
    return _Heading(series.signal, unit, series.device, series.facts)


def _headings(head: Sequence[str]) -> tuple[str, list[str]]:
    """Return the line of headings, after a directive for Excel, with its cells."""
    line = next((line for line in head if not line.startswith(_FOR_EXCEL)), "")
    return line, [cell.strip() for cell in split_csv_line(line, delimiter_of(line))]


def _read_headings(headings: Sequence[str]) -> dict[int, _Heading]:
    """Return the content of columns by position; the first of several for a signal."""
    is_of_host = any(
        not _OF_HOSTS.isdisjoint(words := _words(text)) and " ".join(words) not in _NODES
        for text in headings
    )
    found: dict[tuple[str | None, Signal], tuple[int, _Heading]] = {}
    for at, text in enumerate(headings):
        said = _series_heading(text) or _heading(text, is_of_host=is_of_host)
        if said is not None:
            found.setdefault((said.device, said.signal), (at, said))
    return dict(found.values())


def _of_named_devices(
    read: dict[int, _Heading], headings: Sequence[str], notes: RecordingNotes
) -> dict[int, _Heading]:
    """If some headings name their GPU, assign others to the only named one, else to none."""
    devices = {said.device: said.facts for said in read.values() if said.device is not None}
    unnamed = {at: said for at, said in read.items() if said.device is None}
    if not devices or not unnamed:
        return read
    named = {at: said for at, said in read.items() if at not in unnamed}
    if len(devices) > 1:
        left = ", ".join(f"'{headings[at]}'" for at in unnamed)
        notes.remark(f"which GPU {left} is of is not known, and it is left out")
        return named
    ((device, facts),) = devices.items()
    known = {said.signal for said in named.values()}
    joined = {
        at: said._replace(device=device, facts=facts)
        for at, said in unnamed.items()
        if said.signal not in known
    }
    return named | joined


def _place(headings: Sequence[str], names: AbstractSet[str]) -> int | None:
    return next((at for at, text in enumerate(headings) if " ".join(_words(text)) in names), None)


def _time_places(headings: Sequence[str]) -> Sequence[int]:
    """Return the positions of the time, or of date and time of day; empty without one."""
    apart = [at for name in ("date", "time") if (at := _place(headings, {name})) is not None]
    first = _place(headings, _TIMES)
    return apart if len(apart) > 1 or first is None else (first,)


def _recognizes(head: Sequence[str]) -> bool:
    _, headings = _headings(head)
    if not _time_places(headings) or Signal.GPU_BUSY in headings:
        return False
    if any(column_name(text) == "utilization.gpu" for text in headings):
        return False
    return any(
        said.signal is Signal.GPU_BUSY or "{" in headings[at]
        for at, said in _read_headings(headings).items()
    )


def _rows(text: TextFile, notes: RecordingNotes) -> Iterator[RecordingRow]:
    line, headings = _headings(text.head)
    layout = _Layout(text, headings, delimiter_of(line), notes)
    for number, written in text.lines(notes):
        cells = split_csv_line(written, layout.delimiter)
        if written.startswith(_FOR_EXCEL) or written.strip() == line:
            continue
        if len(cells) != len(headings):
            notes.skip(number, written)
            continue
        try:
            time = layout.time_of(cells)
        except ValueError:
            notes.count("unreadable timestamp", number, layout.time_text(cells))
            continue
        yield from layout.rows(cells, time, number)


NAMED_CSV: Final = RecordingFormat("CSV with columns named for GPUs", _recognizes, _rows)
"""Logs of scripts and exports of Grafana; a row per GPU, or all GPUs in one row."""


def stated_fields(head: Sequence[str]) -> str:
    """Return `--fields` and `--device` for a CSV without GPU metrics in its headings.

    A time and the last number beside it, as utilization, or all numbers whose headings differ in
    their digits alone; empty where no line has both.
    """
    _, headings = _headings(head)
    lines = (split_csv_line(line, delimiter_of(head[0])) for line in head)
    rows = [[cell.strip() for cell in cells] for cells in lines if any(map(_is_time, cells))]
    first = rows[0] if rows else []
    time_at = next((at for at, cell in enumerate(first) if _is_time(cell)), None)
    numbers = [at for at, cell in enumerate(first) if at != time_at and _NUMBER.fullmatch(cell)]
    if time_at is None or not numbers:
        return ""
    is_titled = len(headings) == len(first) and [each.strip() for each in headings] != first
    titles = headings if is_titled else [""] * len(first)
    names = {time_at: "timestamp", numbers[-1]: "util_pct"}
    digits = [_DIGITS.findall(titles[at]) for at in numbers]
    if (device_at := _place(titles, _DEVICES)) is None:
        poll = [row for row in rows if row[time_at : time_at + 1] == [first[time_at]]]
        columns = enumerate(zip(*poll, strict=False))
        telling = (at for at, cells in columns if len({*cells}) == len(cells) > 1)
        device_at = next((at for at in telling if at not in names), None)
    if device_at is not None:
        names[device_at] = "gpu_index"
    elif all(digits) and len({_DIGITS.sub("", titles[at]) for at in numbers}) < len(numbers):
        names |= {at: f"gpu{each[-1]}_util_pct" for at, each in zip(numbers, digits, strict=True)}
    stated = ",".join(names.get(at, "x") for at in range(len(first)))
    return f"--fields {stated}" + ("" if "gpu" in stated else " --device 0")


def _is_time(cell: str) -> bool:
    """Whether a cell is a date with time, or an epoch with as many digits as today's."""
    try:
        return parse_timestamp(cell) >= CLOCKS_SET
    except ValueError:
        return False


class _Layout:
    """Columns of a file by device."""

    def __init__(
        self, text: TextFile, headings: Sequence[str], delimiter: str, notes: RecordingNotes
    ) -> None:
        self.delimiter, self._notes, self._file = delimiter, notes, text.name
        self._times = _time_places(headings)
        # What counts from 0 on tells its unit by the heading alone.
        self._unit = EPOCH_UNITS.get(_words(headings[self._times[0]])[-1])
        self._node_at = _place(headings, _NODES)
        uuid_at = _place(headings, _UUIDS)
        self._device_at = _place(headings, _DEVICES) if uuid_at is None else uuid_at
        self._name_at = _place(headings, _NAMES)
        self._tables: dict[str | None, CellTable] = {}
        self._facts: dict[str, RecordingDeviceFacts] = {}
        columns: dict[str | None, list[CellColumn]] = {}
        texts: dict[Signal, str] = {}
        read = _read_headings(headings)
        if self._device_at is None:
            read = _of_named_devices(read, headings, notes)
        units = _found_units(text, read, delimiter)
        for at, said in read.items():
            heading, unit = headings[at], said.unit or units[said.signal]
            if unit is None:
                ending = "_pct" if said.signal is Signal.GPU_BUSY else "_mib"
                stated = ",".join([*headings[:at], f"{heading}{ending}", *headings[at + 1 :]])
                notes.remark(
                    f"the unit of '{heading}' is not known, it is left out; {_ADD_UNIT}, or state "
                    f"it with --fields '{stated}'"
                )
                continue
            if said.facts is not None and said.device is not None:
                self._facts[said.device] = said.facts
            if "{" not in heading:
                texts.setdefault(said.signal, f"'{heading}' as {said.signal} in {unit}")
            column = CellColumn(at, heading, said.signal, unit)
            columns.setdefault(said.device, []).append(column)
        if texts:
            left = (f"'{each}'" for at, each in enumerate(headings) if at not in read)
            unread = ", ".join(each for each in left if _UNITS.keys() & {*_words(each)})
            notes.remark(
                f"columns are read by their names: {', '.join(texts.values())}; {_REMEDY}"
                + (f"; left out: {unread}; name what is of a GPU, as by {_NAMED}" if unread else "")
            )
        self._tables = {device: CellTable(found) for device, found in columns.items()}
        self._order = None
        if None in self._tables and self._device_at is None:
            sample = sampled_rows(
                text,
                self._tables[None],
                self.time_of,
                width=len(headings),
                delimiter=delimiter,
            )
            self._order = device_order(sample, text.stated, notes)

    def time_text(self, cells: Sequence[str]) -> str:
        """Return the time of a row as written, with its date first."""
        return " ".join(cells[at].strip() for at in self._times)

    def time_of(self, cells: Sequence[str]) -> Nanoseconds:
        """Return the time of a row; raise `ValueError` for an invalid one."""
        text = self.time_text(cells)
        if self._unit is not None:
            with contextlib.suppress(ValueError):
                return parse_epoch(text, self._unit)
        return parse_timestamp(text)

    def rows(self, cells: Sequence[str], time: Nanoseconds, line: int) -> Iterator[RecordingRow]:
        """Yield a row per device, except devices whose own columns are empty."""
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
            if key not in self._notes.facts:
                self._notes.learn(key, self._facts.get(named) or self._learned(cells, named))
            yield RecordingRow(time, key, values, missing, self._file)

    def _named(self, cells: Sequence[str], time: Nanoseconds, line: int) -> str:
        """Return the device of a row about one."""
        if self._device_at is None:
            return "" if self._order is None else self._order(time, None, line)
        cell = cells[self._device_at].strip()
        found = _INDEX.fullmatch(cell)
        return f"{BY_INDEX}{int(found[1])}" if found else cell

    def _learned(self, cells: Sequence[str], device: str) -> RecordingDeviceFacts:
        name = "" if self._name_at is None else cells[self._name_at].strip()
        index = device.removeprefix(BY_INDEX)
        return RecordingDeviceFacts(
            index=int(index) if index.isdecimal() else None,
            # InfluxDB's 'name' is the measurement's; board names contain digits.
            name=name if any(map(str.isdigit, name)) else None,
        )


def _found_units(
    text: TextFile, read: Mapping[int, _Heading], delimiter: str
) -> dict[Signal, str | None]:
    """Infer missing units from the numbers in the first rows."""
    values: dict[Signal, list[float]] = {said.signal: [] for said in read.values()}
    if all(said.unit for said in read.values()):
        return dict.fromkeys(values)
    for _, line in islice(text.lines(RecordingNotes(text.name)), _SAMPLED):
        cells = split_csv_line(line, delimiter)
        for at, said in read.items():
            if said.unit is None:
                with contextlib.suppress(ValueError, IndexError):
                    number = cells[at].strip().partition(" ")[0].replace(",", ".")
                    values[said.signal].append(float(number))
    return {
        signal: _likely_unit(signal, [*filter(math.isfinite, found)])
        for signal, found in values.items()
    }


def _likely_unit(signal: Signal, values: Sequence[float]) -> str | None:
    most = max(values, default=0.0)
    if signal.unit is Unit.WATTS:
        return "mW" if most >= _MILLIWATTS_FROM else "W"
    if signal is Signal.GPU_BUSY:
        is_ratio = most <= 1.0 and any(value % 1.0 for value in values)
        return "ratio" if is_ratio else "%" if most > 1.0 else None
    return "bytes" if most >= _BYTES_FROM else "MiB" if most >= _MIB_FROM else None
