"""Blocks in a terminal: sections indented by two, sentences wrapped, columns aligned."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from rightsizer.io.terminal import aligned, width, wrapped
from rightsizer.model.units import percent_text
from rightsizer.report.blocks import (
    Bars,
    Block,
    Code,
    Items,
    KeyValues,
    Section,
    Table,
    shown,
)

_INDENT: Final = 2
_BAR_WIDTH: Final = 20


def text_of(blocks: Iterable[Block], most: int | None = None) -> str:
    """Return lines of at most so many characters, by default as a terminal has.

    Elsewhere a table is as wide as its cells.
    """
    return "\n".join(_lines(blocks, most, 0))


def _lines(blocks: Iterable[Block], most: int | None, indent: int) -> Iterator[str]:
    # Sections in a section are as dense as a list.
    apart = Table if indent else (Section, Table)
    before: Block | None = None
    for block in shown(blocks):
        if before and isinstance(before, apart) | isinstance(block, apart):
            yield ""
        yield from _block(block, most, indent)
        before = block


def _block(block: Block, most: int | None, indent: int) -> Iterator[str]:
    match block:
        case Section():
            yield from wrapped(block.title, indent, most=most)
            yield from _lines(block.blocks, most, indent + _INDENT)
        case Table():
            yield from wrapped(block.caption, indent, 0, most)
            yield from _table(block, most, indent)
            yield from wrapped(block.note, indent, 0, most)
        case KeyValues():
            yield from _columns(block.pairs, most or width(), indent)
        case Items():
            for place, text in enumerate(block.texts, 1):
                numbered = f"{place}. {text}" if block.is_numbered else text
                yield from wrapped(numbered, indent, most=most)
        case Bars():
            rows = (
                (_bar(share), f"{percent_text(share):>4}", name) for name, share in block.shares
            )
            yield from _columns(rows, most or width(), indent)
        case Code():
            yield from (" " * (indent + _INDENT) + line for line in block.text.splitlines())
        case _:
            yield from wrapped(block, indent, 0, most)


def _table(table: Table, most: int | None, indent: int) -> Iterable[str]:
    if not table.has_headings:
        return _columns(table.texts, most, indent)
    names = [column.name for column in table.columns]
    left = {column.name for column in table.columns if column.is_text}
    return aligned(names, table.texts, left, table.expendable, most, indent=indent)


def _columns(rows: Iterable[Sequence[str]], most: int | None, indent: int) -> Iterable[str]:
    """Align cells to the left, without headings."""
    cells = [*rows]
    return filter(None, aligned([""] * len(cells[0]), cells, {""}, most=most, indent=indent))


def _bar(share: float) -> str:
    return "\N{FULL BLOCK}" * max(1, round(share * _BAR_WIDTH))
