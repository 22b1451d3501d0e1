"""Formats of the export: CSV, JSON, Parquet; pyarrow is imported by the last alone."""

import csv
import json
from codecs import getwriter
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from itertools import islice
from typing import IO, Any, Final

from rightsizer.model.errors import UsageError
from rightsizer.report.export_columns import COLUMNS, ExportColumnKind, ExportRow, ExportValue


def write_csv(rows: Iterable[ExportRow], stream: IO[bytes]) -> None:
    """Write a line for each row; several texts in one cell are divided by semicolons."""
    writer = csv.writer(getwriter("utf-8")(stream), lineterminator="\n")
    writer.writerow(column.name for column in COLUMNS)
    for row in rows:
        cells = (column.value(row) for column in COLUMNS)
        writer.writerow(";".join(each) if isinstance(each, tuple) else each for each in cells)


def write_json(rows: Iterable[ExportRow], stream: IO[bytes]) -> None:
    """Write an object a line, so that a long table can be read as it comes."""
    before = "[\n"
    for row in rows:
        stream.write(f"{before}{json.dumps(_values(row))}".encode())
        before = ",\n"
    stream.write(b"[]\n" if before == "[\n" else b"\n]\n")


_GROUP: Final = 10_000
"""Rows that wait in memory until they are written together."""


def write_parquet(rows: Iterable[ExportRow], stream: IO[bytes]) -> None:
    """Write columns of text, lists of text, 64-bit integers and floats.

    Raises:
        UsageError: pyarrow is not installed.
    """
    try:
        # 100 MB of memory that no other command needs.
        arrow: Any = import_module("pyarrow")
        parquet: Any = import_module("pyarrow.parquet")
    except ImportError:
        raise UsageError(
            "--format parquet: pyarrow is not installed; install gpu-rightsizer[parquet], or take "
            "csv or json"
        ) from None
    types = {
        ExportColumnKind.TEXTS: arrow.list_(arrow.string()),
        ExportColumnKind.TEXT: arrow.string(),
        ExportColumnKind.INTEGER: arrow.int64(),
        ExportColumnKind.NUMBER: arrow.float64(),
    }
    schema = arrow.schema([(each.name, types[each.kind]) for each in COLUMNS])
    left = map(_values, rows)
    with parquet.ParquetWriter(stream, schema) as writer:
        while group := list(islice(left, _GROUP)):
            writer.write_table(arrow.Table.from_pylist(group, schema=schema))


def _values(row: ExportRow) -> dict[str, ExportValue]:
    return {column.name: column.value(row) for column in COLUMNS}


EXPORT_FORMATS: Final[Mapping[str, Callable[[Iterable[ExportRow], IO[bytes]], None]]] = {
    "csv": write_csv,
    "json": write_json,
    "parquet": write_parquet,
}
