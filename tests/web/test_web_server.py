"""The HTTP server over real sockets: routes, protocol, and hostile clients."""

import gzip
import http.client
import json
import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path
from typing import Any

import h11
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from structlog.testing import capture_logs

from publish_reports import node_report
from rightsizer.exposition.exposition import MetricsExposition
from rightsizer.model.errors import ListenError, RightsizerError
from rightsizer.model.report import Report
from rightsizer.web.server import WebServer
from rightsizer.web.settings import WebSettings
from sample_devices import NOW

Start = Callable[..., WebServer]


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts servers on free ports of loopback, and stops them in the end."""
    with ExitStack() as stack:

        def start(
            report: Report | None = None,
            *addresses: str,
            latest: Callable[[], Report | None] | None = None,
            now: int = NOW,
            **options: Any,
        ) -> WebServer:
            latest = latest or (lambda: report)
            server = WebServer(
                addresses or ("127.0.0.1:0",),
                latest=latest,
                exposition=MetricsExposition(latest, wall_time=lambda: now),
                settings=WebSettings(**options),
                wall_time=lambda: now,
            )
            server.start()
            stack.callback(server.stop)
            return server

        yield start


def port_of(server: WebServer) -> int:
    """The port assigned to the server."""
    return int(server.addresses[0].rpartition(":")[2])


def connect(server: WebServer) -> socket.socket:
    """A bare connection."""
    return socket.create_connection(("127.0.0.1", port_of(server)), timeout=60)


def ask(
    server: WebServer, path: str, method: str = "GET", **options: Any
) -> tuple[HTTPResponse, bytes]:
    """One request on a connection of its own."""
    with closing(HTTPConnection("127.0.0.1", port_of(server), timeout=60)) as connection:
        connection.request(method, path, **options)
        response = connection.getresponse()
        return response, response.read()


def exchange(server: WebServer, request: bytes) -> bytes:
    """All bytes of the server's response before it closes."""
    with connect(server) as connection:
        connection.sendall(request)
        connection.shutdown(socket.SHUT_WR)
        answer = b""
        try:
            while part := connection.recv(65536):
                answer += part
        except ConnectionResetError:
            pass
        return answer


@pytest.mark.parametrize(
    ("path", "content_type"),
    [
        ("/", "text/html; charset=utf-8"),
        ("/metrics", "text/plain; version=0.0.4; charset=utf-8"),
        ("/-/healthy", "text/plain; charset=utf-8"),
        ("/-/ready", "text/plain; charset=utf-8"),
        ("/api/v1/report", "application/json; charset=utf-8"),
        ("/api/v1/advice", "application/json; charset=utf-8"),
    ],
)
@pytest.mark.parametrize("report", [None, node_report()])
def test_every_route_answers(
    start: Start, path: str, content_type: str, report: Report | None
) -> None:
    """With and without a report; HEAD has the same length and no body."""
    server = start(report)
    response, body = ask(server, path)
    assert response.status == (503 if report is None and path == "/-/ready" else 200)
    assert response.getheader("Content-Type") == content_type
    head, nothing = ask(server, path, "HEAD")
    assert (head.status, nothing) == (response.status, b"")
    if path != "/metrics":  # Its length changes with the process's memory.
        assert head.getheader("Content-Length") == str(len(body))


def test_metrics_follow_headers_and_query(start: Start) -> None:
    """Format, compression and name filter apply to the exposition."""
    server = start(node_report())
    headers = {"Accept": "application/openmetrics-text", "Accept-Encoding": "gzip"}
    response, body = ask(server, "/metrics?name[]=rightsizer_device_up", headers=headers)
    assert response.getheader("Content-Encoding") == "gzip"
    assert response.getheader("Content-Type", "").startswith("application/openmetrics-text")
    text = gzip.decompress(body).decode()
    assert text.endswith("# EOF\n")
    assert {line.split("{")[0] for line in text.splitlines()} == {
        "# HELP rightsizer_device_up Whether the device responds (1) or not (0).",
        "# TYPE rightsizer_device_up gauge",
        "rightsizer_device_up",
        "# EOF",
    }


def test_large_answers_are_compressed_on_request(start: Start) -> None:
    """The page is small in transit, and complete."""
    server = start(node_report())
    plain = ask(server, "/")[1]
    response, body = ask(server, "/", headers={"Accept-Encoding": "gzip"})
    assert response.getheader("Vary") == "Accept-Encoding"
    assert gzip.decompress(body) == plain


def test_json_carries_report_and_advice(start: Start) -> None:
    """The API returns the report, and null before the first."""
    server = start(node_report())
    assert len(json.loads(ask(server, "/api/v1/report")[1])["devices"]) == 9
    assert json.loads(ask(server, "/api/v1/advice")[1])["advice"][0]["rule"] == "held_idle"
    assert json.loads(ask(start(None), "/api/v1/report")[1]) is None


def test_unknown_paths_and_methods_are_refused(start: Start) -> None:
    """404 names the path, 405 the allowed methods."""
    server = start(node_report())
    response, body = ask(server, "/nowhere")
    assert (response.status, body) == (404, b"there is nothing at /nowhere\n")
    response, body = ask(server, "/metrics", "POST", body=b"x" * 100)
    assert (response.status, response.getheader("Allow")) == (405, "GET, HEAD")
    assert b"POST is not allowed here" in body


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("gpu=n%3Cope", "There is no GPU &#39;n&lt;ope&#39; here."),
        ("workload=nope", "There is no workload &#39;nope&#39; here."),
    ],
)
def test_unknown_gpu_or_workload_is_not_found(start: Start, query: str, words: str) -> None:
    """The page says so with the way back; a node without GPUs says why it has none."""
    report = node_report()
    response, body = ask(start(report), f"/?{query}")
    page = body.decode()
    assert response.status == 404
    assert response.getheader("Content-Type") == "text/html; charset=utf-8"
    assert f'{words} <a href="./">All GPUs</a>' in page
    assert 'id="s-overview"' not in page
    nobody = replace(report, devices=(), agent=replace(report.agent, trouble="no NVML library"))
    response, body = ask(start(nobody), f"/?{query}")
    assert response.status == 200
    assert "no NVML library" in body.decode()


def test_ready_says_why_not(start: Start) -> None:
    """No sample, no devices, devices down, and old samples each have their message."""
    report = node_report()
    nobody = replace(report, devices=(), agent=replace(report.agent, trouble="no NVML library"))
    down = replace(report, devices=report.devices[5:6])
    old = NOW + 90 * 10**9
    for server, words in (
        (start(None), "no sample has been taken yet"),
        (start(nobody), "no NVML library"),
        (start(down), "GPU 5: NVML: GPU is lost"),
        (start(report, now=old), "the last sample is 1 min 30 s old"),
    ):
        response, body = ask(server, "/-/ready")
        assert response.status == 503
        assert words in body.decode()
        assert ask(server, "/-/healthy")[0].status == 200


def test_answers_carry_security_headers_and_no_version(start: Start) -> None:
    """Only the page's own script runs, framing is denied, and the server header has no version."""
    server = start(node_report())
    page, plain = (ask(server, path)[0] for path in ("/", "/metrics"))
    policy = plain.getheader("Content-Security-Policy", "")
    assert policy.startswith("default-src 'none'; style-src 'unsafe-inline';")
    assert "script" not in policy
    policy = page.getheader("Content-Security-Policy", "")
    scripts = [part for part in policy.split("; ") if part.startswith("script-src")]
    assert all(part.startswith("script-src 'sha256-") for part in scripts)
    for response in (page, plain):
        assert response.getheader("X-Content-Type-Options") == "nosniff"
        assert response.getheader("X-Frame-Options") == "DENY"
        assert response.getheader("Server") == "rightsizer"


def test_a_connection_serves_many_requests(start: Start) -> None:
    """Keep-alive saves handshakes, also after an unexpected body."""
    server = start(node_report())
    with closing(HTTPConnection("127.0.0.1", port_of(server), timeout=60)) as connection:
        connection.request("POST", "/metrics", body=b"ignored")
        assert connection.getresponse().read().startswith(b"POST")
        first = connection.sock
        for _ in range(3):
            connection.request("GET", "/-/healthy")
            assert connection.getresponse().read() == b"healthy\n"
        assert connection.sock is first


def test_silent_clients_never_keep_a_scraper_out(start: Start) -> None:
    """Silent and slow connections exceed the limit threefold; a scrape is answered."""
    server = start(node_report(), connections_maximum=8, request_timeout_seconds=300.0)
    with ExitStack() as stack:
        for number in range(20):
            silent = stack.enter_context(connect(server))
            if number % 2:
                silent.sendall(b"GET /metrics HT")
        for _ in range(3):
            assert ask(server, "/metrics")[0].status == 200


def test_clients_that_never_read_never_keep_a_scraper_out(start: Start) -> None:
    """Clients that stop reading block their own connection only."""
    server = start(node_report(), connections_maximum=4, request_timeout_seconds=300.0)
    with ExitStack() as stack:
        for _ in range(12):
            stuck = stack.enter_context(connect(server))
            stuck.sendall(b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n" * 40)
        assert ask(server, "/metrics")[0].status == 200


def test_a_silent_client_is_sent_away_in_time(start: Start) -> None:
    """A connection without a request is closed after the request timeout."""
    server = start(node_report(), request_timeout_seconds=0.1)
    with connect(server) as connection:
        assert connection.recv(1) == b""


def test_a_full_house_of_working_answers_refuses(start: Start) -> None:
    """When every thread is busy, the next client gets 503 at once."""
    entered = threading.Semaphore(0)
    leave = threading.Event()

    def latest() -> Report | None:
        entered.release()
        leave.wait(20)
        return None

    server = start(latest=latest, connections_maximum=2)
    with connect(server) as one, connect(server) as two:
        for connection in (one, two):
            connection.sendall(b"GET /-/ready HTTP/1.1\r\nHost: a\r\n\r\n")
            entered.acquire(timeout=60)
        with connect(server) as third:
            assert third.recv(100).startswith(b"HTTP/1.1 503 ")
        leave.set()
        assert one.recv(100).startswith(b"HTTP/1.1 503 Service Unavailable")


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (b"GET /metrics\x00 HTTP/1.1\r\nHost: a\r\n\r\n", b"400"),
        (b"GET /metrics SMTP/1.1\r\n\r\n", b"400"),
        (b"GET / HTTP/9.9\r\n\r\n", b"505"),
        (b"GET /" + b"a" * 20000 + b" HTTP/1.1\r\n\r\n", b"414"),
        (b"GET / HTTP/1.1\r\nHost: a\r\n" + b"A: b\r\n" * 200 + b"\r\n", b"431"),
        (b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999\r\n\r\n", b"413"),
        (b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n", b"400"),
        (b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 0\r\n\r\nx", b"400"),
        (b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", b"411"),
        (b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: " + b"1" * 5000 + b"\r\n\r\n", b"400"),
        (b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: +1\r\n\r\nx", b"400"),
        (b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length : 1\r\n\r\nx", b"400"),
        (b"GET / HTTP/1.1\r\nHost: a\r\nAccept: b,\r\n c\r\n\r\n", b"400"),
        (b"GET / HTTP/1.1\r\n Host: a\r\n\r\n", b"400"),
        (b"GET / HTTP/1.1\r\nHost: a\r\nno colon\r\n\r\n", b"400"),
        (b"GET / HTTP/1.1\r\n\r\n", b"400"),
        (b"GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", b"400"),
        (b"GET / HTTP/1.0\r\nHost: a\r\nHost: b\r\n\r\n", b"400"),
        (b"GET /-/healthy HTTP/1.0\r\n\r\n", b"200"),
        (b"GET http://[ HTTP/1.1\r\nHost: a\r\n\r\n", b"400"),
        (b"GET /-/healthy\r\n\r\n", b"400"),
        (b"BREW / HTTP/1.1\r\nHost: a\r\n\r\n", b"405"),
    ],
)
def test_malformed_requests_are_refused(start: Start, request_bytes: bytes, status: bytes) -> None:
    """Each has its own status, and the server continues."""
    server = start(node_report())
    assert exchange(server, request_bytes).split(b" ")[1] == status
    assert ask(server, "/-/healthy")[0].status == 200


_ODD = st.just(b"") | st.sampled_from(
    [b"a", b"0", b"+1", b" ", b"\t", b"\x00", b"\x7f", b"\x80", b",", b"("]
)
_FIRST_LINES = st.one_of(
    st.just(b"GET /-/healthy HTTP/1.1"),
    st.tuples(
        st.sampled_from([b"GET", b"G(T", b"*"]),
        st.sampled_from([b" ", b"  ", b"\t"]),
        st.sampled_from([b"/-/healthy", b"/-/healthy?\x80", b""]),
        _ODD,
        st.sampled_from([b" HTTP/1.1", b" HTTP/1", b" http/1.1", b" HTTP/1.1 ", b""]),
    ).map(b"".join),
)
_NAMES = st.sampled_from([b"Content-Length", b"X", b""])
_FIELDS = st.tuples(_ODD, _NAMES, _ODD, st.sampled_from([b": ", b""]), _ODD, _ODD).map(b"".join)


def test_a_head_that_a_strict_parser_refuses_is_refused(start: Start) -> None:
    """Compared with h11, which parses heads strictly by RFC 9112."""
    server = start(node_report(), request_timeout_seconds=5.0)

    @settings(suppress_health_check=[HealthCheck.too_slow])
    @given(_FIRST_LINES, _FIELDS, st.sampled_from([b"\r\n", b"\n"]))
    def check(first_line: bytes, field: bytes, end: bytes) -> None:
        head = end.join([first_line, b"Host: a", field, b"", b""])
        strict = h11.Connection(h11.SERVER)
        strict.receive_data(head)
        try:
            strict.next_event()
        except h11.RemoteProtocolError:
            answer = exchange(server, head)
            assert not answer or answer.split(b" ")[1] in {b"400", b"411", b"505"}

    check()


def test_a_client_that_waits_for_100_is_let_go_on(start: Start) -> None:
    """The server sends it before the body; the client would wait until it gave up."""
    server = start(node_report())
    head = b"POST /metrics HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\n"
    with connect(server) as connection:
        connection.sendall(head)
        assert connection.recv(100).startswith(b"HTTP/1.1 100 ")
        connection.sendall(b"x")
        assert connection.recv(100).startswith(b"HTTP/1.1 405 ")


def test_no_bytes_break_the_server(start: Start) -> None:
    """For any bytes the answer is none or HTTP, and the next client is served."""
    server = start(node_report(), request_timeout_seconds=5.0)

    @settings(suppress_health_check=[HealthCheck.too_slow])
    @given(st.binary(max_size=300) | st.binary(max_size=80).map(b"GET / HTTP/1.1\r\n".__add__))
    def check(sent: bytes) -> None:
        answer = exchange(server, sent + b"\r\n\r\n")
        assert not answer or answer.startswith(b"HTTP/1.1 ")

    with capture_logs() as logs:
        check()
    assert not logs
    assert ask(server, "/-/healthy")[0].status == 200


def test_a_failing_answer_is_a_500_and_a_log_line(start: Start) -> None:
    """The client gets the failure, the log the cause, and the connection continues."""

    def latest() -> Report | None:
        raise RuntimeError("history on fire")

    server = start(latest=latest)
    with capture_logs() as logs:
        response, body = ask(server, "/api/v1/report")
    assert response.status == 500
    assert b"fire" not in body
    assert (logs[0]["event"], logs[0]["path"]) == ("request_failed", "/api/v1/report")


def test_several_addresses_are_served_at_once(start: Start) -> None:
    """IPv4 and IPv6 each have the assigned port."""
    server = start(node_report(), "127.0.0.1:0", "[::1]:0")
    first, second = server.addresses
    assert first.startswith("127.0.0.1:")
    assert second.startswith("[::1]:")
    with closing(HTTPConnection("::1", int(second.rpartition(":")[2]), timeout=60)) as connection:
        connection.request("GET", "/-/healthy")
        assert connection.getresponse().status == 200


def test_a_bare_port_means_every_interface(start: Start) -> None:
    """`:port` answers on IPv4 loopback, whichever family it is bound in."""
    assert ask(start(node_report(), ":0"), "/-/healthy")[0].status == 200


def test_a_port_in_use_is_reported_with_the_remedy(start: Start) -> None:
    """The message has address and remedy; nothing is left listening."""
    taken = start(node_report()).addresses[0]
    exposition = MetricsExposition(lambda: None)
    server = WebServer(["127.0.0.1:0", taken], latest=lambda: None, exposition=exposition)
    with pytest.raises(RightsizerError) as failure:
        server.start()
    own = Path("/proc/self/comm").read_text().strip()
    assert str(failure.value) == (
        f"cannot listen on {taken}: the port is in use by process {os.getpid()} ({own}); "
        "stop it or choose another with --web.listen-address"
    )
    assert isinstance(failure.value, ListenError)
    assert str(failure.value) == f"{failure.value.fault} with --web.listen-address"
    assert failure.value.exit_code == 1
    assert server.addresses == ()


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("192.0.2.1:0", "no interface of this machine has the address"),
        ("no.such.host.invalid:1", "'no.such.host.invalid' is not a host of this machine"),
    ],
)
def test_other_addresses_that_cannot_be_bound(start: Start, address: str, words: str) -> None:
    """Each failure has its own remedy."""
    with pytest.raises(RightsizerError, match=words):
        start(None, address)


def test_stop_closes_connections_and_frees_the_port(start: Start) -> None:
    """It closes idle connections, and the port can be used again at once."""
    server = start(node_report())
    address = server.addresses[0]
    with connect(server) as connection:
        connection.sendall(b"GET /-/healthy HTTP/1.1\r\nHost: a\r\n\r\n")
        response = http.client.HTTPResponse(connection)
        response.begin()
        server.stop()
        assert response.read() == b"healthy\n"
        assert connection.recv(1) == b""
    assert start(node_report(), address).addresses == (address,)
