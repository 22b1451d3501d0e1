"""`docs/export.md`, generated from the columns of the export."""

from typing import Final

from rightsizer.report.export import COLUMNS

_HEAD: Final = """\
# Export

<!-- Generated from `report/export.py`; change it there and run `make golden`. -->

`rightsizer export` writes the local history as a table, a row for each device and interval. It only
reads, also beside the agent.

```
rightsizer export --grain 1h > history.csv
rightsizer export --from 2026-01-01 --to 2026-02-01T00:00:00+01:00 --devices 0,1 january.csv
rightsizer export --format parquet history.parquet
```

- **Grain**: five minutes by default; older windows (`history.fine_retention`) come as hours. An
  interval that passed twice, because a clock was set back, has two rows.
- **`--from`, `--to`**: windows that *begin* in between, the second excluded.
- **Formats**: CSV; JSON, an array with an object a line; Parquet with the extra
  `gpu-rightsizer[parquet]`. Files are written atomically.
- **Missing values**: empty in CSV, `null` in JSON and Parquet; never 0. Several holders are
  separated by semicolons in CSV, a list elsewhere.
- **Sums**: state seconds sum to `accounted_seconds`; used and wasted seconds, and joules, to the
  part whose use is known. All add up over rows; quantiles (upper edges of hundredths) do not.

Use columns by name: names and meanings are stable, positions are not.

## Columns
"""


def export_document() -> str:
    """The page, in Markdown."""
    lines = [f"| `{column.name}` | {column.kind} | {column.help} |" for column in COLUMNS]
    return "\n".join([_HEAD, "| column | holds | meaning |", "|---|---|---|", *lines, ""])
