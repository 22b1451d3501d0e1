"""Annotations through a proxy that loses the response of a successful write."""

import socket
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

import pytest

from advice_events import NOW, SECOND, event
from grafana_fixture import GrafanaFixture
from grafana_server import grafana_server
from rightsizer.model.advice import AdviceEventKind

OPENED = AdviceEventKind.OPENED
CLOSED = AdviceEventKind.CLOSED
LATER = NOW + 3600 * SECOND


@contextmanager
def cutting_proxy(upstream_url: str, kept_bytes: int) -> Iterator[str]:
    """Address of a proxy that truncates the first write's response after some bytes."""
    upstream = urlsplit(upstream_url)
    writes = []

    class Relay(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            """Forward requests one by one, and wait for each whole response."""
            while asked := whole_message(self.request):
                address = (upstream.hostname, upstream.port)
                with socket.create_connection(address, timeout=10) as server:
                    server.sendall(asked)
                    answer = whole_message(server)
                if asked.startswith(b"POST") and not writes:
                    writes.append(asked)
                    self.request.sendall(answer[:kept_bytes])
                    return
                self.request.sendall(answer)

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Relay) as proxy:
        proxy.daemon_threads = True
        threading.Thread(target=proxy.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{proxy.server_address[1]}"
        proxy.shutdown()


def whole_message(peer: socket.socket) -> bytes:
    """A request or response with its body, by its `Content-Length`."""
    got = b""
    while b"\r\n\r\n" not in got and (part := peer.recv(65536)):
        got += part
    head, _, body = got.partition(b"\r\n\r\n")
    lengths = [
        int(line.partition(b":")[2])
        for line in head.split(b"\r\n")
        if line.lower().startswith(b"content-length:")
    ]
    while lengths and len(body) < lengths[0] and (part := peer.recv(65536)):
        got = got + part
        body = body + part
    return got


@pytest.mark.parametrize("kept_bytes", [0, 9, 60, 200])
def test_a_write_whose_answer_a_proxy_lost_is_found_again(kept_bytes: int) -> None:
    """For a response cut anywhere there is still one annotation."""
    with grafana_server() as grafana, cutting_proxy(grafana.url, kept_bytes) as address:
        fixture = GrafanaFixture(address)
        fixture.sink.offer([event(OPENED)])
        fixture.sink.deliver()
        assert len(grafana.annotations) == 1
        assert fixture.sink.deliver().pending == 0
        assert [method for method, _ in grafana.requests].count("POST") == 1

        fixture.sink.offer([event(CLOSED, time=LATER)])
        assert fixture.sink.deliver().pending == 0
        (annotation,) = grafana.annotations.values()
        assert annotation["timeEnd"] == LATER // 1_000_000
