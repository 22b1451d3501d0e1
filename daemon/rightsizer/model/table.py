"""Tables of facts in CSV that lie beside the modules that read them."""

import csv
from pathlib import Path


def table_rows(module_file: str, name: str) -> list[dict[str, str]]:
    """The rows of a file beside a module, by its `__file__`, with the names of their columns."""
    text = Path(module_file).with_name(name).read_text(encoding="utf-8")
    return list(csv.DictReader(text.splitlines()))
