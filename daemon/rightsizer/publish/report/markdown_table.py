"""Tables of Markdown whose columns line up in a terminal too."""

import re
from collections.abc import Iterable, Sequence
from typing import Final

__all__ = ["cell", "table"]

_SPECIAL: Final = re.compile(r"([\\`*\[|~]|<(?=[A-Za-z/!?])|&(?=#?\w+;)|(?<!\w)_|_(?!\w))")
"""What a renderer would take for more than text; the rest stays readable in a terminal."""
_WIDEST: Final = 48
"""Beyond this a cell is not made room for in the rows above and below."""


def cell(text: str) -> str:
    """A text that is nothing but text to whoever renders it, in one line."""
    return _SPECIAL.sub(r"\\\1", " ".join(text.split()))


def table(header: Sequence[str], rows: Iterable[Sequence[str]], sides: str) -> str:
    """A table.

    Args:
        header: Of each column.
        rows: As many cells each.
        sides: `l` or `r` for each column.
    """
    lines = [[cell(each) for each in row] for row in (header, *rows)]
    widths = [
        max(3, *(min(_WIDEST, len(line[place])) for line in lines)) for place in range(len(header))
    ]
    rule = [
        "-" * (width - 1) + ":" if side == "r" else "-" * width
        for width, side in zip(widths, sides, strict=True)
    ]
    first, *rest = (
        [
            text.rjust(width) if side == "r" else text.ljust(width)
            for text, width, side in zip(line, widths, sides, strict=True)
        ]
        for line in lines
    )
    return "\n".join(f"| {' | '.join(line)} |" for line in (first, rule, *rest))
