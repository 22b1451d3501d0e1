"""Which process listens on a port."""

import os
import socket
from pathlib import Path

import pytest

from rightsizer.host.listeners import listening_process


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_own_listener_is_found(host: str) -> None:
    """Of both families; the port is free again afterwards."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    if ":" in host and not socket.has_ipv6:
        pytest.skip("no IPv6 here")
    with socket.create_server((host, 0), family=family) as server:
        port = server.getsockname()[1]
        found = listening_process(port)
        with socket.create_connection((host, port)) as client:
            assert listening_process(client.getsockname()[1]) is None
    assert found == (os.getpid(), Path("/proc/self/comm").read_text().strip())
    assert listening_process(port) is None


def test_listener_of_another_user_is_not_known(tmp_path: Path) -> None:
    """Its descriptors are closed to others; a table that is missing or torn is no error."""
    (tmp_path / "net").mkdir()
    row = "   0: 0100007F:4BC8 00000000:0000 0A 0:0 0:0 0 0 0 77 1\n"
    (tmp_path / "net/tcp").write_text(f"  sl  local_address\n{row}")
    (tmp_path / "12").mkdir()
    assert listening_process(19400, tmp_path) is None
    (tmp_path / "13/fd").mkdir(parents=True)
    (tmp_path / "13/fd/3").symlink_to("socket:[77]")
    (tmp_path / "13/comm").write_text("python\n")
    assert listening_process(19400, tmp_path) == (13, "python")
