"""Text of commands: columns, wrapped lines, counted nouns."""

import math
import shutil
import sys
import textwrap
from collections.abc import Collection, Sequence
from typing import Final

_WIDTH: Final = 100
_LEAST_WIDTH: Final = 40
_GAP: Final = "  "
_LEAST_CELL: Final = 16
"""Narrowest column that texts are wrapped into."""


def width() -> int:
    """Return the width of output: that of a terminal up to 100, else 100."""
    if not sys.stdout.isatty():
        return _WIDTH
    return max(_LEAST_WIDTH, min(_WIDTH, shutil.get_terminal_size().columns))


def aligned(
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
    left: Collection[str],
    expendable: Sequence[str] = (),
    most: float | None = None,
) -> list[str]:
    """Align rows, header first; columns in `left` are left-aligned.

    On a terminal narrower than the table, columns of `expendable` are left out in turn, and a
    left-aligned last column is wrapped. `most` is the width, by default that of the terminal;
    elsewhere a table is as wide as its cells.
    """
    most = most or (width() if sys.stdout.isatty() else math.inf)
    wraps = header[-1] in left
    columns = list(zip(header, *rows, strict=True))
    for name in expendable:
        if _length(columns, _LEAST_CELL if wraps else math.inf) > most:
            columns = [each for each in columns if each[0] != name]
    *sizes, last = (max(map(len, column)) for column in columns)
    room = max(_LEAST_CELL, most - sum(sizes) - len(_GAP) * len(sizes))
    lines = []
    for *cells, text in zip(*columns, strict=True):
        first, *more = textwrap.wrap(text, int(room)) if wraps and len(text) > room else [text]
        sides = zip((*cells, first), (*sizes, last), columns, strict=True)
        padded = [
            cell.ljust(size) if name in left else cell.rjust(size)
            for cell, size, (name, *_) in sides
        ]
        lines.append(_GAP.join(padded).rstrip())
        lines += [" " * (sum(sizes) + len(_GAP) * len(sizes)) + each for each in more]
    return lines


def _length(columns: Sequence[Sequence[str]], most_of_last: float) -> float:
    *sizes, last = (max(map(len, each)) for each in columns)
    return sum(sizes) + len(_GAP) * len(sizes) + min(last, most_of_last)


def wrapped(text: str, indent: int = 0, hanging: int = 2) -> list[str]:
    """Wrap a text, the first line indented by `indent`, the others by `hanging` more."""
    return textwrap.wrap(
        text,
        width(),
        initial_indent=" " * indent,
        subsequent_indent=" " * (indent + hanging),
        break_long_words=False,
        break_on_hyphens=False,
    )


def counted(count: int, one: str, many: str = "") -> str:
    """Format a count with its noun, as in `2 findings`; `many` is an irregular plural."""
    return f"{count} {one if count == 1 else many or one + 's'}"
