"""A store on loopback with correctly shaped responses for a few GPUs, which may be held up."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

from msgspec.structs import replace

from benchmarks.fleet_store import Estate, answer

__all__ = ["LoopbackStore", "loopback_store"]

_LONGEST_SECONDS: Final = 60.0
_ADVICE: Final = (
    '{"status":"success","data":{"resultType":"vector","result":[{"metric":{"instance":"n0:19400",'
    '"id":"ID","finding":"idle","reason":"IdleHeld","action":"release","uuid":"GPU-0"},'
    '"value":[0,"1"]}]}}'
)


@dataclass(slots=True)
class LoopbackStore:
    """A running store."""

    url: str
    goes_on: threading.Event = field(default_factory=threading.Event)
    """Until it is set, queries of days' samples wait."""
    advised: str = ""
    """The id of advice that a node's own agent exports, or empty."""
    ranges: int = 0
    """Number of such queries so far."""
    asked: list[str] = field(default_factory=list)
    """All queries."""


@contextmanager
def loopback_store(gpus: int, **facts: Any) -> Iterator[LoopbackStore]:
    """A store of some GPUs, from agents, or what `facts` of the estate say."""
    estate = replace(Estate.of(gpus), **facts)
    store = LoopbackStore("")
    store.goes_on.set()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        # Head and body are sent at once: waiting for an acknowledgment takes 40 ms a query.
        wbufsize = -1

        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            self._reply(parts.path, parse_qs(parts.query))

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
            self._reply(urlsplit(self.path).path, parse_qs(body))

        def log_message(self, *arguments: object) -> None:
            pass

        def _reply(self, path: str, document: dict[str, list[str]]) -> None:
            if path.endswith("/query_range") and document.get("step") == ["300"]:
                store.ranges += 1
                store.goes_on.wait(_LONGEST_SECONDS)
            store.asked += document.get("query", [])
            is_asked = "rightsizer_advice_info" in document.get("query", [""])[0]
            raw = (
                _ADVICE.replace("ID", store.advised)
                if store.advised and is_asked and path.endswith("/query")
                else answer(estate, path, document)
            ).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(raw)))
            self.end_headers()
            self.wfile.write(raw)

    class Server(ThreadingHTTPServer):
        def handle_error(self, *_: object) -> None:
            """Ignore it, since the client may have ended meanwhile."""

    with Server(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        store.url = f"http://127.0.0.1:{server.server_address[1]}"
        try:
            yield store
        finally:
            store.goes_on.set()
            server.shutdown()
            thread.join()
