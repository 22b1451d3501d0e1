"""Arrays of floats made at once."""

from array import array

from hypothesis import given
from hypothesis import strategies as st

from rightsizer.fleet.cache.day_frame import floats


@given(st.lists(st.floats()))
def test_they_are_what_an_array_makes_of_the_same_numbers(numbers: list[float]) -> None:
    """Unknown, infinite and too large ones among them."""
    assert floats(numbers).tobytes() == array("f", numbers).tobytes()
