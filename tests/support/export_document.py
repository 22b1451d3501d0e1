"""`docs/export.md`, generated from the columns of the export."""

import re
from typing import Final

from rightsizer.model.state import Resource
from rightsizer.report.export import COLUMNS, ExportColumn
from rightsizer.report.labels import readable_name

_RESOURCES: Final = sorted(map(str, Resource), key=len, reverse=True)
"""Longest first: `memory_bandwidth` begins as `memory` does."""
_HEAD: Final = """\
# Export

<!-- Generated from `report/export.py`; change it there and run `make golden`. -->

For anyone who analyzes the history in a notebook or a database. `rightsizer export` writes it as a
table, one row per device and interval. It only reads, and may run while the agent runs.

```
rightsizer export --grain 1h > history.csv
rightsizer export --from 2026-01-01 --to 2026-02-01T00:00:00+01:00 --devices 0,1 january.csv
rightsizer export --format parquet history.parquet
```

- **Grain**: five minutes by default; older windows (`history.fine_retention`) are hours. An
  interval that passed twice, because a clock was set back, has two rows.
- **`--from`, `--to`**: windows that *begin* in between, `--to` excluded.
- **Formats**: CSV; JSON, an array with one object per line; Parquet with the extra
  `gpu-rightsizer[parquet]`. Files are written atomically. On a terminal without `--format` it shows
  the first rows and the main columns.
- **Missing values**: empty in CSV, `null` in JSON and Parquet; never 0. Several holders are
  separated by semicolons in CSV, a list elsewhere.
- **Sums**: state seconds sum to `accounted_seconds`; used and wasted seconds, and joules, to the
  part whose use is known. All of these add up over rows; quantiles (upper edges of hundredths) do
  not.

Refer to columns by name: names and meanings are stable, positions are not. NAME is the state,
condition, cause or resource in a column's name.

## Columns
"""


def export_document() -> str:
    """The page, in Markdown."""
    alike: dict[tuple[str, str], list[ExportColumn]] = {}
    for column in COLUMNS:
        alike.setdefault((column.kind, _pattern(column)), []).append(column)
    lines = []
    for (kind, pattern), columns in alike.items():
        names = ", ".join(f"`{export_column.name}`" for export_column in columns)
        meaning = pattern if len(columns) > 1 else columns[0].help
        lines.append(f"| {names} | {kind} | {meaning} |")
    return "\n".join([_HEAD, "| columns | type | meaning |", "|---|---|---|", *lines, ""])


def _pattern(column: ExportColumn) -> str:
    """What a column means, with NAME for what its own name has, so that like columns are one."""
    text = re.sub(r"^P\d\d of", "Quantile of", re.sub(r"`\w+`", "NAME", column.help))
    resource = next((each for each in _RESOURCES if column.name.startswith(f"{each}_")), None)
    if resource is None:
        return text
    return re.sub(rf"\b{readable_name(resource)}\b", "NAME", text)
