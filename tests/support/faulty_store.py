"""A store on loopback that answers range queries correctly unless scripted otherwise."""

import gzip
import json
import ssl
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final
from urllib.parse import parse_qsl, urlsplit

from msgspec import Struct

__all__ = ["FaultyStore", "Reply", "StoreRequest", "answer", "faulty_store", "refusal"]

_RANGE: Final = "/api/v1/query_range"
_PACKED: Final = b"\x1f\x8b"
"""Prefix of a body that is already compressed."""


class StoreRequest(Struct, frozen=True):
    """One request."""

    method: str
    path: str
    parameters: Mapping[str, str]
    headers: Mapping[str, str]

    @property
    def points(self) -> int:
        """Number of steps requested by a query."""
        if "start" not in self.parameters:
            return 1
        start, end, step = (float(self.parameters[key]) for key in ("start", "end", "step"))
        return round((end - start) / step) + 1


class Reply(Struct, frozen=True):
    """A response to one request."""

    status: int = 200
    body: bytes = b""
    headers: Mapping[str, str] = {}
    is_cut: bool = False
    """Whether the connection ends in the middle of the body."""
    is_slow: bool = False
    """Whether nothing is sent until the store ends."""


def refusal(status: int, text: str, kind: str = "execution", **headers: str) -> Reply:
    """An error in the format of all stores; underscores of headers stand for dashes."""
    body = json.dumps({"status": "error", "errorType": kind, "error": text}).encode()
    return Reply(status, body, {name.replace("_", "-"): text for name, text in headers.items()})


def answer(asked: StoreRequest, **beside: object) -> Reply:
    """The correct response: each sample is its own time, at each step."""
    result = []
    if asked.path.endswith(_RANGE):
        start, step = (float(asked.parameters[key]) for key in ("start", "step"))
        times = [start + at * step for at in range(asked.points)]
        result = [{"metric": {"uuid": "GPU-0"}, "values": [[time, str(time)] for time in times]}]
    whole = {"status": "success", "data": {"resultType": "matrix", "result": result}, **beside}
    return Reply(body=json.dumps(whole, separators=(",", ":")).encode())


@dataclass(slots=True)
class FaultyStore:
    """A running store."""

    url: str = ""
    replies: deque[Reply] = field(default_factory=deque)
    """Initial responses, one request each."""
    judge: Callable[[StoreRequest], Reply] = answer
    """Function for the following responses."""
    asked: list[StoreRequest] = field(default_factory=list)
    most_at_once: int = 0
    at_once: int = 0
    ended: threading.Event = field(default_factory=threading.Event)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def reply(self, asked: StoreRequest) -> Reply:
        """The response to a request, which is recorded."""
        with self.lock:
            self.asked.append(asked)
            self.at_once += 1
            self.most_at_once = max(self.most_at_once, self.at_once)
            said = self.replies.popleft() if self.replies else None
        try:
            return said or self.judge(asked)
        finally:
            # Before it is sent: whoever has a response may ask again at once.
            with self.lock:
                self.at_once -= 1


@contextmanager
def faulty_store(*replies: Reply, tls: ssl.SSLContext | None = None) -> Iterator[FaultyStore]:
    """A store with these initial responses, stopped after the block."""
    store = FaultyStore(replies=deque(replies))
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(store))
    if tls:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    store.url = f"{'https' if tls else 'http'}://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield store
    finally:
        store.ended.set()
        server.shutdown()
        thread.join()
        server.server_close()


def _handler(store: FaultyStore) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._serve(urlsplit(self.path).query)

        def do_POST(self) -> None:
            self._serve(self.rfile.read(int(self.headers["Content-Length"])).decode())

        def _serve(self, query: str) -> None:
            path = urlsplit(self.path).path
            asked = StoreRequest(self.command, path, dict(parse_qsl(query)), dict(self.headers))
            reply = store.reply(asked)
            # A client that has read enough of a bad response hangs up.
            with suppress(ConnectionError):
                self._send(reply)

        def _send(self, reply: Reply) -> None:
            if reply.is_slow:
                store.ended.wait(30)
                return
            body = reply.body
            if reply.headers.get("Content-Encoding") == "gzip" and not body.startswith(_PACKED):
                body = gzip.compress(body)
            self.send_response(reply.status)
            for name, text in {"Content-Type": "application/json", **reply.headers}.items():
                self.send_header(name, text)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body[: len(body) // 2] if reply.is_cut else body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name there.
            """Log nothing; tests read the recorded requests."""

    return Handler
