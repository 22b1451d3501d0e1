"""Form-encoded bodies."""

from urllib.parse import parse_qsl, urlencode

from hypothesis import given
from hypothesis import strategies as st

from rightsizer.io.http import form_text

TEXTS = st.text(st.characters(exclude_categories=("Cs",)), max_size=60)


@given(st.lists(st.tuples(TEXTS, TEXTS), max_size=5))
def test_a_form_is_written_as_the_standard_library_writes_it(pairs: list[tuple[str, str]]) -> None:
    """It is equal to the byte, for any content."""
    assert form_text(pairs) == urlencode(pairs).encode()


@given(st.lists(st.tuples(TEXTS.filter(bool), TEXTS), max_size=5))
def test_a_form_is_read_back(pairs: list[tuple[str, str]]) -> None:
    """A name may repeat, and keeps its place."""
    assert parse_qsl(form_text(pairs).decode(), keep_blank_values=True) == pairs
