"""Text of commands: columns, wrapped lines, counted nouns."""

import math
import os
import shutil
import sys
import textwrap
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import partial
from itertools import zip_longest
from typing import Final

_WIDTH: Final = 100
_LEAST_WIDTH: Final = 40
_GAP: Final = "  "
_LEAST_CELL: Final = 16
"""Width that the last column keeps as long as others can be narrower."""
_wrap: Final = partial(textwrap.wrap, break_long_words=False, break_on_hyphens=False)
NO_BREAK: Final = "\N{NO-BREAK SPACE}"
"""Space at which no line is wrapped; `wrapped` prints it as any other."""


def width() -> int:
    """Return the width of output: `COLUMNS`, or that of a terminal, up to 100, else 100."""
    columns = shutil.get_terminal_size((_WIDTH, 0)).columns
    return max(_LEAST_WIDTH, min(_WIDTH, columns))


def aligned(  # noqa: PLR0913 - the last ones have defaults.
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
    left: Collection[str],
    expendable: Sequence[str] = (),
    maximum_width: float | None = None,
    *,
    indent: int = 0,
) -> list[str]:
    """Align rows, header first; columns in `left` are left-aligned.

    On a terminal narrower than the table, columns of `expendable` are left out in turn, then a
    left-aligned last column is wrapped, then the widest others of `left`. Words and numbers stay
    whole: where they are too wide together, each cell has a line with its heading. `most` is the
    width, by default that of the terminal; elsewhere a table is as wide as its cells.
    """
    maximum_width = maximum_width or (
        width() if sys.stdout.isatty() or os.environ.get("COLUMNS") else math.inf
    )
    columns = list(zip(header, *rows, strict=True))
    for name in expendable:
        if sum(_last_wrapped(columns, left)) > maximum_width - indent - _gaps(columns):
            columns = [column for column in columns if column[0] != name]
    room = maximum_width - indent - _gaps(columns)
    sizes = _sizes(columns, left, room)
    names, *others = zip(*columns, strict=True)
    if sum(sizes) > room and others:
        return [line for row in others for line in _listed(names, row, int(maximum_width), indent)]
    lines = []
    for row in (names, *others):
        cells = [
            _wrap(text, size) if len(text) > size else [text]
            for text, size in zip(row, sizes, strict=True)
        ]
        for parts in zip_longest(*cells, fillvalue=""):
            padded = [
                part.ljust(size) if name in left else part.rjust(size)
                for part, size, (name, *_) in zip(parts, sizes, columns, strict=True)
            ]
            lines.append((" " * indent + _GAP.join(padded)).rstrip())
    return lines


def _gaps(columns: Sequence[Sequence[str]]) -> int:
    return len(_GAP) * (len(columns) - 1)


def _sizes(columns: Sequence[Sequence[str]], left: Collection[str], room: float) -> list[int]:
    """Return widths of columns, which exceed the room only if their words do."""
    sizes = [*map(_longest, columns)]
    for leasts in (_last_wrapped(columns, left), [_least(column, left) for column in columns]):
        while sum(sizes) > room and sizes != leasts:
            wide = (at for at, least in enumerate(leasts) if sizes[at] > least)
            sizes[max(wide, key=sizes.__getitem__)] -= 1
    return sizes


def _last_wrapped(columns: Sequence[Sequence[str]], left: Collection[str]) -> list[int]:
    return [*map(_longest, columns[:-1]), _least(columns[-1], left, _LEAST_CELL)]


def _longest(cells: Iterable[str]) -> int:
    return max(1, *map(len, cells))


def _least(column: Sequence[str], left: Collection[str], least: int = 1) -> int:
    """Return the width that a column keeps: texts are wrapped between words, down to `least`."""
    whole = _longest(column)
    if column[0] not in left:
        return whole
    return min(whole, max(least, *(len(word) for text in column for word in text.split() or [""])))


def _listed(
    header: Sequence[str], row: Sequence[str], maximum_width: int, indent: int
) -> Iterator[str]:
    """Yield the cells of a row below each other, all but the first indented by two more."""
    cells = [(name, text) for name, text in zip(header, row, strict=True) if text.strip()]
    for at, (name, text) in enumerate(cells):
        start = " " * (indent + 2 * (at > 0))
        said = f"{name}: {text}" if name else text
        yield from _wrap(
            said, maximum_width, initial_indent=start, subsequent_indent=" " * (indent + 4)
        )


def wrapped(
    text: str, indent: int = 0, hanging: int = 2, maximum_width: int | None = None
) -> list[str]:
    """Wrap a text, the first line indented by `indent`, the others by `hanging` more.

    A word that says what follows, such as `error:`, is never alone on its line.
    """
    word, colon, rest = text.partition(": ")
    kept = f"{word}:{NO_BREAK}{rest}" if colon and " " not in word else text
    later = " " * (indent + hanging)
    lines = _wrap(
        kept, maximum_width or width(), initial_indent=" " * indent, subsequent_indent=later
    )
    return [line.replace(NO_BREAK, " ") for line in lines]


def counted(count: int, one: str, many: str = "") -> str:
    """Format a count with its noun, as in `2 findings`; `many` is an irregular plural."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"
