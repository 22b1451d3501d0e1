"""Measured values of commands, as lists and tables of sections of documents."""

import os
import platform
import re
import time
from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from pathlib import Path
from typing import Final

from msgspec import Struct

__all__ = [
    "Figure",
    "as_rows",
    "listed",
    "machine",
    "quantile",
    "rewrite",
    "rewrite_part",
    "summarized",
    "table",
    "with_rows",
    "without_rows",
]

_MACHINE: Final = re.compile(r"(?<=\d{4}-\d\d-\d\d), .*(?=, load )")
"""In what `machine` says, between the day and the load."""
_SPACE: Final = re.compile(r"\n{3,}")
_ROWS: Final = re.compile(r"<!-- rows: begin -->\n(.*?)<!-- rows: end -->\n?", re.DOTALL)


class Figure(Struct, frozen=True):
    """A measured value, or the reason why there is none."""

    what: str
    value: float | None
    """`None` if it could not be measured; the note says why."""
    unit: str = ""
    ceiling: float | None = None
    """The promised maximum; `None` without a promise."""
    note: str = ""
    is_row: bool = False
    """Left to `--rows`, unless it exceeds the promised maximum."""

    @property
    def is_met(self) -> bool:
        """Whether it is below the promised maximum, if any."""
        return self.ceiling is None or (self.value is not None and self.value <= self.ceiling)

    def __str__(self) -> str:
        """The value, what was promised, and the note."""
        value = _spell(self.value, self.unit)
        ceiling = _spell(self.ceiling, self.unit)
        remarks = "; ".join(filter(None, (f"at most {ceiling}" if ceiling else "", self.note)))
        shown = value if self.is_met else f"**{value} FAIL**".replace("** ", "**")
        return " ".join(filter(None, (shown, f"({remarks})" if remarks else "")))


def listed(figures: Iterable[Figure]) -> str:
    """A Markdown list; figures of one thing, named before a colon, are one item."""
    lines = []
    for thing, several in groupby(figures, lambda each: each.what.partition(": ")[0]):
        parts = [f"{each.what.partition(': ')[2]}: {each}".removeprefix(": ") for each in several]
        lines.append(f"- {thing}: {'; '.join(parts)}")
    return "\n".join(lines)


def table(rows: Iterable[Sequence[str]], headings: Sequence[str]) -> str:
    """A Markdown table with aligned columns."""
    lines = [tuple(headings), *(tuple(row) for row in rows)]
    widths = [max(len(line[at]) for line in lines) for at in range(len(headings))]
    texts = [
        "| "
        + " | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        + " |"
        for line in lines
    ]
    return "\n".join(
        [texts[0], "|" + "|".join("-" * (width + 2) for width in widths) + "|", *texts[1:]]
    )


def as_rows(text: str) -> str:
    """Text marked as single rows, which `--rows` prints and the document leaves out."""
    return f"<!-- rows: begin -->\n{text.rstrip()}\n<!-- rows: end -->\n"


def summarized(
    lines: Iterable[Sequence[str]],
    headings: Sequence[str],
    *,
    sums_up: Callable[[Sequence[str]], bool],
) -> str:
    """A table of the lines that sum up, and the others as rows."""
    found = list(lines)
    shown = [line for line in found if sums_up(line)]
    others = [line for line in found if not sums_up(line)]
    parts = (table(shown, headings), as_rows("\n" + table(others, headings)) if others else "")
    return "\n".join(filter(None, parts))


def with_rows(text: str) -> str:
    """All of a text, without the marks."""
    return _SPACE.sub("\n\n", _ROWS.sub(r"\1", text))


def without_rows(text: str) -> str:
    """A text as the document has it."""
    return _SPACE.sub("\n\n", _ROWS.sub("", text))


def quantile(values: Iterable[float], share: float) -> float:
    """The smallest value not exceeded by the given share."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def machine() -> str:
    """The machine and date of the measurement."""
    model = platform.processor() or platform.machine()
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            model = line.partition(":")[2].strip()
            break
    cores = len(os.sched_getaffinity(0))
    load = os.getloadavg()[0]
    return (
        f"{time.strftime('%Y-%m-%d', time.gmtime())}, {model}, {cores} cores, "
        f"Linux {platform.release().partition('-')[0]}, Python {platform.python_version()}, "
        f"load {load:.1f}"
    )


def rewrite(section: str, text: str, path: Path) -> None:
    """Replace the text between a section's marks in a document, without single rows.

    Raises:
        ValueError: the document has no such section.
    """
    head, _, tail = _section(section, path)
    partial = path.with_suffix(".partial")
    partial.write_text(f"{head}{without_rows(text).strip()}\n{tail}", encoding="utf-8")
    partial.replace(path)


def rewrite_part(section: str, title: str, text: str, path: Path, *, place: str = "") -> None:
    """Replace a title's part of a section, or append it as the last part.

    Args:
        section: Its marks.
        title: Heading of the part.
        text: Below the heading.
        path: The document.
        place: `machine()` of the measurement; the section's own machine is not repeated.

    Raises:
        ValueError: the document has no such section.
    """
    _, former, _ = _section(section, path)
    if place:
        whole, _, _ = former.partition("\n")
        text = f"{_without_machine(place, whole)}.\n\n{text}"
    heading = f"### {title}\n"
    before, _, rest = former.partition(heading)
    _, mark, after = rest.partition("\n### ")
    part = f"{heading}\n{text.strip()}\n"
    rewrite(section, f"{before.rstrip()}\n\n{part}{mark}{after}", path)


def _without_machine(place: str, whole: str) -> str:
    """A place without the machine if the whole section was measured on that."""
    here, there = (_MACHINE.search(each) for each in (place, whole))
    if here is None or there is None or here[0] != there[0]:
        return place
    return _MACHINE.sub("", place)


def _section(section: str, path: Path) -> tuple[str, str, str]:
    """A document before, in and after a section; marks are outside."""
    begin = f"<!-- {section}: begin -->\n"
    end = f"<!-- {section}: end -->"
    head, has_begin, rest = path.read_text(encoding="utf-8").partition(begin)
    inside, has_end, tail = rest.partition(end)
    if not has_begin or not has_end:
        raise ValueError(f"{path}: there is no section '{section}'")
    return f"{head}{begin}", inside, f"{end}{tail}"


def _spell(value: float | None, unit: str) -> str:
    if value is None:
        return ""
    digits = f"{value:,.0f}" if abs(value) >= 100 or value == int(value) else f"{value:.3g}"
    return f"{digits} {unit}".rstrip()
