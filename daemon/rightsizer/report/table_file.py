"""Tables of typed columns, as CSV and as Parquet."""

import csv
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from enum import StrEnum
from importlib import import_module
from io import StringIO
from itertools import islice
from typing import IO, Any, Final, TypeAlias

from rightsizer.model.values import UsageError


class TableColumnKind(StrEnum):
    """Type of a column's values, all of which may be missing."""

    TEXT = "text"
    TEXTS = "texts"
    INTEGER = "integer"
    NUMBER = "number"
    TIME = "time"


ColumnKinds: TypeAlias = Mapping[str, TableColumnKind]
"""Kinds of a table's columns, by name, in order."""
_GROUP: Final = 10_000
"""Rows buffered in memory before they are written."""
_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")
_TIME: Final = "%Y-%m-%dT%H:%M:%SZ"


def csv_text(names: Iterable[str], rows: Iterable[Mapping[str, Any]]) -> str:
    """Return a table as CSV; times are in UTC, and no text is a spreadsheet's formula."""
    text = StringIO()
    writer = csv.DictWriter(text, list(names))
    writer.writeheader()
    writer.writerows({name: _cell(value) for name, value in row.items()} for row in rows)
    return text.getvalue()


def _cell(value: object) -> object:
    if isinstance(value, datetime):
        return value.astimezone(UTC).strftime(_TIME)
    is_formula = isinstance(value, str) and value.startswith(_FORMULA)
    return f"'{value}" if is_formula else value


def csv_rows(kinds: ColumnKinds, text: str) -> Iterator[dict[str, Any]]:
    """Yield the rows of a table that `csv_text` wrote; an empty cell is a missing value."""
    for row in csv.DictReader(StringIO(text, newline="")):
        yield {name: _value(kind, row[name]) for name, kind in kinds.items()}


def _value(kind: TableColumnKind, cell: str) -> object:
    if not cell:
        return None
    if kind is TableColumnKind.NUMBER:
        return float(cell)
    if kind is TableColumnKind.TIME:
        return datetime.strptime(cell, _TIME).replace(tzinfo=UTC)
    return cell[1:] if cell.startswith("'") and cell[1:].startswith(_FORMULA) else cell


def write_parquet_table(
    kinds: ColumnKinds, rows: Iterable[Mapping[str, Any]], stream: IO[bytes]
) -> None:
    """Write texts, lists of them, 64-bit integers and floats, and times in UTC.

    Raises:
        UsageError: pyarrow is not installed.
    """
    try:
        # Imported on use: takes 100 MB of memory.
        arrow: Any = import_module("pyarrow")
        parquet: Any = import_module("pyarrow.parquet")
    except ImportError:
        raise UsageError(
            "Parquet needs pyarrow, which is not installed; install gpu-rightsizer[parquet], or "
            "take CSV"
        ) from None
    types = {
        TableColumnKind.TEXTS: arrow.list_(arrow.string()),
        TableColumnKind.TEXT: arrow.string(),
        TableColumnKind.INTEGER: arrow.int64(),
        TableColumnKind.NUMBER: arrow.float64(),
        TableColumnKind.TIME: arrow.timestamp("us", tz="UTC"),
    }
    schema = arrow.schema([(name, types[kind]) for name, kind in kinds.items()])
    left = iter(rows)
    with parquet.ParquetWriter(stream, schema) as writer:
        while group := list(islice(left, _GROUP)):
            writer.write_table(arrow.Table.from_pylist(group, schema=schema))
