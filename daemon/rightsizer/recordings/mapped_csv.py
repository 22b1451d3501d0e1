"""Any CSV through a column map in YAML."""

from collections.abc import Collection, Iterator, Mapping
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import Final

from msgspec import Struct

from rightsizer.config.row import Faults, Row
from rightsizer.io.near import hint
from rightsizer.io.yaml import YamlError, load_yaml
from rightsizer.model.epoch import EPOCH_UNITS, parse_epoch
from rightsizer.model.errors import ConfigurationError, RecordingError
from rightsizer.model.signal import Signal, in_unit
from rightsizer.model.units import convert
from rightsizer.recordings.headed_table import TimeColumns, csv_table
from rightsizer.recordings.heading_words import Heading
from rightsizer.recordings.row import RecordingNotes, RecordingRow
from rightsizer.recordings.table import columns_text
from rightsizer.recordings.table_layout import LayoutColumns, layout_rows
from rightsizer.recordings.text_file import RecordingFormat, TextFile
from rightsizer.recordings.timestamps import parse_calendar

_TIME_UNITS: Final = (*EPOCH_UNITS, "iso")
_KEYS: Final = ("time", "device", "workload", "files")


class ColumnMap(Struct, frozen=True):
    """Columns of a recording's CSV files."""

    name: str
    time_column: str
    time_unit: str
    device_column: str | None
    """`None` for a log of one GPU, or of several in constant order."""
    workload_column: str | None
    files: Mapping[str, Mapping[str, Heading]]
    """Columns by file name pattern; the first match wins."""

    def columns_of(self, file: Path) -> Mapping[str, Heading] | None:
        """Return the columns of a file by its name, or `None`."""
        known = self.files.items()
        fitting = (columns for pattern, columns in known if fnmatchcase(file.name, pattern))
        return next(fitting, None)


def load_column_map(path: Path) -> ColumnMap:
    """Read a column map; reject one with faults, naming the place of each."""
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
    faults = Faults(document)
    top = Row(document.data, (), faults)
    top.refuse_unknown(_KEYS)
    time = top.row("time", ("column", "unit"))
    files = top.row("files")
    if not top.values.get("files"):
        top.fault("files", "names no file; add a pattern like '*.csv*'")
    found = ColumnMap(
        name=document.name,
        time_column=_name(time, "column"),
        time_unit=_one_of(time, "unit", _TIME_UNITS),
        device_column=_name(top, "device") if "device" in top.values else None,
        workload_column=_name(top, "workload") if "workload" in top.values else None,
        files={str(pattern): dict(_columns(files.row(pattern))) for pattern in files.values},
    )
    faults.refuse()
    return found


def _columns(columns: Row) -> Iterator[tuple[str, Heading]]:
    if not columns.values:
        columns.fault("", "names no column; write names below it")
    for name in columns.values:
        entry = columns.row(name, ("signal", "unit"))
        signal = _one_of(entry, "signal", tuple(Signal))
        unit = _name(entry, "unit")
        if not signal or not unit:
            continue
        try:
            yield str(name), Heading(in_unit(Signal(signal), convert(unit)[0]), unit)
        except KeyError:
            usual = Signal(signal).unit
            entry.fault("unit", f"'{unit}' is not a unit; '{signal}' is in {usual}")
        except ValueError as error:
            entry.fault("unit", f"{error}; name the unit that the column is in")


def _name(row: Row, key: str) -> str:
    """Return a text or number: anything a heading may be."""
    value = row.values.get(key)
    if isinstance(value, str | int | float) and str(value):
        return str(value)
    row.fault(key, f"{'is missing' if value is None else 'is not a name'}; name it")
    return ""


def _one_of(row: Row, key: str, known: Collection[str]) -> str:
    value = _name(row, key)
    if value and value not in known:
        row.fault(key, f"'{value}' is not known; {hint(value, known)}")
        return ""
    return value


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
        parse = parse_calendar if unit == "iso" else partial(parse_epoch, unit=EPOCH_UNITS[unit])
        device = column_map.device_column
        workload = column_map.workload_column
        mapped = LayoutColumns(
            {place(column): heading for column, heading in columns.items()},
            uuid=None if device is None else place(device),
            workload=None if workload is None else place(workload),
        )
        times = TimeColumns(names, notes, (place(column_map.time_column), parse))
        return layout_rows(table, mapped, times, notes)

    return RecordingFormat("CSV by a column map", bool, rows)
