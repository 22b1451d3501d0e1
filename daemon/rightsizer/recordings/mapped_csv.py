"""Any CSV through a column map in YAML."""

from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import Annotated, TypeAlias

from msgspec import Struct

from rightsizer.config.loader import read_document
from rightsizer.io.yaml import YamlError, load_yaml, yaml_text
from rightsizer.model.values import (
    EPOCH_UNITS,
    ConfigurationError,
    RecordingError,
    Signal,
    Spec,
    convert,
    in_unit,
    parse_epoch,
)
from rightsizer.recordings.headed_table import TimeColumns, csv_table
from rightsizer.recordings.heading_words import Heading
from rightsizer.recordings.row import RecordingNotes, RecordingRow
from rightsizer.recordings.table import columns_text
from rightsizer.recordings.table_layout import LayoutColumns, TableLayout
from rightsizer.recordings.text_file import RecordingFormat, TextFile
from rightsizer.recordings.timestamps import parse_calendar


class TimeUnit(StrEnum):
    """Units of a column of times."""

    SECONDS = "s"
    MILLISECONDS = "ms"
    MICROSECONDS = "us"
    NANOSECONDS = "ns"
    ISO = "iso"


def _heading_text(value: object) -> object:
    """Return a heading that is a number, such as 3, as its text."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    text = str(value) if is_number else value
    if text == "":
        raise ValueError("is not a name; name it")
    return text


def _mapping_of_columns(value: object) -> object:
    if not value:
        raise ValueError("names no column; write names below it")
    if not isinstance(value, Mapping):
        return value
    return {_heading_text(name): column for name, column in value.items()}


def _mapping_of_files(value: object) -> object:
    if not value:
        raise ValueError("names no file; add a pattern like '*.csv*'")
    return value


ColumnName: TypeAlias = Annotated[str, Spec(parse=_heading_text)]


class TimeColumn(Struct, frozen=True):
    """Column of the times."""

    column: ColumnName
    unit: TimeUnit


class MappedColumn(Struct, frozen=True):
    """Signal of a column, and the unit that it is in."""

    signal: Signal
    unit: ColumnName

    def __post_init__(self) -> None:
        _ = self.heading

    @property
    def heading(self) -> Heading:
        """Heading that a file would have for it; raises `ValueError` for another unit."""
        try:
            return Heading(in_unit(self.signal, convert(self.unit)[0]), self.unit)
        except KeyError:
            fault = f"'{self.unit}' is not a unit; '{self.signal}' is in {self.signal.unit}"
            raise ValueError(f"unit: {fault}") from None
        except ValueError as error:
            raise ValueError(f"unit: {error}; name the unit that the column is in") from None


ColumnsByName: TypeAlias = Annotated[Mapping[str, MappedColumn], Spec(parse=_mapping_of_columns)]


class ColumnMapDocument(Struct, frozen=True):
    """Column map as it stands in its file."""

    time: TimeColumn
    files: Annotated[Mapping[str, ColumnsByName], Spec(parse=_mapping_of_files)]
    device: ColumnName | None = None
    workload: ColumnName | None = None


class ColumnMap(Struct, frozen=True):
    """Columns of a recording's CSV files."""

    name: str
    time_column: str
    time_unit: TimeUnit
    device_column: str | None
    """`None` for a log of one GPU, or of several in constant order."""
    workload_column: str | None
    files: Mapping[str, Mapping[str, Heading]]
    """Columns by file name pattern; the first match wins."""

    def columns_of(self, file: Path) -> Mapping[str, Heading] | None:
        """Return the columns of a file by its name, or `None`."""
        patterns = self.files.items()
        fitting = (columns for pattern, columns in patterns if fnmatchcase(file.name, pattern))
        return next(fitting, None)


def load_column_map(path: Path) -> ColumnMap:
    """Read a column map; reject one with faults, naming the place of each."""
    try:
        document = load_yaml(yaml_text(path), str(path))
    except YamlError as error:
        raise ConfigurationError(
            f"{error}; a column map is a YAML file like those in config/columns"
        ) from None
    mapped = read_document(ColumnMapDocument, document)
    return ColumnMap(
        name=document.name,
        time_column=mapped.time.column,
        time_unit=mapped.time.unit,
        device_column=mapped.device,
        workload_column=mapped.workload,
        files={
            pattern: {name: column.heading for name, column in columns.items()}
            for pattern, columns in mapped.files.items()
        },
    )


def mapped_csv(column_map: ColumnMap, columns: Mapping[str, Heading]) -> RecordingFormat:
    """Return the format of files that match one pattern of a column map; content is not checked."""

    def rows(text: TextFile, notes: RecordingNotes) -> Iterator[RecordingRow]:
        table = csv_table(text)
        names = [*table.headings]

        def place(column: str) -> int:
            if column in names:
                return names.index(column)
            raise RecordingError(
                f"{text.name}:1: there is no column '{column}', which {column_map.name} names; "
                f"the columns are {columns_text(names)}"
            )

        unit = column_map.time_unit
        parse: Callable[[str], int] = parse_calendar
        if unit is not TimeUnit.ISO:
            parse = partial(parse_epoch, unit=EPOCH_UNITS[unit])
        device = column_map.device_column
        workload = column_map.workload_column
        mapped = LayoutColumns(
            {place(column): heading for column, heading in columns.items()},
            uuid=None if device is None else place(device),
            workload=None if workload is None else place(workload),
        )
        times = TimeColumns(names, notes, (place(column_map.time_column), parse))
        layout = TableLayout(table, mapped, times, notes)
        return (row for row, _ in layout.rows(table.rows(notes)))

    return RecordingFormat("CSV by a column map", bool, rows)
