"""Text of commands: columns, wrapped lines, counted nouns."""

import shutil
import sys
import textwrap
from collections.abc import Collection, Sequence
from typing import Final

_WIDTH: Final = 100
_LEAST_WIDTH: Final = 40


def width() -> int:
    """Columns to fill: those of a terminal, 100 at most, and 100 elsewhere."""
    if not sys.stdout.isatty():
        return _WIDTH
    return max(_LEAST_WIDTH, min(_WIDTH, shutil.get_terminal_size().columns))


def aligned(
    header: Sequence[str], rows: Sequence[Sequence[str]], left: Collection[str]
) -> list[str]:
    """A line each, the header first; columns of `left` begin at their left edge."""
    every = [header, *rows]
    widths = [max(map(len, column)) for column in zip(*every, strict=True)]
    return [
        "  ".join(
            cell.ljust(width) if name in left else cell.rjust(width)
            for cell, width, name in zip(row, widths, header, strict=True)
        ).rstrip()
        for row in every
    ]


def wrapped(text: str, indent: int = 0, hanging: int = 2) -> list[str]:
    """Lines of a text, the first indented by some blanks, the others by `hanging` more."""
    return textwrap.wrap(
        text,
        width(),
        initial_indent=" " * indent,
        subsequent_indent=" " * (indent + hanging),
        break_long_words=False,
        break_on_hyphens=False,
    )


def counted(count: int, one: str, many: str = "") -> str:
    """A count with its noun: `1 finding`, `2 findings`; `many` where an `s` does not make it."""
    return f"{count} {one if count == 1 else many or one + 's'}"
