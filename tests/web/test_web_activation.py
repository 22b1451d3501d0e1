"""Sockets handed over by systemd."""

import os
import socket
from collections.abc import Iterator
from contextlib import ExitStack, closing
from http.client import HTTPConnection

import pytest

from rightsizer.exposition.exposition import MetricsExposition
from rightsizer.model.errors import RightsizerError
from rightsizer.web.listener import activated_sockets
from rightsizer.web.server import WebAccess, WebServer


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    """Closes what a test has opened."""
    with ExitStack() as stack:
        yield stack


def test_a_server_listens_on_what_was_handed_over(stack: ExitStack) -> None:
    """It replaces the configured addresses, and is logged like those."""
    bound = socket.create_server(("127.0.0.1", 0))
    port = bound.getsockname()[1]
    descriptor = bound.detach()
    handed = activated_sockets({"LISTEN_PID": str(os.getpid()), "LISTEN_FDS": "1"}, descriptor)
    assert not os.get_inheritable(descriptor)
    server = WebServer(
        ["192.0.2.1:1"],
        latest=lambda: None,
        exposition=MetricsExposition(lambda: None),
        access=WebAccess(sockets=tuple(handed)),
    )
    server.start()
    stack.callback(server.stop)
    assert server.addresses == (f"127.0.0.1:{port}",)
    with closing(HTTPConnection("127.0.0.1", port, timeout=60)) as connection:
        connection.request("GET", "/-/healthy")
        assert connection.getresponse().status == 200


@pytest.mark.parametrize("process", [None, "1", "own"])
def test_without_a_socket_the_remedy_is_reported(process: str | None) -> None:
    """There is none, or it is meant for another process."""
    number = str(os.getpid()) if process == "own" else process
    count = "0" if process == "own" else "1"
    environ = {"LISTEN_PID": number, "LISTEN_FDS": count} if number else {}
    with pytest.raises(RightsizerError, match=r"\.socket unit"):
        activated_sockets(environ)


def test_socket_that_does_not_listen_is_refused(stack: ExitStack, tmp_path: object) -> None:
    """Covers a connection, a Unix socket, and no socket at all."""
    environ = {"LISTEN_PID": str(os.getpid()), "LISTEN_FDS": "1"}
    datagrams = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
    local = stack.enter_context(socket.socket(socket.AF_UNIX))
    local.bind(f"{tmp_path}/s")
    local.listen()
    reader, writer = os.pipe()
    stack.callback(os.close, reader)
    stack.callback(os.close, writer)
    for handed in (datagrams.fileno(), local.fileno()):
        copy = os.dup(handed)
        with pytest.raises(RightsizerError, match="does not listen for TCP"):
            activated_sockets(environ, copy)
    with pytest.raises(RightsizerError, match="is no socket"):
        activated_sockets(environ, reader)
