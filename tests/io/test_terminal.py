"""Tables of commands in the width of a terminal."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rightsizer.io.terminal import aligned

_HEADER = ("GPU", "cost", "range", "why")
_LEFT = {"GPU", "why"}
_ROWS = (
    ("H100", "1.20", "1.00-1.40", ""),
    ("A100-SXM4-80GB", "10.00", "8.00-12.00", "twice as dear; tight memory"),
)


def _lines(most: float | None) -> str:
    return "\n".join(aligned(_HEADER, _ROWS, _LEFT, ("range", "cost"), most))


def test_a_table_is_as_wide_as_its_cells_off_a_terminal() -> None:
    """Numbers to the right, texts to the left, no trailing blanks."""
    assert _lines(None) == (
        "GPU              cost       range  why\n"
        "H100             1.20   1.00-1.40\n"
        "A100-SXM4-80GB  10.00  8.00-12.00  twice as dear; tight memory"
    )


def test_a_narrow_terminal_wraps_the_last_column() -> None:
    """As long as 16 columns remain for it."""
    assert _lines(55) == (
        "GPU              cost       range  why\n"
        "H100             1.20   1.00-1.40\n"
        "A100-SXM4-80GB  10.00  8.00-12.00  twice as dear; tight\n"
        "                                   memory"
    )


def test_a_narrower_terminal_leaves_expendable_columns_out_in_turn() -> None:
    """The first named goes first; the others stay."""
    assert _lines(40) == (
        "GPU              cost  why\n"
        "H100             1.20\n"
        "A100-SXM4-80GB  10.00  twice as dear;\n"
        "                       tight memory"
    )
    assert _lines(33).splitlines()[0] == "GPU             why"


@given(
    st.lists(st.lists(st.text("ab c", max_size=30), min_size=3, max_size=3), max_size=5),
    st.integers(40, 120),
)
def test_no_line_is_wider_than_the_terminal(rows: list[list[str]], most: int) -> None:
    """Whatever the widths of its columns."""
    words = [[a, b, " ".join(c.split())] for a, b, c in rows]
    lines = aligned(("a", "b", "c"), words, {"a", "c"}, ("b",), most)
    assert max(map(len, lines)) <= most


@pytest.mark.parametrize("rows", [(), [("", "", "", "")]])
def test_a_table_without_texts_has_its_header(rows: list[tuple[str, ...]]) -> None:
    """An empty last cell is a cell."""
    assert aligned(_HEADER, rows, _LEFT, (), 40)[0] == "GPU  cost  range  why"
