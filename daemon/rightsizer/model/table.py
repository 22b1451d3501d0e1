"""The tables of facts that lie beside the modules of this package."""

import csv
from pathlib import Path


def table_rows(name: str) -> list[dict[str, str]]:
    """The rows of a CSV file of this package, by the names of its columns."""
    text = Path(__file__).with_name(name).read_text(encoding="utf-8")
    return list(csv.DictReader(text.splitlines()))
