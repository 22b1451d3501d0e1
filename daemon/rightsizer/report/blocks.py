"""Blocks of an answer: what it shows, made once, for terminal, HTML and Markdown."""

from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from typing import Final, TypeAlias

from msgspec import Struct

from rightsizer.model.units import GIB, dollars_text, format_duration, number_text, percent_text

NOTHING: Final = "-"
Cell: TypeAlias = str | float | None
"""A text as it is, a number in the base unit of its column, or `None` if it is not known."""


class Tone(StrEnum):
    """How a line stands out."""

    HEADING = "heading"
    BEST = "best"
    WARNING = "warning"
    FAINT = "faint"


class Sentence(Struct, frozen=True):
    """Sentence that stands out from plain ones."""

    text: str
    tone: Tone


class CellKind(StrEnum):
    """What the cells of a column are; all but texts are aligned to the right."""

    TEXT = "text"
    NUMBER = "number"
    PERCENT = "percent"
    MONEY = "money"
    GIB = "GiB"
    DURATION = "duration"


def _money(dollars: float) -> str:
    """Format whole dollars, so that rows add up to their sum; cents below $10."""
    return dollars_text(dollars) if dollars < _CENTS_BELOW else f"${dollars:,.0f}"


_CENTS_BELOW: Final = 10.0
_FORMATS: Final[Mapping[CellKind, Callable[[float], str]]] = {
    CellKind.TEXT: str,
    CellKind.NUMBER: number_text,
    CellKind.PERCENT: percent_text,
    CellKind.MONEY: _money,
    CellKind.GIB: lambda value: f"{value / GIB:.1f} GiB",
    CellKind.DURATION: format_duration,
}


class Column(Struct, frozen=True):
    """Heading of a table's column, and the kind of its cells."""

    name: str
    kind: CellKind = CellKind.TEXT

    @property
    def is_text(self) -> bool:
        """Whether it is aligned to the left."""
        return self.kind is CellKind.TEXT

    def text(self, cell: Cell) -> str:
        """Format a cell."""
        if cell is None:
            return NOTHING
        return cell if isinstance(cell, str) else _FORMATS[self.kind](cell)


class Table(Struct, frozen=True):
    """Rows under columns; columns without any name have no headings."""

    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    caption: str = ""
    note: str = ""
    """Sentence below it, such as how many rows are left out."""
    is_ranked: bool = False
    """Whether the first row is the best."""
    expendable: tuple[str, ...] = ()
    """Columns that a narrow terminal leaves out, first to last."""

    @property
    def has_headings(self) -> bool:
        """Whether any column has a name."""
        return any(column.name for column in self.columns)

    @property
    def texts(self) -> list[list[str]]:
        """Cells as text."""
        return [
            [column.text(cell) for column, cell in zip(self.columns, row, strict=True)]
            for row in self.rows
        ]


class Tile(Struct, frozen=True):
    """Figure that is seen first."""

    name: str
    value: str
    detail: str = ""


class Tiles(Struct, frozen=True):
    """A few figures, large on a page."""

    tiles: tuple[Tile, ...]


class KeyValues(Struct, frozen=True):
    """Named facts, a line each."""

    pairs: tuple[tuple[str, str], ...]


class Items(Struct, frozen=True):
    """Sentences of equal rank, numbered if their order matters."""

    texts: tuple[str, ...]
    is_numbered: bool = False


class Bars(Struct, frozen=True):
    """Shares of a whole, a bar each."""

    shares: tuple[tuple[str, float], ...]


class Code(Struct, frozen=True):
    """Lines to copy, which are never wrapped."""

    text: str


class Section(Struct, frozen=True):
    """Blocks under a heading, whose level is the depth."""

    title: str
    blocks: "tuple[Block, ...]"


Block: TypeAlias = str | Sentence | Tiles | Table | KeyValues | Items | Bars | Code | Section
"""A text is a sentence, or a paragraph."""


Heading: TypeAlias = str | tuple[str, CellKind]
"""Name of a column of texts, or name and kind."""


def table(columns: Iterable[Heading], rows: Iterable[Iterable[Cell]], note: str = "") -> Table:
    """Make a table."""
    headings = (
        Column(column) if isinstance(column, str) else Column(*column) for column in columns
    )
    return Table(tuple(headings), tuple(map(tuple, rows)), note=note)


def section(title: str, *blocks: Block) -> Section:
    """Make a section."""
    return Section(title, blocks)


def shown(blocks: Iterable[Block]) -> tuple[Block, ...]:
    """Return the blocks that have something to show."""
    return tuple(block for block in blocks if not _is_empty(block))


def _is_empty(block: Block) -> bool:
    match block:
        case Section():
            return not shown(block.blocks)
        case Table():
            return not block.rows
        case Tiles():
            return not block.tiles
        case KeyValues():
            return not block.pairs
        case Items():
            return not block.texts
        case Bars():
            return not block.shares
        case Code() | Sentence():
            return not block.text
        case _:
            return not block
