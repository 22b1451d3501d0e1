"""Encoders of the export: CSV, JSON, Parquet; pyarrow is imported with the first row group."""

import csv
import json
from codecs import getwriter
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import IO, Any, Final, Protocol

from rightsizer.model.errors import UsageError
from rightsizer.report.export_columns import COLUMNS, ExportColumnKind, ExportRow, ExportValue


class ExportEncoder(Protocol):
    """A table in the making."""

    def write(self, row: ExportRow) -> None:
        """Add a row."""

    def close(self) -> None:
        """Finish the table; what it is written to stays open."""


class CsvExportEncoder:
    """Several texts in one cell are divided by semicolons."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._writer = csv.writer(getwriter("utf-8")(stream), lineterminator="\n")
        self._writer.writerow(column.name for column in COLUMNS)

    def write(self, row: ExportRow) -> None:
        """Add a line."""
        cells = (column.value(row) for column in COLUMNS)
        self._writer.writerow(";".join(each) if isinstance(each, tuple) else each for each in cells)

    def close(self) -> None:
        """Nothing to do: the last line ends the table."""


class JsonExportEncoder:
    """One object a line, so that a long table can be read as it comes."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream, self._before = stream, "[\n"

    def write(self, row: ExportRow) -> None:
        """Add an object."""
        form = {column.name: column.value(row) for column in COLUMNS}
        self._stream.write(f"{self._before}{json.dumps(form)}".encode())
        self._before = ",\n"

    def close(self) -> None:
        """End the array."""
        self._stream.write(b"[]\n" if self._before == "[\n" else b"\n]\n")


_GROUP: Final = 10_000
"""Rows that wait in memory until they are written together."""


class ParquetExportEncoder:
    """Columns of text, lists of text, 64-bit integers and floats."""

    def __init__(self, stream: IO[bytes]) -> None:
        """Begin.

        Raises:
            UsageError: pyarrow is not installed.
        """
        try:
            # 100 MB of memory that no other command needs.
            self._arrow: Any = import_module("pyarrow")
            parquet: Any = import_module("pyarrow.parquet")
        except ImportError:
            raise UsageError(
                "--format parquet: pyarrow is not installed; install gpu-rightsizer[parquet], or "
                "take csv or json"
            ) from None
        types = {
            ExportColumnKind.TEXTS: self._arrow.list_(self._arrow.string()),
            ExportColumnKind.TEXT: self._arrow.string(),
            ExportColumnKind.INTEGER: self._arrow.int64(),
            ExportColumnKind.NUMBER: self._arrow.float64(),
        }
        self._schema = self._arrow.schema([(each.name, types[each.kind]) for each in COLUMNS])
        self._writer = parquet.ParquetWriter(stream, self._schema)
        self._rows: list[dict[str, ExportValue]] = []

    def write(self, row: ExportRow) -> None:
        """Add a row."""
        self._rows.append({column.name: column.value(row) for column in COLUMNS})
        if len(self._rows) >= _GROUP:
            self._flush()

    def close(self) -> None:
        """Write the rest and the file's footer."""
        self._flush()
        self._writer.close()

    def _flush(self) -> None:
        if self._rows:
            table = self._arrow.Table.from_pylist(self._rows, schema=self._schema)
            self._writer.write_table(table)
            self._rows = []


EXPORT_FORMATS: Final[Mapping[str, Callable[[IO[bytes]], ExportEncoder]]] = {
    "csv": CsvExportEncoder,
    "json": JsonExportEncoder,
    "parquet": ParquetExportEncoder,
}
