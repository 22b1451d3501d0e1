"""Blocks of an answer: what it shows, made once, for terminal, HTML and Markdown."""

from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from typing import Any, Final, TypeAlias, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from rightsizer.model.units import GIB, dollars_text, format_duration, number_text, percent_text

NOTHING: Final = "-"
BAR_WIDTH: Final = 10
"""Characters of a bar in a cell."""
GLYPHS: Final = "█▓▒░▞▬"
"""Parts of a bar in a terminal, in their order."""


class Tone(StrEnum):
    """How a line or a cell stands out."""

    HEADING = "heading"
    BEST = "best"
    WARNING = "warning"
    FAINT = "faint"


class Sentence(Struct, frozen=True):
    """Sentence that stands out from plain ones."""

    text: str
    tone: Tone


class BarPart(Struct, frozen=True):
    """Part of a bar: its name, its class in the style sheet, and its share of the whole."""

    name: str
    color: str
    share: float


class Bar(Struct, frozen=True):
    """Parts of a whole from left to right, and a text that says more; the rest is empty."""

    name: str
    parts: tuple[BarPart, ...]
    text: str = ""
    limit: float | None = None
    """Where a page draws a line, as a share of the width."""
    ends: tuple[float, float] | None = None
    """Interval of the sum of the parts, if it is uncertain."""

    @property
    def glyphs(self) -> str:
        """The same in characters."""
        reached = 0.0
        drawn = ""
        for glyph, part in zip(GLYPHS, self.parts, strict=False):
            reached += part.share
            drawn += glyph * (round(min(1.0, reached) * BAR_WIDTH) - len(drawn))
        return drawn.ljust(BAR_WIDTH, "·")


class Chart(Struct, frozen=True):
    """Chart of a page, as a block or a cell; elsewhere there is its text alone."""

    draw: Callable[[], str]
    """Returns escaped markup."""
    text: str = ""


class Figure(Struct, frozen=True):
    """Number in a cell with a unit of its own."""

    value: float
    text: str


class Fold(Struct, frozen=True):
    """Text of a cell that a page unfolds."""

    text: str
    inside: "Section"


Cell: TypeAlias = str | float | Figure | Fold | Sentence | Bar | Chart | None
"""A text as it is, a number in the base unit of its column, or `None` if it is not known."""


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
    is_below: bool = False
    """Whether a page has its cells below those of the column before."""
    widest: int | None = None
    """Characters of a text beyond which all but a page cut it."""
    is_filter: bool = False
    """Whether only a page has it, where its texts can be chosen from."""
    is_summed: bool = False
    """Whether such a page sums up its numbers, of the rows shown."""

    @property
    def is_text(self) -> bool:
        """Whether it is aligned to the left."""
        return self.kind is CellKind.TEXT

    def text(self, cell: Cell) -> str:
        """Format a cell."""
        match cell:
            case None:
                return NOTHING
            case Bar():
                return f"{cell.glyphs} {cell.text}" if cell.text else ""
            case Sentence() | Chart() | Figure() | Fold():
                return cell.text
            case str():
                return cell
        return _FORMATS[self.kind](cell)


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
    has_total: bool = False
    """Whether the last row sums up the others."""
    row_maximum: int | None = None
    """Rows that are not only on a page; `None` for all."""
    page_row_maximum: int | None = None
    """Rows of a page."""
    rest: str = ""
    """What the other rows are, and where, such as ` teams; --json has all`."""
    anchors: tuple[str, ...] = ()
    """Fragments of a page that lead to its rows."""
    search: str = ""
    """What a page with scripts searches in it; it sorts by each column, too."""

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

    @property
    def written(self) -> "Table":
        """The same as text: without columns of a page alone, and cut."""
        places = [
            place
            for place in range(len(self.columns))
            if not self.columns[place].is_filter
            and not all(_is_drawn(row[place]) for row in self.rows)
        ]
        columns = tuple(self.columns[place] for place in places)
        cut = self.cut(self.row_maximum)
        rows = tuple(
            tuple(_cut(row[place], self.columns[place].widest) for place in places)
            for row in cut.rows
        )
        return replace(cut, columns=columns, rows=rows)

    def cut(self, row_maximum: int | None) -> "Table":
        """Return the first rows, and how many there are more."""
        more = len(self.rows) - len(self.rows[:row_maximum])
        notes = (f"and {more:,} more{self.rest}" if more else "", self.note)
        return replace(self, rows=self.rows[:row_maximum], note="; ".join(filter(None, notes)))


def _cut(cell: Cell, widest: int | None) -> Cell:
    is_long = widest is not None and isinstance(cell, str) and len(cell) > widest
    return f"{str(cell)[: widest - 3]}..." if widest and is_long else cell


def _is_drawn(cell: Cell) -> bool:
    return isinstance(cell, Bar | Chart) and not cell.text


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


class Key(Struct, frozen=True):
    """Colors of bars and charts: class in the style sheet, and name."""

    colors: tuple[tuple[str, str], ...]
    is_of_bars: bool = False
    """Whether a terminal draws them, too, the parts in this order."""
    note: str = ""
    """Sentence of a page about what is drawn."""

    @property
    def text(self) -> str:
        """Glyphs of a terminal with their names; empty for others."""
        names = (f"{glyph} {name}" for glyph, (_, name) in zip(GLYPHS, self.colors, strict=False))
        return "  ".join(names) if self.is_of_bars else ""


class Code(Struct, frozen=True):
    """Lines to copy, which are never wrapped."""

    text: str


class Look(StrEnum):
    """How a page shows a section."""

    PLAIN = "plain"
    CARD = "card"
    FOLDED = "folded"


class Section(Struct, frozen=True):
    """Blocks under a heading, whose level is the depth."""

    title: str
    blocks: "tuple[Block, ...]"
    look: Look = Look.PLAIN


Block: TypeAlias = (
    str | Sentence | Tiles | Table | KeyValues | Items | Bar | Key | Chart | Code | Section
)
"""A text is a sentence, or a paragraph."""


_Row = TypeVar("_Row")
Heading: TypeAlias = str | tuple[str, CellKind] | Column
"""Name of a column of texts, or name and kind."""


def number_column(name: str) -> Column:
    """Make a column of numbers, or of texts that are aligned as such."""
    return Column(name, CellKind.NUMBER)


def table(
    columns: Iterable[Heading], rows: Iterable[Iterable[Cell]], note: str = "", **options: Any
) -> Table:
    """Make a table; `options` are its other fields."""
    return Table(tuple(map(_column, columns)), tuple(map(tuple, rows)), note=note, **options)


def table_of(
    rows: Iterable[_Row],
    columns: Mapping[Heading, Callable[[_Row], Cell]],
    *,
    note: str = "",
    **options: Any,
) -> Table:
    """Make a table of values, of which each column has a function for its cells."""
    cells = ([cell(row) for cell in columns.values()] for row in rows)
    return table(columns, cells, note, **options)


def _column(heading: Heading) -> Column:
    match heading:
        case Column():
            return heading
        case str():
            return Column(heading)
    return Column(*heading)


def bars(shares: Iterable[tuple[str, float]]) -> Table:
    """Make a table of shares of a whole, a bar each."""
    return table(
        ("", ""),
        (
            (Bar(name, (BarPart(name, "wasted", share),), f"{percent_text(share):>4}"), name)
            for name, share in shares
        ),
    )


def section(title: str, *blocks: Block, look: Look = Look.PLAIN) -> Section:
    """Make a section."""
    return Section(title, blocks, look)


def shown(blocks: Iterable[Block], *, is_drawn: bool = False) -> tuple[Block, ...]:
    """Return the blocks that have something to show, as text or where it is drawn, too."""
    return tuple(block for block in blocks if not _is_empty(block, is_drawn=is_drawn))


def _is_empty(block: Block, *, is_drawn: bool) -> bool:
    match block:
        case Section():
            return not shown(block.blocks, is_drawn=is_drawn)
        case Table():
            return not block.rows
        case Tiles():
            return not block.tiles
        case KeyValues():
            return not block.pairs
        case Items():
            return not block.texts
        case Key() | Bar() | Chart():
            return not is_drawn and not block.text
        case Code() | Sentence():
            return not block.text
        case _:
            return not block
