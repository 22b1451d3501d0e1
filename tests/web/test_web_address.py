"""Addresses in operators' spellings."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rightsizer.model.errors import UsageError
from rightsizer.web.settings import Address, parse_address


@pytest.mark.parametrize(
    ("text", "address"),
    [
        (":19400", Address("", 19400)),
        ("127.0.0.1:0", Address("127.0.0.1", 0)),
        ("[::1]:19400", Address("::1", 19400)),
        ("gpu-node.example:80", Address("gpu-node.example", 80)),
    ],
)
def test_all_forms_are_understood(text: str, address: Address) -> None:
    """Every form that Prometheus exporters accept means the same here."""
    assert parse_address(text) == address
    assert str(address) == text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("19400", "'19400' is not an address; write it like ':19400'"),
        ("", "'' is not an address; write it like"),
        ("host:http", "'host:http' is not an address"),
        ("::1:19400", "put an IPv6 host in brackets, like '[::1]:19400'"),
        ("localhost:70000", "port 70000 does not exist; the highest is 65535"),
    ],
)
def test_other_texts_are_refused_with_the_remedy(text: str, message: str) -> None:
    """The message repeats the text and shows a valid one."""
    with pytest.raises(UsageError) as refusal:
        parse_address(text)
    assert message in str(refusal.value)
    assert refusal.value.exit_code == 2


@given(st.text(max_size=30))
def test_no_text_breaks_the_parser(text: str) -> None:
    """Any text is either an address or rejected."""
    try:
        address = parse_address(text)
    except UsageError:
        return
    assert 0 <= address.port <= 65535
