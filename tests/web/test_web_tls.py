"""TLS over real sockets: admission, rotation of certificates, and hostile clients."""

import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import pytest
from structlog.testing import capture_logs

from agent_process import eventually
from publish_reports import node_report
from rightsizer.exposition.exposition import MetricsExposition
from rightsizer.web.authenticator import Authenticator, Passwords
from rightsizer.web.server import WebAccess, WebServer
from rightsizer.web.settings import PasswordSettings, WebSettings
from rightsizer.web.web_config import WebConfigFile, WebConfigReader
from web_certificates import Authority

PLAIN: Final = "tls_server_config: {cert_file: server.crt, key_file: server.key}\n"
MUTUAL: Final = """tls_server_config:
  cert_file: server.crt
  key_file: server.key
  client_ca_file: ca.crt
  client_auth_type: RequireAndVerifyClientCert
"""
REQUEST: Final = b"GET /-/healthy HTTP/1.1\r\nHost: a\r\n\r\n"
Open = Callable[..., WebServer]


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    """Authority that has signed a server's certificate."""
    authority = Authority.made(tmp_path / "ca")
    authority.sign("server", "IP:127.0.0.1")
    return authority


@pytest.fixture
def server(authority: Authority) -> Iterator[Open]:
    """Starts servers with a file beside their certificates."""
    with ExitStack() as stack:

        def start(text: str, **options: Any) -> WebServer:
            path = authority.folder / "web.yml"
            path.write_text(text)
            file = WebConfigFile(WebConfigReader(path), settle_seconds=0.0)
            report = node_report()
            server = WebServer(
                ["127.0.0.1:0"],
                latest=lambda: report,
                exposition=MetricsExposition(lambda: report),
                settings=WebSettings(**options),
                access=WebAccess(
                    authenticator=Authenticator(file.current, Passwords(PasswordSettings()))
                ),
            )
            server.start()
            stack.callback(server.stop)
            return server

        yield start


def trusting(authority: Authority, client: str = "") -> ssl.SSLContext:
    """Client context that trusts the authority, with a certificate of its own if given."""
    context = ssl.create_default_context(cafile=authority.certificate)
    if client:
        context.load_cert_chain(
            authority.folder / f"{client}.crt", authority.folder / f"{client}.key"
        )
    return context


def dial(server: WebServer) -> socket.socket:
    """A bare connection."""
    host, _, port = server.addresses[0].rpartition(":")
    return socket.create_connection((host, int(port)), timeout=60)


def ask(server: WebServer, context: ssl.SSLContext) -> bytes:
    """Response to a well-behaved client, or none if it is rejected."""
    with dial(server) as raw, context.wrap_socket(raw, server_hostname="127.0.0.1") as connection:
        return hear(connection, REQUEST)


def hear(connection: socket.socket, sent: bytes = b"") -> bytes:
    """Received bytes; none where the connection has ended, in any way."""
    try:
        connection.sendall(sent)
        return connection.recv(4096)
    except OSError:
        return b""


def serial(server: WebServer, authority: Authority) -> object:
    """Serial of the certificate shown to a new connection."""
    context = trusting(authority)
    with dial(server) as raw, context.wrap_socket(raw, server_hostname="127.0.0.1") as connection:
        certificate: Any = connection.getpeercert()
        return certificate["serialNumber"]


def test_a_scrape_over_tls(server: Open, authority: Authority) -> None:
    """It uses the newest version, HTTP/1.1 by ALPN, and gets an answer."""
    started = server(PLAIN)
    assert started.scheme == "https"
    context = trusting(authority)
    context.set_alpn_protocols(["h2", "http/1.1"])
    with dial(started) as raw, context.wrap_socket(raw, server_hostname="127.0.0.1") as connection:
        assert (connection.version(), connection.selected_alpn_protocol()) == (
            "TLSv1.3",
            "http/1.1",
        )
    assert ask(started, trusting(authority)).startswith(b"HTTP/1.1 200 ")


def test_plain_http_on_the_tls_port_gets_a_message(server: Open) -> None:
    """The message is plain HTTP."""
    with dial(server(PLAIN)) as connection:
        connection.sendall(REQUEST)
        assert b"this port speaks HTTPS" in connection.recv(4096)


@pytest.mark.parametrize(
    ("names", "welcomed"),
    [
        (("DNS:scraper.example",), 1),
        (("DNS:other.example", "DNS:scraper.example"), 1),
        (("IP:192.0.2.1",), 1),
        (("IP:2001:db8::1",), 1),
        (("URI:spiffe://cluster/prometheus",), 1),
        (("email:sre@example.org",), 1),
        (("DNS:other.example",), 0),
        (("DNS:scraper.example.org",), 0),
        ((), 0),
    ],
)
def test_only_allowed_names_are_let_in(
    server: Open, authority: Authority, names: tuple[str, ...], welcomed: int
) -> None:
    """Covers each kind of alternative name, compared whole; the log has rejected clients."""
    started = server(
        f"{MUTUAL}  client_allowed_sans: [scraper.example, 192.0.2.1, '2001:db8::1', "
        "'spiffe://cluster/prometheus', sre@example.org]\n"
    )
    authority.sign("client", *names)
    with capture_logs() as logs:
        answer = ask(started, trusting(authority, "client"))
    assert answer.count(b"HTTP/1.1 200 ") == welcomed
    refused = 1 - welcomed
    assert [entry["event"] for entry in logs] == ["client_certificate_refused"] * refused


def test_strangers_certificates_are_refused(
    server: Open, authority: Authority, tmp_path: Path
) -> None:
    """The client has none, or one that another authority has signed."""
    started = server(MUTUAL)
    assert ask(started, trusting(authority)) == b""
    stranger = Authority.made(tmp_path / "stranger").sign("client", "DNS:scraper.example")
    context = trusting(authority)
    context.load_cert_chain(stranger.certificate, stranger.key)
    assert ask(started, context) == b""


def test_a_certificate_may_be_left_out_where_it_may(server: Open, authority: Authority) -> None:
    """`VerifyClientCertIfGiven` requires none."""
    started = server(MUTUAL.replace("RequireAndVerifyClientCert", "VerifyClientCertIfGiven"))
    authority.sign("client", "DNS:a.example")
    assert ask(started, trusting(authority)).startswith(b"HTTP/1.1 200 ")
    assert ask(started, trusting(authority, "client")).startswith(b"HTTP/1.1 200 ")


def test_a_rotated_certificate_is_shown_at_once(server: Open, authority: Authority) -> None:
    """The old pair stays in use while certificate and key do not match."""
    started = server(PLAIN)
    first = serial(started, authority)
    key = authority.folder / "server.key"
    old_key = key.read_bytes()
    authority.sign("server", "IP:127.0.0.1")
    new_key = key.read_bytes()
    key.write_bytes(old_key)
    with capture_logs() as logs:
        assert serial(started, authority) == first
        assert serial(started, authority) == first
        key.write_bytes(new_key)
        assert serial(started, authority) != first
    assert [entry["event"] for entry in logs] == ["web_config_refused", "web_config_loaded"]


def test_open_connections_outlive_a_rotation_and_no_change_of_terms(
    server: Open, authority: Authority
) -> None:
    """New certificates close nothing; once client certificates are required, old ones end."""
    started = server(PLAIN)
    context = trusting(authority)
    with dial(started) as raw, context.wrap_socket(raw, server_hostname="127.0.0.1") as connection:
        connection.sendall(REQUEST)
        assert connection.recv(4096).startswith(b"HTTP/1.1 200 ")
        authority.sign("server", "IP:127.0.0.1")
        connection.sendall(REQUEST)
        assert connection.recv(4096).startswith(b"HTTP/1.1 200 ")
        (authority.folder / "web.yml").write_text(MUTUAL)
        connection.sendall(REQUEST)
        assert hear(connection) == b""


@pytest.mark.parametrize("first", [b"", b"\x16", b"\x16\x03\x01\x02\x00\x01", b"\x00" * 40])
def test_half_a_handshake_delays_no_one(server: Open, authority: Authority, first: bytes) -> None:
    """Sixty connections stop at any point of it; scrapes are answered."""
    started = server(PLAIN, connections_maximum=8, request_timeout_seconds=300.0)
    with ExitStack() as stack:
        for _ in range(60):
            stack.enter_context(dial(started)).sendall(first)
        for _ in range(3):
            assert ask(started, trusting(authority)).startswith(b"HTTP/1.1 200 ")


def test_a_silent_client_is_sent_away_in_time(server: Open) -> None:
    """The handshake has a deadline."""
    with dial(server(PLAIN, request_timeout_seconds=0.1)) as connection:
        connection.sendall(b"\x16")
        assert hear(connection) == b""


def test_rotation_under_load_fails_no_scrape(server: Open, authority: Authority) -> None:
    """Certificates are replaced by rename, key first, while clients reconnect each time."""
    started = server(PLAIN)
    stop = threading.Event()
    answers: list[bytes] = []

    def scrape() -> None:
        while not stop.is_set():
            answers.append(ask(started, trusting(authority))[:12])

    threads = [threading.Thread(target=scrape) for _ in range(3)]
    for thread in threads:
        thread.start()
    seen = {serial(started, authority)}
    for _ in range(5):
        authority.sign("server", "IP:127.0.0.1")
        # A connection during the reading of the file gets the old one.
        seen.add(
            eventually(
                lambda: serial(started, authority) not in seen and serial(started, authority)
            )
        )
    stop.set()
    for thread in threads:
        thread.join(20)
    assert len(seen) == 6
    assert set(answers) == {b"HTTP/1.1 200"}
