"""The export as CSV: a header, a line a row, nothing where a value is missing."""

import csv
from typing import IO

from rightsizer.publish.export.columns import COLUMNS, Value
from rightsizer.publish.export.row import ExportRow

__all__ = ["CsvRows"]


class CsvRows:
    """Several texts in one cell are divided by semicolons."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._writer = csv.writer(_Encoded(stream), lineterminator="\n")
        self._writer.writerow(column.name for column in COLUMNS)

    def write(self, row: ExportRow) -> None:
        """Add a line."""
        self._writer.writerow(_cell(column.value(row)) for column in COLUMNS)

    def close(self) -> None:
        """Nothing waits: a table of lines is finished with its last one."""


class _Encoded:
    """A stream of bytes that takes text. Unlike Python's own it never closes what it is given."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        return self._stream.write(text.encode())


def _cell(value: Value) -> str | int | float | None:
    return ";".join(value) if isinstance(value, tuple) else value
