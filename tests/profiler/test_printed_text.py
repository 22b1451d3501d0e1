"""Numbers and units as programs print them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rightsizer.profiles.printed_text import (
    DecimalMark,
    bytes_in,
    decimal_mark,
    printed_number,
    seconds_in,
)


@pytest.mark.parametrize(
    ("texts", "mark"),
    [
        (["1,234", "0,000"], ","),
        (["134,221,568"], "."),
        (["4,963,609,951.19"], "."),
        (["1.234.567,8"], ","),
        (["61.84"], "."),
        (["1,234", "n/a", ""], "."),
        (["1.234", "12,5"], ","),
        (["8.5", "1,25", "0,75"], ","),
    ],
)
def test_unambiguous_numbers_tell_the_decimal_mark(texts: list[str], mark: DecimalMark) -> None:
    """A single group of three digits is ambiguous; most of the others decide."""
    assert decimal_mark(texts) == mark


@pytest.mark.parametrize(
    ("text", "mark", "value"),
    [("8.5", ",", 8.5), ("8,5", ".", 8.5), ("1.234", ",", 1234.0), ("1.234", ".", 1.234)],
)
def test_file_decides_on_ambiguous_numbers_alone(
    text: str, mark: DecimalMark, value: float
) -> None:
    """What is no group of three digits is a fraction, whatever others in the file look like."""
    assert printed_number(text, mark) == value


@pytest.mark.parametrize(
    "text", ["", "n/a", "inf", "nan", "1e999", "1e300", "12 apples", "0x10", "--5"]
)
def test_text_that_is_no_number_is_none(text: str) -> None:
    """The result is `None`, never 0."""
    assert printed_number(text) is None


@given(st.floats(-1e15, 1e15), st.sampled_from([",", "\u202f", "'", ""]))
def test_grouped_numbers_are_read_back(value: float, group: str) -> None:
    """Any thousands separator is accepted."""
    assert printed_number(f"{value:,.3f}".replace(",", group)) == pytest.approx(value, abs=1e-3)


def test_units_are_known_or_none() -> None:
    """Old and new names are known; an unknown unit has no factor."""
    assert [seconds_in(unit) for unit in ("ns", "usecond", "ms", "s", "%")] == [
        1e-9,
        1e-6,
        1e-3,
        1.0,
        None,
    ]
    assert [bytes_in(unit) for unit in ("byte", "Kbyte", "GiB", "Gbyte/s", "MBps", "hz")] == [
        1.0,
        1e3,
        2.0**30,
        1e9,
        1e6,
        None,
    ]
