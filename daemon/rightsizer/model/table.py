"""Reader of CSV tables stored beside the modules that use them."""

import csv
from pathlib import Path


def table_rows(module_file: str, name: str) -> list[dict[str, str]]:
    """Read the rows of a CSV file in the directory of a module's `__file__`, keyed by column."""
    text = Path(module_file).with_name(name).read_text(encoding="utf-8")
    return list(csv.DictReader(text.splitlines()))
