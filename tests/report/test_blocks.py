"""Blocks of an answer: in a terminal, as a page and as Markdown."""

import re
from html import unescape
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rightsizer.model.units import GIB
from rightsizer.report.block_markdown import markdown_of
from rightsizer.report.block_text import text_of
from rightsizer.report.blocks import (
    Bar,
    BarPart,
    Block,
    CellKind,
    Chart,
    Code,
    Items,
    Key,
    KeyValues,
    Section,
    Sentence,
    Tile,
    Tiles,
    Tone,
    bars,
    section,
    table,
)
from rightsizer.report.template import page_of

_BAR = "\N{FULL BLOCK}"
_ANSWER: tuple[Block, ...] = (
    "Two GPUs are idle.",
    table(
        ("GPU", ("memory", CellKind.GIB), ("idle", CellKind.DURATION), "why"),
        [("0", 79.6 * GIB, 7200.0, "held by train"), ("1", None, 60.0, "a|b")],
        note="and 3 more",
    ),
    section("Evidence", KeyValues((("Idle", "97%"), ("Threshold", "90%")))),
    section("Nothing", Items(()), section("Nothing in it")),
    section("How to", section("Delete the pod:", Code("kubectl delete pod")), "Then look again."),
    section("Options", Items(("release it", "share it"), is_numbered=True)),
    section("Where it goes", bars((("idle", 0.75), ("working", 0.25)))),
)


def test_terminal_indents_sections_and_leaves_out_empty_ones() -> None:
    """Tables and sections stand apart; sentences beside each other do not."""
    assert text_of(_ANSWER) == (
        "Two GPUs are idle.\n"
        "\n"
        "GPU    memory   idle  why\n"
        "0    79.6 GiB    2 h  held by train\n"
        "1           -  1 min  a|b\n"
        "and 3 more\n"
        "\n"
        "Evidence\n"
        "  Idle       97%\n"
        "  Threshold  90%\n"
        "\n"
        "How to\n"
        "  Delete the pod:\n"
        "      kubectl delete pod\n"
        "  Then look again.\n"
        "\n"
        "Options\n"
        "  1. release it\n"
        "  2. share it\n"
        "\n"
        "Where it goes\n"
        f"  {_BAR * 8}··  75%  idle\n"
        f"  {_BAR * 2}········  25%  working"
    )


def test_markdown_has_headings_by_depth_and_escaped_cells() -> None:
    """What is a mark in Markdown stays what it is."""
    text = markdown_of("GPUs of node_1 # 2", _ANSWER)
    assert text.startswith("# GPUs of node_1 # 2\n\nTwo GPUs are idle.\n\n| GPU |")
    assert "| 1   |        - | 1 min | a\\|b          |" in text
    assert "## How to\n\n### Delete the pod:\n\n```\nkubectl delete pod\n```" in text
    assert "1. release it\n1. share it" in text
    assert "Nothing" not in text


@pytest.mark.parametrize(
    ("block", "line"),
    [
        ("# no heading", "\\# no heading"),
        ("1. no list", "\\1. no list"),
        ("- no list", "\\- no list"),
        (Code("a ``` b"), "````"),
        ("<b>bold</b> `code` *strong*", "\\<b>bold\\</b> \\`code\\` \\*strong\\*"),
    ],
)
def test_markdown_of_a_text_is_that_text(block: Block, line: str) -> None:
    """Texts come from workloads and files of others."""
    assert line in markdown_of("title", [block]).splitlines()


def test_a_table_without_names_is_a_page_too() -> None:
    """It has no heading either."""
    page = page_of("title", [table(("", ""), [("memory", "80 GiB")])])
    assert 'aria-label="Table"' in page
    assert "<thead>" not in page


def test_rows_beyond_those_of_a_terminal_are_on_a_page() -> None:
    """Each says how many are left out; charts and what is drawn of them are on a page alone."""
    rows = [(str(at), Bar(str(at), (BarPart("all", "wasted", at / 9),))) for at in range(9)]
    long = table(
        ("GPU", "used"), rows, row_maximum=3, page_row_maximum=5, rest=" GPUs", search="a GPU"
    )
    page = page_of("title", [long, Chart(lambda: "<svg></svg>"), Key((), note="Drawn.")])
    assert page.count("<tr>") == 6
    assert "and 4 more GPUs" in page
    assert "<svg></svg>" in page
    assert "Drawn." in page
    text = text_of([long, Chart(lambda: "<svg></svg>"), Key((), note="Drawn.")])
    assert text == "GPU\n0\n1\n2\nand 6 more GPUs"


def test_money_of_a_table_adds_up() -> None:
    """A bill is exact to the dollar, though no price is known better than to three digits."""
    bill = table(("team", ("cost", CellKind.MONEY)), [("a", 1728.4), ("b", 4031.6), ("c", 0.5)])
    assert [cost for _, cost in bill.texts] == ["$1,728", "$4,032", "$0.50"]


class _Texts(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags = list[str]()
        self.texts = list[str]()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Collect."""
        del attrs
        self.tags.append(tag)

    def handle_data(self, data: str) -> None:
        """Collect."""
        self.texts.append(data)


_WORDS = st.text(
    st.characters(codec="utf-8", exclude_categories=["C", "Z"]), min_size=1, max_size=8
)
_LINES = st.lists(_WORDS, min_size=1, max_size=6).map(" ".join)
_CELLS = st.one_of(st.none(), _LINES, st.floats(0.0, 1e6))
_LEAVES = st.one_of(
    _LINES,
    st.lists(_LINES, max_size=3).map(lambda texts: Items(tuple(texts))),
    st.lists(st.tuples(_LINES, _LINES), max_size=3).map(lambda pairs: KeyValues(tuple(pairs))),
    st.lists(st.tuples(_LINES, st.floats(0.0, 1.0)), max_size=3).map(bars),
    st.lists(st.builds(Tile, _LINES, _LINES, _LINES), max_size=3).map(
        lambda tiles: Tiles(tuple(tiles))
    ),
    st.builds(Sentence, _LINES, st.sampled_from(Tone)),
    _LINES.map(lambda name: Key((("m-weights", name),), is_of_bars=True)),
    _LINES.map(lambda text: Bar("memory", (BarPart("weights", "m-weights", 0.5),), text)),
    st.tuples(
        _LINES, st.sampled_from(CellKind), st.lists(st.tuples(_LINES, _CELLS), max_size=3)
    ).map(lambda parts: table((parts[0], (f"{parts[0]} 2", parts[1])), parts[2])),
)
_BLOCKS = st.recursive(
    _LEAVES,
    lambda inner: st.tuples(_LINES, st.lists(inner, max_size=3)).map(
        lambda parts: Section(parts[0], tuple(parts[1]))
    ),
    max_leaves=6,
)


def _texts(block: Block) -> set[str]:
    """Words of a block that each rendering must have."""
    match block:
        case Section():
            inside = set[str]().union(*map(_texts, block.blocks))
            return {*inside, block.title} if inside else set()
        case Items():
            return set(block.texts)
        case KeyValues():
            return {text for pair in block.pairs for text in pair}
        case Tiles():
            return {text for tile in block.tiles for text in (tile.name, tile.value, tile.detail)}
        case str():
            return {block}
        case Key():
            return {name for _, name in block.colors}
        case Code() | Sentence() | Bar():
            return {block.text}
        case _:
            return {
                cell.text.strip() if isinstance(cell, Bar) else column.text(cell)
                for row in block.rows
                for column, cell in zip(block.columns, row, strict=True)
            }


def _squeezed(text: str) -> str:
    return re.sub(r"[\s\\]", "", text)


@given(st.lists(_BLOCKS, max_size=4), st.integers(40, 120))
def test_every_text_is_in_every_rendering(blocks: list[Block], most: int) -> None:
    """Whole, at any width, as text and never as markup."""
    parser = _Texts()
    parser.feed(page_of("title", blocks))
    markdown = markdown_of("title", blocks)
    terminal = text_of(blocks, most)
    page = unescape(" ".join(parser.texts))
    for text in set[str]().union(*map(_texts, blocks)):
        assert _squeezed(text) in _squeezed(page)
        assert _squeezed(text) in _squeezed(markdown)
        assert all(word in terminal for word in text.split())
    assert all(len(line) <= most or " " not in line.strip() for line in terminal.splitlines())
