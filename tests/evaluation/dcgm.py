"""Real dcgm-exporter pages, read by the reader that the live source uses: nothing may be lost."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from measured import table
from rightsizer.catalogue.catalogue import built_in
from rightsizer.telemetry.dcgm import parse_exposition, parse_sample

__all__ = ["evaluate"]

_HEADINGS: Final = (
    "page",
    "lines",
    "devices",
    "readings",
    "said to be missing",
    "lost",
    "not ours",
)


def evaluate(folder: Path) -> Iterator[str]:
    """Per page: what was read, and every line that did not arrive."""
    lost_lines: list[str] = []
    rows = []
    unread: Counter[str] = Counter()
    for page in sorted(folder.glob("*.prom")):
        text = page.read_text(encoding="utf-8")
        found = parse_exposition(text, built_in())
        lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
        lost, other = [], 0
        for line in lines:
            series = parse_sample(line.rpartition("}")[0] + "}")
            if series is None or series.signal is None:
                other += 1
                unread[line.partition("{")[0]] += 1
            elif series.signal not in {
                *found.values.get(series.device, {}),
                *found.missing.get(series.device, {}),
            }:
                lost.append(f"{page.name}: {line}")
        lost_lines += lost
        readings = sum(len(values) for values in found.values.values())
        missing = sum(len(why) for why in found.missing.values())
        counts = (len(lines), len(found.devices), readings, missing, len(lost), other)
        rows.append((page.name, *map(str, counts)))
    yield table(rows, _HEADINGS)
    yield f"\nNot ours, as they are counters of errors or identity: {', '.join(sorted(unread))}.\n"
    yield from lost_lines
