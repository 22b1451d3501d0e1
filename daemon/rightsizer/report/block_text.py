"""Blocks in a terminal: sections indented by two, sentences wrapped, columns aligned."""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Final, TypeAlias

from rightsizer.io.terminal import aligned, width, wrapped
from rightsizer.report.blocks import (
    Block,
    Code,
    Items,
    Key,
    KeyValues,
    Section,
    Sentence,
    Table,
    Tiles,
    Tone,
    shown,
)

_INDENT: Final = 2
_BEGINS: Final = (Tone.HEADING, Tone.BEST, Tone.WARNING)
"""Tones of sentences with an empty line before them."""
_ENDS: Final = (Tone.BEST,)
"""Tones of those with one after them."""
_Line = tuple[str, Tone | None]


Style: TypeAlias = Callable[[str, Tone | None], str]
"""Makes a line stand out, if it does."""


def _plain(text: str, tone: Tone | None) -> str:
    del tone
    return text


def text_of(
    blocks: Iterable[Block], maximum_width: int | None = None, style: Style = _plain
) -> str:
    """Return lines of at most so many characters, by default as a terminal has.

    Elsewhere a table is as wide as its cells.
    """
    return "\n".join(style(line, tone) for line, tone in _lines(blocks, maximum_width, 0))


def _lines(blocks: Iterable[Block], maximum_width: int | None, indent: int) -> Iterator[_Line]:
    before: Block | None = None
    for block in shown(blocks):
        is_apart = _is_apart(before, indent) or _is_apart(block, indent)
        if before and (is_apart or _has_tone(block, _BEGINS) or _has_tone(before, _ENDS)):
            yield "", None
        yield from _block(block, maximum_width, indent)
        before = block


def _is_apart(block: Block | None, indent: int) -> bool:
    """Whether lines around it are empty; sections in a section are as dense as a list."""
    is_section = isinstance(block, Section) and not indent
    return is_section or (isinstance(block, Table) and block.has_headings)


def _has_tone(block: Block, tones: Collection[Tone]) -> bool:
    return isinstance(block, Sentence) and block.tone in tones


def _block(block: Block, maximum_width: int | None, indent: int) -> Iterator[_Line]:
    match block:
        case Section():
            tone = None if indent else Tone.HEADING
            yield from _toned(wrapped(block.title, indent, maximum_width=maximum_width), tone)
            yield from _lines(block.blocks, maximum_width, indent + _INDENT)
        case Sentence():
            yield from _toned(wrapped(block.text, indent, maximum_width=maximum_width), block.tone)
        case Table():
            yield from _toned(wrapped(block.caption, indent, 0, maximum_width))
            written = block.written
            yield from _table(written, maximum_width, indent)
            yield from _toned(wrapped(written.note, indent, 0, maximum_width), Tone.FAINT)
        case Tiles():
            tiles = ((tile.name, tile.value, tile.detail) for tile in block.tiles)
            yield from _toned(_columns(tiles, maximum_width or width(), indent))
        case KeyValues():
            yield from _toned(_columns(block.pairs, maximum_width or width(), indent))
        case Items():
            for place, text in enumerate(block.texts, 1):
                numbered = f"{place}. {text}" if block.is_numbered else text
                yield from _toned(wrapped(numbered, indent, maximum_width=maximum_width))
        case Key():
            yield from _toned(wrapped(block.text, indent, 0, maximum_width), Tone.FAINT)
        case Code():
            yield from _toned(" " * (indent + _INDENT) + line for line in block.text.splitlines())
        case _:
            text = block if isinstance(block, str) else block.text
            yield from _toned(wrapped(text, indent, 0, maximum_width))


def _toned(lines: Iterable[str], tone: Tone | None = None) -> Iterator[_Line]:
    return ((line, tone) for line in lines)


def _table(table: Table, maximum_width: int | None, indent: int) -> Iterator[_Line]:
    if not table.has_headings:
        yield from _toned(_columns(table.texts, maximum_width, indent))
        return
    names = [column.name for column in table.columns]
    left = {column.name for column in table.columns if column.is_text}
    head, *rows = aligned(names, table.texts, left, table.expendable, maximum_width, indent=indent)
    yield head, Tone.HEADING if table.is_ranked else None
    yield from _toned(rows[:1], Tone.BEST if table.is_ranked else None)
    yield from _toned(rows[1:])


def _columns(
    rows: Iterable[Sequence[str]], maximum_width: int | None, indent: int
) -> Iterable[str]:
    """Align cells to the left, without headings."""
    cells = [*rows]
    return filter(
        None, aligned([""] * len(cells[0]), cells, {""}, maximum_width=maximum_width, indent=indent)
    )
