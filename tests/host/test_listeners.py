"""Which process listens at an address."""

import os
import socket
import sys
from collections.abc import Collection, Mapping
from ipaddress import ip_address
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
        found = listening_process(host, port)
        with socket.create_connection((host, port)) as client:
            assert listening_process(host, client.getsockname()[1]) is None
    assert found == (os.getpid(), Path("/proc/self/comm").read_text().strip())
    assert listening_process(host, port) is None


def test_listener_of_another_user_is_not_known(tmp_path: Path) -> None:
    """Its descriptors are closed to others; a table that is missing or torn is no error."""
    (tmp_path / "net").mkdir()
    row = "   0: 0100007F:4BC8 00000000:0000 0A 0:0 0:0 0 0 0 77 1\n"
    (tmp_path / "net/tcp").write_text(f"  sl  local_address\n{row}")
    (tmp_path / "12").mkdir()
    assert listening_process("127.0.0.1", 19400, tmp_path) is None
    (tmp_path / "13/fd").mkdir(parents=True)
    (tmp_path / "13/fd/3").symlink_to("socket:[77]")
    (tmp_path / "13/comm").write_text("python\n")
    assert listening_process("127.0.0.1", 19400, tmp_path) == (13, "python")


@pytest.mark.parametrize(
    ("asked", "name"),
    [
        ("127.0.0.1", "exact"),
        ("127.0.0.2", "other"),
        ("127.0.0.3", "wildcard"),
        ("::1", "wildcard"),
        ("", "wildcard"),
        ("0.0.0.0", "exact"),
    ],
)
def test_closest_listener_of_a_port_is_the_one_that_collides(
    tmp_path: Path, asked: str, name: str
) -> None:
    """Others at the same port, which another address of this machine has, are innocent."""
    procfs = _procfs(
        tmp_path, {"exact": "127.0.0.1", "other": "127.0.0.2", "wildcard": "::"}, systemd=()
    )
    assert (listening_process(asked, 19400, procfs) or ("", ""))[1] == name


@pytest.mark.parametrize(
    ("local", "asked", "is_named"),
    [
        ("127.0.0.2", "127.0.0.1", False),
        ("127.0.0.2", "localhost", False),
        ("127.0.0.2", "0.0.0.0", True),
        ("127.0.0.2", "", True),
        ("0.0.0.0", "127.0.0.1", True),
        ("0.0.0.0", "::1", False),
        ("::", "127.0.0.1", True),
        ("::1", "::", True),
        ("::1", "0.0.0.0", False),
        ("::ffff:127.0.0.1", "127.0.0.1", True),
        ("fe80::1", "fe80::1%lo", True),
        ("127.0.0.1", "no.such.host.invalid", False),
    ],
)
def test_only_addresses_that_cannot_be_bound_beside_each_other_collide(
    tmp_path: Path,
    local: str,
    asked: str,
    is_named: bool,  # noqa: FBT001
) -> None:
    """A wildcard collides with its family; that of IPv6 may take IPv4, too."""
    procfs = _procfs(tmp_path, {"server": local}, systemd=())
    assert (listening_process(asked, 19400, procfs) is not None) is is_named


def test_unit_of_an_activated_socket_is_named_before_systemd(tmp_path: Path) -> None:
    """Pid 1 holds the socket as well, alone until the first connection."""
    procfs = _procfs(tmp_path / "both", {"server": "127.0.0.1"}, systemd=("server",))
    assert listening_process("127.0.0.1", 19400, procfs) == (10, "server")
    procfs = _procfs(tmp_path / "alone", {"systemd": "127.0.0.1"}, systemd=("systemd",))
    (procfs / "10/fd/3").unlink()
    assert listening_process("127.0.0.1", 19400, procfs) == (1, "systemd")


def _procfs(folder: Path, listeners: Mapping[str, str], systemd: Collection[str]) -> Path:
    """Write processes from pid 10 on that listen at port 19400, by command name."""
    rows: dict[str, list[str]] = {"tcp": ["head"], "tcp6": ["head"]}
    for pid, (name, text) in enumerate(listeners.items(), 10):
        packed = ip_address(text).packed
        digits = "".join(
            f"{int.from_bytes(packed[at : at + 4], sys.byteorder):08X}"
            for at in range(0, len(packed), 4)
        )
        table = rows["tcp6" if ":" in text else "tcp"]
        table.append(f"   0: {digits}:4BC8 0:0 0A 0:0 0:0 0 0 0 {pid} 1")
        for holder, comm in [(pid, name), *([(1, "systemd")] if name in systemd else [])]:
            (folder / f"{holder}/fd").mkdir(parents=True)
            (folder / f"{holder}/fd/3").symlink_to(f"socket:[{pid}]")
            (folder / f"{holder}/comm").write_text(f"{comm}\n")
    (folder / "net").mkdir()
    for table_name, lines in rows.items():
        (folder / "net" / table_name).write_text("\n".join(lines) + "\n")
    return folder
