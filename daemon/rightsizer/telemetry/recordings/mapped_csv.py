"""Any CSV through a column map in YAML."""

from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import Any, Final

from rightsizer.io.near import near_words
from rightsizer.io.yaml import Document, YamlError, load_yaml
from rightsizer.model.errors import ConfigurationError, RecordingError
from rightsizer.model.frozen import dataclass
from rightsizer.model.signal import Signal, in_unit
from rightsizer.model.units import convert
from rightsizer.telemetry.recordings.row import RecordingNotes, RecordingRow
from rightsizer.telemetry.recordings.table import CellColumn, csv_rows, split_csv_line
from rightsizer.telemetry.recordings.text_file import RecordingFormat, TextFile
from rightsizer.telemetry.recordings.timestamps import EPOCH_UNITS, parse_calendar, parse_epoch

_TIME_UNITS: Final = (*EPOCH_UNITS, "iso")
_KEYS: Final = ("time", "device", "workload", "files")


@dataclass(frozen=True, slots=True)
class MappedColumn:
    """A column that holds a signal."""

    column: str
    signal: Signal
    unit: str


@dataclass(frozen=True, slots=True)
class ColumnMap:
    """Where a recording's CSV files keep what."""

    name: str
    time_column: str
    time_unit: str
    device_column: str | None
    """`None` for a log of one GPU, or of several in an order that does not change."""
    workload_column: str | None
    files: tuple[tuple[str, tuple[MappedColumn, ...]], ...]
    """Columns by a pattern of file names; the first pattern that fits counts."""

    def columns_of(self, file: Path) -> tuple[MappedColumn, ...] | None:
        """The columns of a file by its name, `None` where no pattern fits."""
        fitting = (columns for pattern, columns in self.files if fnmatchcase(file.name, pattern))
        return next(fitting, None)


def load_column_map(path: Path) -> ColumnMap:
    """Read a column map; one with faults is refused, each named with its place."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "is not text"
        raise ConfigurationError(
            f"{path}: {reason}; give a column map like those in config/columns"
        ) from None
    try:
        document = load_yaml(text, str(path))
    except YamlError as error:
        raise ConfigurationError(f"{error}; a column map is a YAML file") from None
    checked = _ColumnMapParser(document)
    found = checked.column_map()
    if found is None:
        raise ConfigurationError("\n".join(checked.faults))
    return found


class _ColumnMapParser:
    """Reads a document and keeps all its faults."""

    def __init__(self, document: Document) -> None:
        self._document = document
        self.faults: list[str] = []

    def column_map(self) -> ColumnMap | None:
        data = self._mapping(self._document.data, (), _KEYS)
        time = self._mapping(data.get("time"), ("time",), ("column", "unit"))
        found = ColumnMap(
            name=self._document.name,
            time_column=self._text(time, "column", ("time",)),
            time_unit=self._one_of(time, "unit", ("time",), _TIME_UNITS),
            device_column=self._text(data, "device", ()) if "device" in data else None,
            workload_column=self._text(data, "workload", ()) if "workload" in data else None,
            files=self._files(data.get("files")),
        )
        return None if self.faults else found

    def _files(self, data: Any) -> tuple[tuple[str, tuple[MappedColumn, ...]], ...]:
        files = self._mapping(data, ("files",), None)
        if not files and not self._has_fault(("files",)):
            self._fault(("files",), "names no file", "add a pattern like '*.csv*'")
        return tuple(
            (str(pattern), self._columns(columns, ("files", str(pattern))))
            for pattern, columns in files.items()
        )

    def _columns(self, data: Any, path: tuple[str, ...]) -> tuple[MappedColumn, ...]:
        columns = self._mapping(data, path, None)
        found = []
        for name, entry in columns.items():
            at = (*path, str(name))
            fields = self._mapping(entry, at, ("signal", "unit"))
            signal = self._one_of(fields, "signal", at, tuple(Signal))
            unit = self._text(fields, "unit", at)
            if not signal or not unit:
                continue
            held = self._held(Signal(signal), unit, at)
            if held is not None:
                found.append(MappedColumn(str(name), held, unit))
        return tuple(found)

    def _held(self, signal: Signal, unit: str, path: tuple[str, ...]) -> Signal | None:
        try:
            return in_unit(signal, convert(unit)[0])
        except KeyError:
            usual = signal.unit
            self._fault((*path, "unit"), f"'{unit}' is not a unit", f"'{signal}' is in {usual}")
        except ValueError as error:
            self._fault((*path, "unit"), str(error), "name the unit that the column is in")
        return None

    def _mapping(
        self, data: Any, path: tuple[str, ...], keys: tuple[str, ...] | None
    ) -> dict[Any, Any]:
        if not isinstance(data, dict):
            wanted = f"write {{{', '.join(keys)}}} below it" if keys else "write names below it"
            self._fault(path, "is missing" if data is None else "is not a mapping", wanted)
            return {}
        for key in data if keys is not None else ():
            if key not in (keys or ()):
                self._fault((*path, str(key)), "is not known here", _nearest(str(key), keys or ()))
        return data

    def _text(self, data: dict[Any, Any], key: str, path: tuple[str, ...]) -> str:
        value = data.get(key)
        if isinstance(value, str | int | float) and str(value):
            return str(value)
        if not self._has_fault(path) or data:
            self._fault((*path, key), "is missing" if value is None else "is not a name", "name it")
        return ""

    def _one_of(
        self, data: dict[Any, Any], key: str, path: tuple[str, ...], known: Iterable[str]
    ) -> str:
        value = self._text(data, key, path)
        names = tuple(str(name) for name in known)
        if value and value not in names:
            self._fault((*path, key), f"'{value}' is not known", _nearest(value, names))
            return ""
        return value

    def _has_fault(self, path: tuple[str, ...]) -> bool:
        return any(f": {_key(path)}: " in fault for fault in self.faults)

    def _fault(self, path: tuple[str, ...], what: str, remedy: str) -> None:
        self.faults.append(f"{self._document.where(path)}: {_key(path)}: {what}; {remedy}")


def _key(path: tuple[str, ...]) -> str:
    return ".".join(path) or "column map"


def _nearest(name: str, known: Iterable[str]) -> str:
    names = tuple(known)
    near = near_words(name, names)
    return f"did you mean '{near[0]}'?" if near else f"known are {', '.join(names)}"


def mapped_csv(column_map: ColumnMap, columns: Sequence[MappedColumn]) -> RecordingFormat:
    """The format of the files that one pattern of a column map fits, whatever they look like."""

    def rows(text: TextFile, notes: RecordingNotes) -> Iterator[RecordingRow]:
        names = [cell.strip() for cell in split_csv_line(text.head[0])]

        def place(column: str) -> int:
            if column in names:
                return names.index(column)
            raise RecordingError(
                f"{text.name}:1: there is no column '{column}', which {column_map.name} names; "
                f"the columns are {', '.join(names)}"
            )

        unit, workload = column_map.time_unit, column_map.workload_column
        device = column_map.device_column
        return csv_rows(
            text,
            notes,
            time=place(column_map.time_column),
            parse_time=parse_calendar
            if unit == "iso"
            else partial(parse_epoch, unit=EPOCH_UNITS[unit]),
            device=None if device is None else place(device),
            workload=None if workload is None else place(workload),
            columns=[
                CellColumn(place(each.column), each.column, each.signal, each.unit)
                for each in columns
            ],
        )

    return RecordingFormat("CSV by a column map", bool, rows)
