# ruff: noqa: E501 - a table, one fault a line.
"""Clients of page and API that do what they should not, and TLS."""

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from benchmarks.reliability.fault import LENGTH_SECONDS, Fault, Group
from benchmarks.reliability.listener import GARBAGE
from benchmarks.reliability.node import Node
from benchmarks.reliability.process_faults import write_web
from web_certificates import Authority

_GET: Final = b"GET /metrics HTTP/1.1\r\nHost: a\r\n"
_HELLO: Final = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"
_TLS: Final = "tls_server_config: {cert_file: a.crt, key_file: a.key}\n"
_TLS_CONFIG: Final = {"web": {"config_file": "web.yaml"}}


def page_faults() -> Iterator[Fault]:
    """Plain first, then TLS."""
    group = Group.PAGE
    release = Node.release
    yield from (
        Fault(group, "200 connections that say nothing", plant=_send(b"", 200), lift=release),
        Fault(group, "20 requests that come a byte at a time", plant=_drip, lift=release),
        Fault(group, "bytes that are no HTTP", plant=_send(GARBAGE, 20), lift=release),
        Fault(group, "a TLS handshake on a plain port", plant=_send(_HELLO + GARBAGE, 20), lift=release),
        Fault(group, "headers of a megabyte", plant=_send(_GET + b"A: " + b"a" * 2**20, 5), lift=release),
        Fault(group, "ten thousand headers", plant=_send(_GET + b"A: b\r\n" * 10_000, 5), lift=release),
        Fault(group, "a path of a megabyte", plant=_send(b"GET /" + b"a" * 2**20, 5), lift=release),
        Fault(group, "a method that does not exist", plant=_send(b"FROB /metrics HTTP/1.1\r\nHost: a\r\n\r\n", 20), lift=release),
        Fault(group, "HTTP/2 without an agreement", plant=_send(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 20), lift=release),
        Fault(group, "a body that is announced and never sent", plant=_send(b"POST /api/v1/plan HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\n", 20), lift=release),
        Fault(group, "a body of a terabyte is announced", plant=_send(b"POST /api/v1/plan HTTP/1.1\r\nHost: a\r\nContent-Length: 1099511627776\r\n\r\n", 20), lift=release),
        Fault(group, "a chunked body without an end", plant=_send(b"POST /api/v1/plan HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n" + b"1\r\na\r\n" * 10_000, 5), lift=release),
        Fault(group, "a request with two lengths", plant=_send(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab", 20), lift=release),
        Fault(group, "a request half sent and reset", plant=_reset_requests, lift=release),
        Fault(group, "answers that are not read", plant=_never_read, lift=release),
        Fault(group, "a thousand scrapes at once", plant=_send(_GET + b"\r\n", 1000), lift=release),
        Fault(group, "four readers who scrape without a pause", plant=_flood("/metrics")),
        Fault(group, "four readers who open the page without a pause", plant=_flood("/")),
        Fault(group, "four readers who fetch the report without a pause", plant=_flood("/api/v1/report")),
        Fault(group, "reloads by a stranger over HTTP, 200 of them", plant=_send(b"POST /-/reload HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n", 200), lift=release),
        Fault(group, "a stranger releases all GPUs over HTTP", plant=_send(b'POST /api/v1/release HTTP/1.1\r\nHost: a\r\nContent-Length: 18\r\n\r\n{"held": "driver"}', 5), lift=release),
    )  # fmt: skip
    yield from _tls()


def _tls() -> Iterator[Fault]:
    group = Group.PAGE
    release = Node.release
    facts: dict[str, Any] = {"config": _TLS_CONFIG, "prepare": _with_tls}
    yield from (
        Fault(group, "TLS: 200 connections that begin no handshake", plant=_send(b"", 200), lift=release, **facts),
        Fault(group, "TLS: 200 handshakes that stop half-way", plant=_send(_HELLO, 200), lift=release, **facts),
        Fault(group, "TLS: bytes that are no handshake", plant=_send(GARBAGE, 20), lift=release, **facts),
        Fault(group, "TLS: plain HTTP on the port", plant=_send(_GET + b"\r\n", 20), lift=release, **facts),
        Fault(group, "TLS: the certificate becomes garbage", plant=_write("a.crt", b"garbage"), lift=_restore_pair, **facts),
        Fault(group, "TLS: the key is deleted", plant=lambda node: (node.folder / "a.key").unlink(), lift=_restore_pair, **facts),
        Fault(group, "TLS: the key is another certificate's", plant=_other_key, lift=_restore_pair, **facts),
        Fault(group, "TLS: the certificate is renewed", plant=_renew, **facts),
    )  # fmt: skip


def _send(data: bytes, connections: int = 1) -> Callable[[Node], None]:
    def plant(node: Node) -> None:
        for _ in range(connections):
            with suppress(OSError):
                node.connect().sendall(data)

    return plant


def _drip(node: Node) -> None:
    connections = [node.connect() for _ in range(20)]

    def drip() -> None:
        with suppress(OSError):
            for _ in range(int(LENGTH_SECONDS * 5)):
                for connection in connections:
                    connection.sendall(b"G")
                time.sleep(0.2)

    threading.Thread(target=drip, daemon=True).start()


def _reset_requests(node: Node) -> None:
    for _ in range(50):
        connection = node.connect()
        with suppress(OSError):
            connection.sendall(_GET)
            linger = b"\x01\x00\x00\x00" + b"\x00" * 4
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        connection.close()


def _flood(path: str) -> Callable[[Node], None]:
    request = f"GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n".encode()

    def plant(node: Node) -> None:
        def ask() -> None:
            end = time.monotonic() + LENGTH_SECONDS
            while time.monotonic() < end:
                with (
                    suppress(OSError),
                    socket.create_connection(("127.0.0.1", node.port), 5) as connection,
                ):
                    connection.sendall(request)
                    while connection.recv(65536):
                        pass

        for _ in range(4):
            threading.Thread(target=ask, daemon=True).start()

    return plant


def _never_read(node: Node) -> None:
    for _ in range(20):
        connection = node.connect()
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)
        with suppress(OSError):
            connection.sendall((_GET + b"\r\n") * 50)


def _with_tls(node: Node) -> None:
    _renew(node)
    for name in ("a.crt", "a.key"):
        (node.folder / f"{name}.kept").write_bytes((node.folder / name).read_bytes())
    write_web(_TLS)(node)
    node.has_tls = True


def _renew(node: Node) -> None:
    pair = Authority.made(node.folder / "authority").sign("a", "IP:127.0.0.1")
    _replace(node.folder / "a.key", pair.key.read_bytes())
    _replace(node.folder / "a.crt", pair.certificate.read_bytes())


def _other_key(node: Node) -> None:
    pair = Authority.made(node.folder / "other").sign("b", "IP:127.0.0.1")
    _replace(node.folder / "a.key", pair.key.read_bytes())


def _write(name: str, data: bytes) -> Callable[[Node], None]:
    return lambda node: _replace(node.folder / name, data)


def _restore_pair(node: Node) -> None:
    for name in ("a.crt", "a.key"):
        _replace(node.folder / name, (node.folder / f"{name}.kept").read_bytes())


def _replace(path: Path, data: bytes) -> None:
    partial = path.with_suffix(".new")
    partial.write_bytes(data)
    partial.replace(path)
