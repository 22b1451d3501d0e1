"""Proxies: which addresses go through one, and requests through a real one on loopback."""

import select
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from rightsizer.io.http import HttpClient
from rightsizer.io.http_proxy import proxy_for
from rightsizer.io.http_result import Failure, FailureKind, Response
from rightsizer.io.http_settings import HttpSettings
from web_certificates import Authority

PROXY = "http://proxy.example.org:3128"


class Proxy(BaseHTTPRequestHandler):
    """Answers plain requests itself, and connects all hosts to the server's `target`."""

    def do_GET(self) -> None:
        """Answer with the address and the login that were sent."""
        body = f'["{self.path}", "{self.headers["Proxy-Authorization"]}"]'.encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_CONNECT(self) -> None:
        """Relay bytes in both directions until either side closes."""
        target = getattr(self.server, "target", None)
        if target is None:
            self.send_error(407, "Proxy Authentication Required")
            return
        with socket.create_connection(target, timeout=10) as upstream:
            self.send_response(200)
            self.end_headers()
            pair = {self.connection: upstream, upstream: self.connection}
            while True:
                for one in select.select(list(pair), [], [], 10)[0]:
                    data = one.recv(65536)
                    if not data:
                        return
                    pair[one].sendall(data)

    def log_message(self, *_: object) -> None:
        """Print nothing."""


@contextmanager
def serving(server: ThreadingHTTPServer) -> Iterator[tuple[str, int]]:
    """Serve until the end of the block."""
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield "127.0.0.1", server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.mark.parametrize(
    ("url", "exceptions", "is_used"),
    [
        ("https://hooks.example.com/x", "", True),
        ("http://hooks.example.com/x", "", False),
        ("https://hooks.example.com/x", "example.com", False),
        ("https://hooks.example.com/x", "other.org, .example.com", False),
        ("https://hooks.example.com/x", "*.example.com", False),
        ("https://hooks.example.com/x", "Hooks.Example.com:443", False),
        ("https://hooks.example.com/x", "ample.com", True),
        ("https://hooks.example.com/x", "*", False),
        ("https://hooks.example.com/x", ",", True),
        ("https://grafana.monitoring.svc:3000", ".svc,.cluster.local", False),
        ("https://10.4.5.6", "10.0.0.0/8", False),
        ("https://10.4.5.6", "10.4.5.6", False),
        ("https://11.4.5.6", "10.0.0.0/8", True),
        ("https://[fd00::5]:3000", "fd00::/8", False),
        ("https://[fd00::5]:3000", "[fd00::5]", False),
        ("https://[fd00::5]:3000", "10.0.0.0/8", True),
        ("https://localhost:3000", "", False),
        ("https://127.0.0.2:3000", "", False),
        ("https://[::1]:3000", "", False),
    ],
)
def test_addresses_that_go_through_a_proxy(url: str, exceptions: str, *, is_used: bool) -> None:
    """Domains cover their subdomains, networks their addresses; loopback never needs a proxy."""
    environment = {"HTTPS_PROXY": PROXY, "NO_PROXY": exceptions}
    assert proxy_for(url, environment) == (PROXY if is_used else None)


@pytest.mark.parametrize(
    ("environment", "proxy"),
    [
        ({}, None),
        ({"HTTPS_PROXY": ""}, None),
        ({"https_proxy": "a:1", "HTTPS_PROXY": "b:1"}, "http://a:1"),
        ({"HTTP_PROXY": "a:1"}, None),
        ({"HTTPS_PROXY": PROXY, "no_proxy": "x.org"}, None),
    ],
)
def test_names_of_the_variables(environment: dict[str, str], proxy: str | None) -> None:
    """Lower case goes first, and a proxy without a scheme is one of HTTP."""
    assert proxy_for("https://x.org", environment) == proxy


def test_plain_request_is_sent_to_the_proxy_with_its_login() -> None:
    """The name of the server is resolved by the proxy alone."""
    with serving(ThreadingHTTPServer(("127.0.0.1", 0), Proxy)) as (host, port):
        client = HttpClient("http://grafana.invalid", proxy=f"http://me:a%40b@{host}:{port}")
        result = client.request("GET", "/api")
        client.close()
    assert isinstance(result, Response)
    assert result.body == ["http://grafana.invalid/api", "Basic bWU6YUBi"]


def test_server_behind_a_proxy_is_verified(tmp_path: Path) -> None:
    """TLS is between client and server, with the authorities of the settings."""
    pair = Authority.made(tmp_path).sign("grafana", "DNS:grafana.invalid")
    upstream = ThreadingHTTPServer(("127.0.0.1", 0), Proxy)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pair.certificate, pair.key)
    upstream.socket = context.wrap_socket(upstream.socket, server_side=True)
    proxy = ThreadingHTTPServer(("127.0.0.1", 0), Proxy)
    results = []
    with serving(upstream) as target, serving(proxy) as (host, port):
        proxy.target = target  # type: ignore[attr-defined]
        for ca_file in (str(tmp_path / "ca.crt"), ""):
            client = HttpClient(
                "https://grafana.invalid",
                HttpSettings(ca_file=ca_file, tries=1),
                proxy=f"http://{host}:{port}",
            )
            results.append(client.request("GET", "/api"))
            client.close()
    trusted, untrusted = results
    assert isinstance(trusted, Response)
    assert trusted.body == ["/api", "None"]
    assert isinstance(untrusted, Failure)
    assert untrusted.kind is FailureKind.UNTRUSTED


def test_proxy_that_refuses_is_named_without_its_password() -> None:
    """Nothing was sent to the server."""
    with serving(ThreadingHTTPServer(("127.0.0.1", 0), Proxy)) as (host, port):
        proxy = f"http://me:secret@{host}:{port}"
        client = HttpClient("https://grafana.invalid", HttpSettings(tries=1), proxy=proxy)
        result = client.request("GET", "/api")
    assert isinstance(result, Failure)
    assert result.kind is FailureKind.AWAY
    assert f"grafana.invalid cannot be reached through the proxy {host}:{port}" in result.message
    assert "407" in result.message
    assert "secret" not in result.message


def test_proxy_that_is_away_is_named() -> None:
    """The remedy may be an exception."""
    settings = HttpSettings(tries=1)
    for scheme in ("http", "https"):
        client = HttpClient(f"{scheme}://grafana.invalid", settings, proxy="http://127.0.0.1:9")
        result = client.request("GET", "/api")
        assert isinstance(result, Failure)
        assert result.kind is FailureKind.AWAY
        assert result.message == (
            "grafana.invalid cannot be reached through the proxy 127.0.0.1:9: connection refused; "
            "NO_PROXY names servers to reach without it"
        )


def test_proxy_of_another_protocol_is_refused() -> None:
    """SOCKS needs a package that is not installed."""
    client = HttpClient("https://grafana.invalid", HttpSettings(tries=1), proxy="socks5://a:1")
    result = client.request("GET", "/api")
    assert isinstance(result, Failure)
    assert (result.kind, "unsupported scheme socks5" in result.message) == (FailureKind.AWAY, True)
