"""A container engine at a Unix socket, with the containers that it lists."""

import json
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

__all__ = ["ContainerEngine"]


class ContainerEngine:
    """A container engine's HTTP interface on a Unix socket."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.containers: Any = []
        self.status = 200
        self.paths: list[str] = []

    @contextmanager
    def running(self) -> Iterator[None]:
        """Answer within the block."""
        engine = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                engine.paths.append(self.path)
                body = engine.containers
                raw = body if isinstance(body, bytes) else json.dumps(body).encode()
                self.send_response(engine.status)
                self.send_header("Content-Length", str(len(raw)))
                self.end_headers()
                self.wfile.write(raw)

            def address_string(self) -> str:
                return "local"

            def log_message(self, *_: object) -> None:
                return

        with socketserver.ThreadingUnixStreamServer(str(self.path), Handler) as server:
            thread = threading.Thread(target=server.serve_forever, args=(0.01,))
            thread.start()
            try:
                yield
            finally:
                server.shutdown()
                thread.join()
        self.path.unlink()
