"""Tables of commands in the width of a terminal."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rightsizer.io.terminal import aligned, width, wrapped

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


_TEXTS = st.text("ab c-", max_size=30).map(lambda text: " ".join(text.split()))


@given(
    st.lists(st.tuples(_TEXTS, st.from_regex(r"\d{1,3}(,\d{3}){0,4}", fullmatch=True), _TEXTS)),
    st.integers(20, 120),
    st.integers(0, 4),
)
def test_no_word_or_number_is_broken(
    rows: list[tuple[str, str, str]], most: int, indent: int
) -> None:
    """Whatever the width; a line beyond it is a word that is wider by itself."""
    lines = aligned(("a", "b", "c"), rows, {"a", "c"}, (), most, indent=indent)
    shown = [word for line in lines for word in line.split() if word not in {"a:", "b:", "c:"}]
    given_words = [word for row in rows for cell in row for word in cell.split()]
    header = [] if "b:" in " ".join(lines) else ["a", "b", "c"]
    assert sorted(shown) == sorted([*header, *given_words])
    assert all(len(line) <= most or len(line.strip()) > most - indent - 4 for line in lines)


def test_a_table_wider_than_the_terminal_is_told_by_cell() -> None:
    """Numbers and names of boards stay whole; empty cells are left out."""
    rows = [("1 x H100-PCIE-80GB", "1,234,567.89", "1x1x1x1"), ("2 x L4", "3.50", "")]
    lines = aligned(("GPUs", "tokens/s", "layout"), rows, {"GPUs"}, (), 32, indent=2)
    assert lines == [
        "  GPUs: 1 x H100-PCIE-80GB",
        "    tokens/s: 1,234,567.89",
        "    layout: 1x1x1x1",
        "  GPUs: 2 x L4",
        "    tokens/s: 3.50",
    ]


def test_a_text_is_wrapped_before_that() -> None:
    """Between words, not at hyphens."""
    rows = [("1 x H100-PCIE-80GB", "1,234")]
    lines = aligned(("GPUs", "tokens/s"), rows, {"GPUs"}, (), 27)
    assert lines == ["GPUs               tokens/s", "1 x                   1,234", "H100-PCIE-80GB"]


def test_expendable_columns_go_before_an_indented_table_is_wrapped() -> None:
    """The indent counts; a new last column is judged by its own width."""
    rows = [("1" * 10, "y" * 10, "some words here")]
    lines = aligned(("a", "opt", "text"), rows, {"opt", "text"}, ("opt",), 40, indent=6)
    assert lines[1] == "      1111111111  some words here"
    rows = [("x" * 20, "1,234,567", "a few words more")]
    names = ("a", "n", "text")
    assert aligned(names, rows, {"a", "text"}, ("text", "n"), 24)[1] == "x" * 20


@pytest.mark.parametrize("rows", [(), [("", "", "", "")]])
def test_a_table_without_texts_has_its_header(rows: list[tuple[str, ...]]) -> None:
    """An empty last cell is a cell."""
    assert aligned(_HEADER, rows, _LEFT, (), 40)[0] == "GPU  cost  range  why"


def test_the_word_of_an_error_is_never_alone() -> None:
    """A line is found by its first words, however long the next one is."""
    path = "/a" * 60
    assert wrapped(f"error: {path}: is no file", maximum_width=40)[0] == f"error: {path}:"


def test_a_pipe_has_the_width_that_the_user_states(monkeypatch: pytest.MonkeyPatch) -> None:
    """As `--help` and `top` have; without it a line has 100, and a table what its cells need."""
    rows = [("H100", "8.00-12.00", "twice as dear")]
    header = ("GPU", "range", "why")
    monkeypatch.delenv("COLUMNS", raising=False)
    assert width() == 100
    assert len(aligned(header, rows, {"GPU", "why"})[1]) == 31
    monkeypatch.setenv("COLUMNS", "60")
    assert width() == 60
    longer = [("H100", "8.00-12.00", "dear " * 20)]
    assert all(len(line) <= 60 for line in aligned(header, longer, {"GPU", "why"}))
