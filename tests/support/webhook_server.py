"""Receivers of webhooks on loopback: a strict Alertmanager, and one that takes any JSON."""

import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

_TIME: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
_LABEL: Final = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
_ALERT_KEYS: Final = {"labels", "annotations", "startsAt", "endsAt", "generatorURL"}


@dataclass
class Inbox:
    """Received messages, and the faults to show, one a request."""

    url: str
    paths: list[str] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    bodies: list[Any] = field(default_factory=list)
    """Accepted messages."""
    faults: list[str] = field(default_factory=list)
    """A status, `cut` after the message was taken, or `html`."""
    retry_after: str = ""
    complaints: list[str] = field(default_factory=list)

    @property
    def alerts(self) -> dict[str, Any]:
        """The last message to an Alertmanager for each recommendation."""
        return {alert["labels"]["advice"]: alert for body in self.bodies for alert in body}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    inbox: Inbox
    is_alertmanager: bool

    def do_POST(self) -> None:
        """Take a message, unless there is a fault to show."""
        raw = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        inbox = self.inbox
        inbox.paths.append(self.path)
        inbox.headers.append(dict(self.headers))
        fault = inbox.faults.pop(0) if inbox.faults else ""
        if fault.isdigit():
            # As some do, it echoes the request, secrets and all.
            self._answer(int(fault), f"no: {self.path} {dict(self.headers)}")
            return
        inbox.complaints += self._complaints(raw)
        inbox.bodies.append(json.loads(raw))
        if fault == "cut":
            self.close_connection = True
        else:
            self._answer(200, "<html>thank you</html>" if fault == "html" else "")

    def log_message(self, *arguments: object) -> None:
        """Keep quiet."""

    def _complaints(self, raw: bytes) -> list[str]:
        complaints = []
        if self.headers["Content-Type"] != "application/json":
            complaints.append("content type")
        if self.is_alertmanager:
            if self.path != "/am/api/v2/alerts":
                complaints.append(f"path {self.path}")
            complaints += [fault for alert in json.loads(raw) for fault in alert_faults(alert)]
        return complaints

    def _answer(self, status: int, text: str) -> None:
        self.send_response(status)
        if self.inbox.retry_after:
            self.send_header("Retry-After", self.inbox.retry_after)
        self.send_header("Content-Length", str(len(text.encode())))
        self.end_headers()
        self.wfile.write(text.encode())


def alert_faults(alert: dict[str, Any]) -> Iterator[str]:
    """Violations of Alertmanager's `postableAlert`."""
    if not set(alert) <= _ALERT_KEYS or not alert.get("labels"):
        yield f"keys {sorted(alert)}"
    for kind in ("labels", "annotations"):
        for name, value in alert.get(kind, {}).items():
            if not _LABEL.fullmatch(name) or not isinstance(value, str):
                yield f"{kind} {name}"
    if not all(alert["labels"].values()):
        yield "an empty label"
    times = alert["startsAt"], alert["endsAt"]
    if not all(_TIME.fullmatch(time) for time in times) or times[0] > times[1]:
        yield f"times {times}"
    if "generatorURL" in alert and not alert["generatorURL"].startswith("http"):
        yield "generatorURL"


@contextmanager
def webhook_server(*, is_alertmanager: bool = False, port: int = 0) -> Iterator[Inbox]:
    """A receiver within the block; it must have found no fault."""
    handler: Any = type("Handler", (_Handler,), {"is_alertmanager": is_alertmanager})
    with ThreadingHTTPServer(("127.0.0.1", port), handler) as server:
        inbox = Inbox(f"http://127.0.0.1:{server.server_address[1]}")
        handler.inbox = inbox
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield inbox
        finally:
            server.shutdown()
            thread.join()
    assert not inbox.complaints
