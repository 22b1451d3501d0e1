"""The formats of the export by name."""

from collections.abc import Callable, Mapping
from typing import IO, Final, Protocol, TypeAlias

from rightsizer.publish.export.csv_rows import CsvRows
from rightsizer.publish.export.json_rows import JsonRows
from rightsizer.publish.export.parquet_rows import ParquetRows
from rightsizer.publish.export.row import ExportRow

__all__ = ["FORMATS", "RowFormat", "Rows"]


class Rows(Protocol):
    """A table in the making."""

    def write(self, row: ExportRow) -> None:
        """Add a row."""

    def close(self) -> None:
        """Finish the table; what it is written to stays open."""


RowFormat: TypeAlias = Callable[[IO[bytes]], Rows]

FORMATS: Final[Mapping[str, RowFormat]] = {
    "csv": CsvRows,
    "json": JsonRows,
    "parquet": ParquetRows,
}
