"""Any CSV, read by a column map."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial

from rightsizer.domain.errors import RecordingError
from rightsizer.domain.units import Nanoseconds
from rightsizer.telemetry.recorded.cells import Column
from rightsizer.telemetry.recorded.column_map import ColumnMap, MappedColumn
from rightsizer.telemetry.recorded.csv_rows import CsvRows, split
from rightsizer.telemetry.recorded.row import Notes, Row
from rightsizer.telemetry.recorded.text import TextFile
from rightsizer.telemetry.recorded.timestamps import EPOCH_UNITS, parse_calendar, parse_epoch

__all__ = ["MappedCsv"]


class MappedCsv:
    """The files that one pattern of a column map fits."""

    name = "CSV by a column map"

    def __init__(self, column_map: ColumnMap, columns: Sequence[MappedColumn]) -> None:
        """The map, and the columns of these files."""
        self._map = column_map
        self._columns = columns

    def recognizes(self, head: Sequence[str]) -> bool:
        """The map speaks for the file, whatever it looks like."""
        return bool(head)

    def rows(self, text: TextFile, notes: Notes) -> Iterator[Row]:
        """One row a line.

        Raises:
            RecordingError: a column that the map names is not there.
        """
        names = [cell.strip() for cell in split(text.head[0])]
        workload = self._map.workload_column
        return CsvRows(
            time=self._place(self._map.time_column, names, text),
            parse_time=_time_parser(self._map.time_unit),
            device=self._place(self._map.device_column, names, text),
            workload=None if workload is None else self._place(workload, names, text),
            columns=[
                Column(
                    self._place(mapped.column, names, text),
                    mapped.column,
                    mapped.signal,
                    mapped.unit,
                )
                for mapped in self._columns
            ],
        ).read(text, notes)

    def _place(self, column: str, names: Sequence[str], text: TextFile) -> int:
        if column in names:
            return names.index(column)
        raise RecordingError(
            f"{text.name}:1: there is no column '{column}', which {self._map.name} names; "
            f"the columns are {', '.join(names)}"
        )


def _time_parser(unit: str) -> Callable[[str], Nanoseconds]:
    return parse_calendar if unit == "iso" else partial(parse_epoch, unit=EPOCH_UNITS[unit])
