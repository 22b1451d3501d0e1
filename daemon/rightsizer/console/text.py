"""Text of commands: columns, wrapped lines, counted nouns."""

import shutil
import sys
import textwrap
from collections.abc import Collection, Sequence
from typing import Final

_WIDTH: Final = 100
_LEAST_WIDTH: Final = 40


def width() -> int:
    """Return the width of output: that of a terminal up to 100, else 100."""
    if not sys.stdout.isatty():
        return _WIDTH
    return max(_LEAST_WIDTH, min(_WIDTH, shutil.get_terminal_size().columns))


def aligned(
    header: Sequence[str], rows: Sequence[Sequence[str]], left: Collection[str]
) -> list[str]:
    """Align rows, header first; columns in `left` are left-aligned."""
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
