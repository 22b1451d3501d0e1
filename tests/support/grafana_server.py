"""A strict server of Grafana's annotation API, on loopback."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

TOKEN = "glsa_secretSecretSecret_12345678"
PATH = "/api/annotations"
BODY_TYPES: dict[str, dict[str, type]] = {
    "POST": {"dashboardUID": str, "panelId": int, "data": dict},
    "PATCH": {"data": dict},
}
"""Fields allowed in a body beside the four that both methods accept, by their types in Go."""
COMMON_TYPES = {"time": int, "timeEnd": int, "tags": list, "text": str}
QUERY_KEYS = {
    "from",
    "to",
    "alertId",
    "alertUID",
    "dashboardId",
    "dashboardUID",
    "panelId",
    "userId",
    "type",
    "tags",
    "limit",
    "matchAny",
}


@dataclass
class Grafana:
    """Annotations, recorded requests, and scripted faults, one per request."""

    url: str
    annotations: dict[int, dict[str, Any]] = field(default_factory=dict)
    requests: list[tuple[str, str]] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    """`METHOD fault`: a status (`POST 500`), `cut` after the write, `slow`, `html`, `shape`, or
    `death` and `late-death` of the client before and after the write."""
    complaints: list[str] = field(default_factory=list)
    gone_status: int = 404
    retry_after: str | None = None
    next_id: int = 1
    kill: Callable[[], None] = lambda: None
    """Kills the client."""

    def matching(self, query: dict[str, list[str]]) -> list[dict[str, Any]]:
        """Result of a search, like Grafana's store: all tags, overlap in time, last first."""
        start = int(query["from"][0])
        end = int(query["to"][0])
        ordered = sorted(self.annotations.values(), key=lambda annotation: -annotation["timeEnd"])
        return [
            annotation
            for annotation in ordered
            if set(query["tags"]) <= set(annotation["tags"])
            and annotation["time"] <= end
            and annotation["timeEnd"] >= start
        ][: int(query.get("limit", ["100"])[0])]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    grafana: Grafana
    stop: threading.Event

    def do_GET(self) -> None:
        """Search."""
        self._serve("GET")

    def do_POST(self) -> None:
        """Create."""
        self._serve("POST")

    def do_PATCH(self) -> None:
        """Change."""
        self._serve("PATCH")

    def log_message(self, *arguments: object) -> None:
        """Log nothing."""

    def _serve(self, method: str) -> None:
        parts = urlsplit(self.path)
        raw = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.grafana.requests.append((method, self.path))
        fault = self._fault(method)
        if fault.isdigit():
            extra = {"Retry-After": self.grafana.retry_after} if self.grafana.retry_after else {}
            echo = {"message": "refused", "request": self.headers.get("Authorization", "")}
            return self._answer(int(fault), echo, extra)
        if fault == "slow":
            self.stop.wait(5)
            self.close_connection = True
            return None
        if fault in ("html", "shape"):
            return self._answer(200, "<html>log in</html>" if fault == "html" else "text")
        if self.headers.get("Authorization") != f"Bearer {TOKEN}":
            return self._answer(401, {"message": "Invalid API key"})
        if fault == "death":
            self.grafana.kill()
            self.close_connection = True
            return None
        status, body = self._act(method, parts.path, parts.query, raw)
        if fault == "late-death":
            self.grafana.kill()
        if fault in ("cut", "late-death"):
            self.close_connection = True
            return None
        return self._answer(status, body)

    def _fault(self, method: str) -> str:
        for fault in self.grafana.faults:
            if fault.startswith(method + " "):
                self.grafana.faults.remove(fault)
                return fault.split()[1]
        return ""

    def _act(self, method: str, path: str, query: str, raw: bytes) -> tuple[int, Any]:
        self._check(self.headers["Accept"] == "application/json", "accept")
        if method == "GET":
            self._check(not raw, "a body of a GET")
            return self._look(path, query)
        self._check(self.headers["Content-Type"] == "application/json", "content type")
        self._check(not query, f"query {query}")
        body = json.loads(raw)
        types = COMMON_TYPES | BODY_TYPES[method]
        for key, value in body.items():
            self._check(type(value) is types.get(key), f"{method} {key}: {value!r}")
        self._check(all(isinstance(tag, str) for tag in body.get("tags", ())), "tags")
        if method == "PATCH":
            return self._patch(path, body)
        self._check(path == PATH, f"path {path}")
        return self._create(body)

    def _look(self, path: str, query: str) -> tuple[int, Any]:
        if path != PATH:
            self._check(not query, f"query {query}")
            found = self.grafana.annotations.get(int(path.removeprefix(f"{PATH}/")))
            return (200, found) if found else self._gone()
        asked = parse_qs(query, strict_parsing=True)
        self._check(set(asked) <= QUERY_KEYS, f"query {query}")
        self._check(asked.get("type", ["alert"])[0] in ("alert", "annotation"), f"query {query}")
        return 200, self.grafana.matching(asked)

    def _patch(self, path: str, body: dict[str, Any]) -> tuple[int, Any]:
        id_ = int(path.removeprefix(f"{PATH}/"))
        if id_ not in self.grafana.annotations:
            return self._gone()
        self.grafana.annotations[id_].update({k: v for k, v in body.items() if v})
        return 200, {"message": "Annotation patched"}

    def _gone(self) -> tuple[int, Any]:
        return self.grafana.gone_status, {"message": "Could not find annotation"}

    def _create(self, body: dict[str, Any]) -> tuple[int, Any]:
        if not body.get("text"):
            return 400, {"message": "text field should not be empty"}
        if len(json.dumps(body["tags"])) > 500:
            return 400, {"messageId": "annotations.tag-limit-exceeded"}
        self._check(all(len(tag) <= 100 for tag in body["tags"]), "tag length")
        self._check(all(tag.count(":") <= 1 for tag in body["tags"]), "colons in a tag")
        self._check(body["time"] > 10**12 and body["timeEnd"] >= body["time"], "milliseconds")
        id_ = self.grafana.next_id
        self.grafana.next_id += 1
        self.grafana.annotations[id_] = {**body, "id": id_}
        return 200, {"message": "Annotation added", "id": id_}

    def _check(self, holds: bool, what: str) -> None:  # noqa: FBT001 - reads as a sentence.
        if not holds:
            self.grafana.complaints.append(what)

    def _answer(self, status: int, body: Any, extra: dict[str, str] | None = None) -> None:
        is_page = isinstance(body, str) and body.startswith("<")
        raw = body.encode() if is_page else json.dumps(body).encode()
        self.send_response(status)
        for name, value in (extra or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Type", "text/html" if is_page else "application/json")
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)


@contextmanager
def grafana_server() -> Iterator[Grafana]:
    """A Grafana for the duration of the block; an invalid request fails the test."""
    stop = threading.Event()
    handler: Any = type("Handler", (_Handler,), {"stop": stop})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        grafana = Grafana(f"http://127.0.0.1:{server.server_address[1]}")
        handler.grafana = grafana
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield grafana
        finally:
            stop.set()
            server.shutdown()
            thread.join()
    assert not grafana.complaints
