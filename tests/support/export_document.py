"""`docs/export.md`, made from the columns of the export."""

from typing import Final

from rightsizer.report.export import COLUMNS

_HEAD: Final = """\
# Export

<!-- Generated from `report/export.py`; change it there and run `make golden`. -->

`rightsizer export` writes the local history as a table, a row for each device and span of time. It
only reads, and may run beside the agent.

```
rightsizer export --grain 1h > history.csv
rightsizer export --from 2026-01-01 --to 2026-02-01T00:00:00+01:00 --devices 0,1 january.csv
rightsizer export --format parquet history.parquet
```

- **Grain**: five minutes by default. What the history has merged into hours by then
  (`history.fine_retention`) comes as hours, whatever grain is asked for. A span that a clock lived
  twice, since it was set back, comes as two rows; every second is in one row, once.
- **`--from`, `--to`**: windows that *begin* in between, the second not included, so that tables of
  spans that adjoin hold every window once. The window of the last minutes is in it as far as it
  was flushed.
- **Formats**: CSV; JSON, an array with an object a line; Parquet with the extra
  `gpu-rightsizer[parquet]`. A file appears under its name when it is whole.
- **Missing values**: empty in CSV, `null` in JSON and Parquet; never 0. Several holders are divided
  by semicolons in CSV, and a list elsewhere.
- **Sums**: the states' seconds sum to `accounted_seconds`, used and wasted seconds to the part of
  it whose use is known, used and wasted joules to the energy of that part. All of them add up over
  rows. Quantiles do not: take the largest, or export at the grain that is wanted. They are upper
  edges of bins of a hundredth, over time.

Go by a column's name, not by its place: names and meanings stay as they are, places may not.

## Columns
"""


def export_document() -> str:
    """The page, in Markdown."""
    lines = [f"| `{column.name}` | {column.kind} | {column.help} |" for column in COLUMNS]
    return "\n".join([_HEAD, "| column | holds | meaning |", "|---|---|---|", *lines, ""])
