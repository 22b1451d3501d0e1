"""Text of commands: columns, wrapped lines, counted nouns."""

import math
import shutil
import sys
import textwrap
from collections.abc import Collection, Sequence
from itertools import zip_longest
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


def aligned(  # noqa: PLR0913 - the last ones have defaults.
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
    left: Collection[str],
    expendable: Sequence[str] = (),
    most: float | None = None,
    *,
    indent: int = 0,
) -> list[str]:
    """Align rows, header first; columns in `left` are left-aligned.

    On a terminal narrower than the table, columns of `expendable` are left out in turn, then a
    left-aligned last column is wrapped, then the widest others. `most` is the width, by default
    that of the terminal; elsewhere a table is as wide as its cells.
    """
    most = most or (width() if sys.stdout.isatty() else math.inf)
    last = _LEAST_CELL if header[-1] in left else math.inf
    columns = list(zip(header, *rows, strict=True))
    for name in expendable:
        if _length(columns, last) > most:
            columns = [each for each in columns if each[0] != name]
    sizes = [max(1, *map(len, column)) for column in columns]
    gaps = len(_GAP) * (len(sizes) - 1) + indent
    while sum(sizes) + gaps > most and max(sizes) > 1:
        widest = len(sizes) - 1 if sizes[-1] > last else sizes.index(max(sizes))
        sizes[widest] -= 1
    lines = []
    for row in zip(*columns, strict=True):
        cells = [
            textwrap.wrap(text, size) if len(text) > size else [text]
            for text, size in zip(row, sizes, strict=True)
        ]
        for parts in zip_longest(*cells, fillvalue=""):
            padded = [
                part.ljust(size) if name in left else part.rjust(size)
                for part, size, (name, *_) in zip(parts, sizes, columns, strict=True)
            ]
            lines.append(" " * indent + _GAP.join(padded).rstrip())
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
