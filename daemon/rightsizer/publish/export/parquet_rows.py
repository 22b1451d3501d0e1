"""The export as Parquet; the only importer of pyarrow, which takes it with its first row group."""

from importlib import import_module
from typing import IO, Any, Final

from rightsizer.domain.errors import UsageError
from rightsizer.publish.export.columns import COLUMNS, Column, Kind, Value
from rightsizer.publish.export.row import ExportRow

__all__ = ["ParquetRows"]

_GROUP: Final = 10_000
"""Rows that wait in memory until they are written together."""


class ParquetRows:
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
        self._schema = self._arrow.schema([(column.name, self._type(column)) for column in COLUMNS])
        self._writer = parquet.ParquetWriter(stream, self._schema)
        self._rows: list[dict[str, Value]] = []

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

    def _type(self, column: Column) -> Any:
        if column.kind is Kind.TEXTS:
            return self._arrow.list_(self._arrow.string())
        if column.kind is Kind.INTEGER:
            return self._arrow.int64()
        return self._arrow.string() if column.kind is Kind.TEXT else self._arrow.float64()
