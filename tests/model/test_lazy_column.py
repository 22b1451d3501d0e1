"""A lazy column is computed on first use, and otherwise reads like any other."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from rightsizer.model.block import LazyColumn


class Source:
    """Numbers, with the count of calls."""

    def __init__(self, values: Sequence[float]) -> None:
        self.values = values
        self.reads = 0

    def __call__(self) -> Sequence[float]:
        """All of them."""
        self.reads += 1
        return self.values


@given(st.lists(st.floats(0, 1)), st.slices(8))
def test_it_is_the_sequence_that_its_source_gives(values: list[float], part: slice) -> None:
    """Covers index, slice, iteration and length."""
    column = LazyColumn(len(values), Source(values))

    assert list(column) == values
    assert len(column) == len(values)
    assert list(column[part]) == values[part]
    assert [column[place] for place in range(len(values))] == values


def test_its_length_costs_no_reading_and_its_values_one() -> None:
    """This holds for any number of accesses."""
    source = Source([0.5, 0.25])
    column = LazyColumn(2, source)

    assert len(column) == 2
    assert source.reads == 0
    assert (sum(column), max(column), column[1]) == (0.75, 0.5, 0.25)
    assert source.reads == 1
