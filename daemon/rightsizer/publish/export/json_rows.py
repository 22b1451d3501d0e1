"""The export as JSON: an array of objects, `null` where a value is missing."""

import json
from typing import IO

from rightsizer.publish.export.columns import COLUMNS
from rightsizer.publish.export.row import ExportRow

__all__ = ["JsonRows"]


class JsonRows:
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
