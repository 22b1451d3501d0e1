"""Blocks as Markdown, whose tables are legible in a terminal, too."""

import re
from collections.abc import Iterable, Iterator
from typing import Final

from rightsizer.report.blocks import (
    Bar,
    Block,
    Chart,
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

_SPECIAL: Final = re.compile(r"([\\`*\[|~]|<(?=[A-Za-z/!?])|&(?=#?\w+;)|(?<!\w)_|_(?!\w))")
"""Characters with a meaning in Markdown; others stay unescaped, for readers in a terminal."""
_AT_START: Final = re.compile(r"^(#{1,6}(?= )|[-+>](?= |$)|\d+(?=[.)] ))")
"""What would begin a heading, a list or a quote."""
_WIDEST: Final = 48
"""Width beyond which a cell does not widen its column."""
_DEEPEST: Final = 6
"""Level of headings."""
_BACKTICKS: Final = re.compile("`{3,}")


def markdown_of(title: str, blocks: Iterable[Block]) -> str:
    """Return a document."""
    return "\n\n".join([f"# {escaped(title)}", *_parts(blocks, 2)]) + "\n"


def escaped(text: str) -> str:
    """Escape a text for Markdown, in one line."""
    return _SPECIAL.sub(r"\\\1", " ".join(text.split()))


def _parts(blocks: Iterable[Block], level: int) -> Iterator[str]:
    for block in shown(blocks):
        if isinstance(block, Section):
            yield f"{'#' * min(level, _DEEPEST)} {escaped(block.title)}"
            yield from _parts(block.blocks, level + 1)
        else:
            yield from filter(None, _block(block))


def _block(block: Block) -> Iterator[str]:
    match block:
        case Sentence():
            text = _paragraph(block.text)
            yield text if block.tone is Tone.FAINT else f"**{text}**"
        case Table():
            yield _paragraph(block.caption)
            written = block.written
            yield _table(written)
            yield _paragraph(written.note)
        case Tiles():
            texts = (
                f"{tile.name}: {'; '.join(filter(None, (tile.value, tile.detail)))}"
                for tile in block.tiles
            )
            yield from _block(Items(tuple(texts)))
        case KeyValues():
            yield "\n".join(f"- {escaped(name)}: {escaped(value)}" for name, value in block.pairs)
        case Items():
            mark = "1." if block.is_numbered else "-"
            yield "\n".join(f"{mark} {escaped(text)}" for text in block.texts)
        case Bar() | Chart() | Key():
            yield _paragraph(block.text)
        case Code():
            fence = "`" * max(3, *(len(run) + 1 for run in _BACKTICKS.findall(block.text)), 0)
            yield f"{fence}\n{block.text}\n{fence}"
        case str():
            yield _paragraph(block)


def _paragraph(text: str) -> str:
    return _AT_START.sub(lambda start: f"\\{start[0]}", escaped(text))


def _table(table: Table) -> str:
    names = [escaped(column.name) for column in table.columns]
    rows = [[escaped(cell) for cell in row] for row in table.texts]
    widths = [
        max(3, *(min(_WIDEST, len(cell)) for cell in column))
        for column in zip(names, *rows, strict=True)
    ]
    sides = [(size, column.is_text) for size, column in zip(widths, table.columns, strict=True)]
    rule = ["-" * size if is_left else f"{'-' * (size - 1)}:" for size, is_left in sides]
    lines = (
        [
            cell.ljust(size) if is_left else cell.rjust(size)
            for cell, (size, is_left) in zip(row, sides, strict=True)
        ]
        for row in (names, rule, *rows)
    )
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
