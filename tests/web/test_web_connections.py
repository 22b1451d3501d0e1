"""Many connections: which one is closed, and clients that are slow, silent, early or huge."""

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest

from publish_reports import node_report
from rightsizer.exposition.exposition import MetricsExposition
from rightsizer.web.connections import Connections
from rightsizer.web.handler import read_head
from rightsizer.web.listener import WebListener
from rightsizer.web.server import WebServer
from rightsizer.web.settings import WebSettings

Start = Callable[..., WebServer]
REQUEST = b"GET /-/healthy HTTP/1.1\r\nHost: a\r\n\r\n"


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts servers on loopback."""
    with ExitStack() as stack:

        def start(**options: Any) -> WebServer:
            report = node_report()
            server = WebServer(
                ["127.0.0.1:0"],
                latest=lambda: report,
                exposition=MetricsExposition(lambda: report),
                settings=WebSettings(**options),
            )
            server.start()
            stack.callback(server.stop)
            return server

        yield start


@pytest.fixture
def sockets() -> Iterator[Callable[[], socket.socket]]:
    """Creates sockets that stand for connections; `is_shut` tells which was closed."""
    with ExitStack() as stack:

        def make() -> socket.socket:
            here, there = socket.socketpair()
            stack.enter_context(here)
            stack.enter_context(there)
            return here

        yield make


def is_shut(connection: socket.socket) -> bool:
    """Whether a connection was closed."""
    connection.setblocking(False)
    try:
        return connection.recv(1) == b""
    except BlockingIOError:
        return False


def connect(server: WebServer, address: str = "127.0.0.1") -> socket.socket:
    """A bare connection from an address of this machine."""
    port = int(server.addresses[0].rpartition(":")[2])
    return socket.create_connection(("127.0.0.1", port), timeout=60, source_address=(address, 0))


def test_a_flood_washes_away_itself(sockets: Callable[[], socket.socket]) -> None:
    """A newcomer takes a place of the address with most connections."""
    connections = Connections(4)
    scraper, *crowd = (sockets() for _ in range(8))
    assert connections.admit(scraper, "192.0.2.1")
    for each in crowd:
        assert connections.admit(each, "203.0.113.7")
    assert [is_shut(each) for each in crowd] == [True] * 4 + [False] * 3
    assert not is_shut(scraper)


def test_answered_connection_is_kept_before_unanswered_ones(
    sockets: Callable[[], socket.socket],
) -> None:
    """Of one address; among answered ones the longest idle is closed."""
    connections = Connections(3)
    known = [sockets(), sockets()]
    for each in known:
        assert connections.admit(each, "a")
        connections.record_answered(each)
    strangers = [sockets() for _ in range(3)]
    for stranger in strangers:
        assert connections.admit(stranger, "a")
    assert [is_shut(each) for each in known + strangers] == [False, False, True, True, False]
    connections.record_answered(strangers[-1])
    connections.mark(known[0], is_working=True)
    connections.mark(known[0], is_working=False)
    assert connections.admit(sockets(), "a")
    assert [is_shut(each) for each in known] == [False, True]


def test_replaced_connection_gives_up_its_place(
    sockets: Callable[[], socket.socket],
) -> None:
    """The place is free; a connection that was closed meanwhile has none."""
    connections = Connections(1)
    plain = sockets()
    secured = sockets()
    other = sockets()
    assert connections.admit(plain)
    connections.replace(plain, secured)
    assert connections.admit(other)
    assert is_shut(secured)
    with pytest.raises(ConnectionAbortedError):
        connections.replace(secured, plain)
    assert len(connections) == 1


def test_a_thousand_silent_connections_beside_ten_scrapers(start: Start) -> None:
    """Every scrape is answered on persistent connections opened before and after the flood."""
    server = start(request_timeout_seconds=300.0)
    port = int(server.addresses[0].rpartition(":")[2])
    with ExitStack() as stack:
        scrapers = [
            stack.enter_context(closing(HTTPConnection("127.0.0.1", port, timeout=60)))
            for _ in range(10)
        ]

        def scrape() -> list[int]:
            statuses = []
            for scraper in scrapers:
                scraper.request("GET", "/metrics")
                with scraper.getresponse() as response:
                    response.read()
                    statuses.append(response.status)
            return statuses

        assert scrape() == [200] * 10
        sockets = [scraper.sock for scraper in scrapers]
        for number in range(1000):
            stack.enter_context(connect(server, f"127.0.1.{number % 3 + 1}"))
        for _ in range(3):
            assert scrape() == [200] * 10
        assert [scraper.sock for scraper in scrapers] == sockets


def test_requests_that_come_at_once_are_answered_in_order(start: Start) -> None:
    """A hundred in one packet each get their own answer."""
    with connect(start()) as connection:
        connection.sendall(
            REQUEST * 99 + REQUEST.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")
        )
        answer = b""
        while part := connection.recv(65536):
            answer += part
    assert answer.count(b"HTTP/1.1 200 OK\r\n") == answer.count(b"healthy\n") == 100


@pytest.mark.parametrize(
    "head",
    [
        b"GET / HTTP/1.1\r\n" + b"A: " + b"b" * 70000,
        b"GET / HTTP/1.1\r\n" + (b"A: " + b"b" * 3000 + b"\r\n") * 30,
    ],
)
def test_a_huge_head_is_not_read_to_its_end(start: Start, head: bytes) -> None:
    """Covers one long line, and many that are long together."""
    with connect(start()) as connection:
        try:
            connection.sendall(head + b"\r\n\r\n")
            connection.shutdown(socket.SHUT_WR)
            answer = connection.recv(100)
        except OSError:
            return  # The connection was reset: unread data discarded the answer.
    assert answer.startswith(b"HTTP/1.1 431 ")


def waits_of(thread: threading.Thread) -> int:
    """How often a thread of this process gave up its CPU to wait."""
    status = Path(f"/proc/self/task/{thread.native_id}/status").read_text(encoding="ascii")
    fields = dict(line.split(":", 1) for line in status.splitlines())
    return int(fields["voluntary_ctxt_switches"])


def sleeps(thread: threading.Thread) -> bool:
    """Whether a thread does not wake for a while."""
    before = waits_of(thread)
    time.sleep(0.7)
    return waits_of(thread) == before


def test_an_idle_server_does_not_wake(start: Start) -> None:
    """After a request, its thread waits for the next one in one piece."""
    server = start()
    name = f"web {server.addresses[0]}"
    accepting = next(each for each in threading.enumerate() if each.name == name)
    with closing(HTTPConnection(server.addresses[0])) as connection:
        connection.request("GET", "/-/healthy")
        assert connection.getresponse().read() == b"healthy\n"
    # On a busy machine it may take a while to come to rest.
    assert any(sleeps(accepting) for _ in range(10))


def test_connection_without_memory_costs_itself_alone(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The thread that accepts goes on with the next one."""
    accept = WebListener.get_request
    refused = iter([MemoryError()])

    def get_request(listener: WebListener) -> Any:
        if (error := next(refused, None)) is not None:
            raise error
        return accept(listener)

    monkeypatch.setattr(WebListener, "get_request", get_request)
    server = start()
    with closing(HTTPConnection(server.addresses[0], timeout=60)) as connection:
        connection.request("GET", "/-/healthy")
        assert connection.getresponse().read() == b"healthy\n"
    assert next(refused, None) is None


class _Drip:
    """Client that sends a header a second, forever."""

    def __init__(self) -> None:
        self.now = 0.0

    def readline(self, limit: int) -> bytes:
        self.now += 1.0
        return b"A: b\r\n"[:limit]


def test_a_slow_head_has_a_deadline_as_a_whole() -> None:
    """It applies however many lines arrive, each in time."""
    drip = _Drip()
    with pytest.raises(TimeoutError):
        read_head(b"GET / HTTP/1.1\r\n", drip, 65536, 10.0, lambda: drip.now)  # type: ignore[arg-type]
    assert drip.now == 11.0
