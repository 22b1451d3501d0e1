"""Addresses in operators' spellings, and ones in use."""

import socket
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rightsizer.model.errors import RightsizerError, UsageError
from rightsizer.web.listener import listening_socket
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


def test_listener_at_another_address_of_the_port_is_not_blamed() -> None:
    """Two processes share a port at two addresses; the one in the way is named."""
    with socket.create_server(("127.0.0.1", 0)) as innocent:
        port = innocent.getsockname()[1]
        bind = "import socket, sys; s = socket.create_server(('127.0.0.2', int(sys.argv[1])));"
        program = f"{bind} print('bound', flush=True); sys.stdin.read()"
        other = subprocess.Popen(
            [sys.executable, "-c", program, str(port)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        with other:
            assert other.stdout is not None
            assert other.stdout.readline() == b"bound\n"
            with pytest.raises(RightsizerError) as failure:
                listening_socket(Address("127.0.0.2", port))
            other.communicate()
    assert f"by process {other.pid} (" in str(failure.value)
    assert "kill" not in str(failure.value)
