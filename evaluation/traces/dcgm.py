"""Real dcgm-exporter pages, read by the reader that the live source uses: nothing may be lost.

Every line must arrive with the right device, signal, unit and holder, or say why it is of no use.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from math import isclose
from pathlib import Path
from typing import Final

from evaluation.traces.dcgm_lines import Line, lines_of
from measured import table
from rightsizer.catalogue.catalogue import built_in
from rightsizer.model.dcgm_fields import DCGM_FIELDS
from rightsizer.telemetry.dcgm.series import (
    DcgmExpositionParser,
    ExporterPage,
    UnusedSeries,
    interpret,
)

_HOST: Final = re.compile(r'\b[Hh]ostname="([^"]+)"')
READ: Final = "read"
WEAKER: Final = "weaker than another"
MISSING: Final = "said to be missing"
UNUSED: Final = "of no use"
WRONG: Final = "wrong or lost"
_VERDICTS: Final = (READ, WEAKER, MISSING, UNUSED, WRONG)


def evaluate(folder: Path) -> Iterator[str]:
    """Per page, how its lines were read; then what is of no use and why, and what went wrong."""
    rows = []
    wrong = []
    unused: Counter[tuple[str, str]] = Counter()
    for file in sorted(folder.glob("*.prom")):
        found = []
        devices = 0
        for text in _by_node(file.read_text(encoding="utf-8")):
            page = DcgmExpositionParser(built_in()).read(text)
            lines = lines_of(text.splitlines())
            found += [(line, verdict(line, lines, page)) for line in lines]
            devices += len(page.devices)
        counts = Counter(said for _, said in found)
        numbers = (len(found), devices, *(counts[each] for each in _VERDICTS))
        rows.append((file.name, *map(str, numbers)))
        unused.update(_because(line) for line, said in found if said == UNUSED)
        wrong += [f"- {file.name}: `{line.text}`" for line, said in found if said == WRONG]
    yield table(rows, ("page", "lines", "devices", *_VERDICTS))
    yield "\nWeaker: another field of the same device has a better figure. Not used:\n"
    for (metric, because), count in sorted(unused.items()):
        yield f"- `{metric}` ({count}): {because}"
    yield ""
    yield from wrong


def _by_node(text: str) -> list[str]:
    """One page per node of a file of excerpts, as the reader takes one node's."""
    lines = text.splitlines()
    hosts = [found[1] if (found := _HOST.search(line)) else "" for line in lines]
    names = dict.fromkeys(filter(None, hosts))
    if len(names) < 2:
        return [text]
    return [
        "".join(
            f"{line}\n"
            for line, host in zip(lines, hosts, strict=True)
            if host == name or line.startswith("#")
        )
        for name in names
    ]


def verdict(line: Line, lines: Sequence[Line], page: ExporterPage) -> str:
    """Verdict on one line.

    Args:
        line: As a person reads it.
        lines: All of the page.
        page: As it was read.
    """
    if line.signal is None:
        return _of_no_signal(line, page)
    if not any(device.uuid == line.device for device in page.devices):
        return WRONG
    reading = page.readings[line.device]
    if line.pod and line.pod not in {holding.workload.pod for holding in reading.holdings}:
        return WRONG
    value = reading.values.get(line.signal)
    if value is None:
        has_reason = line.is_blank and line.signal in reading.missing
        return MISSING if has_reason else WRONG
    if line.is_blank:
        return WRONG
    if isclose(value, line.number, rel_tol=1e-9):
        return READ
    return WEAKER if any(_is_better(other, line, value) for other in lines) else WRONG


def _is_better(other: Line, line: Line, value: float) -> bool:
    """Whether another line is what was read of the same signal, and may go before this one."""
    return (
        (other.device, other.signal) == (line.device, line.signal)
        and isclose(value, other.number, rel_tol=1e-9)
        and DCGM_FIELDS[other.metric].rank > DCGM_FIELDS[line.metric].rank
    )


def _of_no_signal(line: Line, page: ExporterPage) -> str:
    if isinstance(interpret(line.head), UnusedSeries):
        return UNUSED
    # An Xid is no signal; 0 says that there was none.
    return READ if page.xids.get(line.device, 0) == line.number else WRONG


def _because(line: Line) -> tuple[str, str]:
    found = interpret(line.head)
    return line.metric, found.because if isinstance(found, UnusedSeries) else ""
