"""Notifications to systemd over a real datagram socket."""

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from rightsizer.io.systemd import Notifier


@pytest.fixture(params=["path", "abstract"])
def manager(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[socket.socket]:
    """A listening service manager, at a path or at one of Linux's abstract addresses."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as link:
        address = str(tmp_path / "notify")
        link.bind(address if request.param == "path" else f"\0{address}")
        link.settimeout(5)
        yield link


def environ_of(manager: socket.socket) -> dict[str, str]:
    """The environment that the manager gives to its service."""
    address = manager.getsockname()
    return {"NOTIFY_SOCKET": f"@{address[1:].decode()}" if isinstance(address, bytes) else address}


def test_each_message_is_one_datagram_of_systemds_words(manager: socket.socket) -> None:
    """The manager follows start, health and stop."""
    notifier = Notifier(environ_of(manager))

    sent = [
        notifier.ready(),
        notifier.watchdog(),
        notifier.status("8 GPUs,\nnothing to say"),
        notifier.stopping(),
    ]

    assert all(sent)
    assert [manager.recv(1024).decode() for _ in sent] == [
        "READY=1",
        "WATCHDOG=1",
        "STATUS=8 GPUs, nothing to say",
        "STOPPING=1",
    ]


@pytest.mark.parametrize(
    "environ",
    [
        pytest.param({}, id="no manager"),
        pytest.param({"NOTIFY_SOCKET": ""}, id="no address"),
        pytest.param({"NOTIFY_SOCKET": "vsock:2:1234"}, id="a kind that is not ours"),
        pytest.param({"NOTIFY_SOCKET": "/nonexistent/notify"}, id="a manager that has left"),
    ],
)
def test_without_a_manager_nothing_happens(environ: dict[str, str]) -> None:
    """The agent also runs in a terminal or a container: it sends nothing."""
    assert not Notifier(environ).ready()


def test_the_watchdog_is_fed_twice_as_often_as_the_manager_asks() -> None:
    """The interval is half of `WATCHDOG_USEC`, as sd_watchdog_enabled(3) recommends."""
    environ = {"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": str(os.getpid())}

    assert Notifier(environ).watchdog_interval == 15_000_000_000


@pytest.mark.parametrize(
    "environ",
    [
        {},
        {"WATCHDOG_USEC": "0"},
        {"WATCHDOG_USEC": "soon"},
        {"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": str(os.getpid() + 1)},
    ],
)
def test_no_watchdog_is_fed_that_is_not_ours(environ: dict[str, str]) -> None:
    """It is unset, off, malformed, or meant for the parent process."""
    assert Notifier(environ).watchdog_interval is None
