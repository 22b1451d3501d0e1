"""A waiting client of leases, against a scripted agent on a real socket."""

import http.server
import json
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

import pytest

from rightsizer.broker.run_command import LeaseClient
from rightsizer.io.local import LocalClient

WAITS: Final = {
    "is_granted": False,
    "place": 1,
    "waiting": 1,
    "why": "no room",
    "ask_again_seconds": 1.0,
}
GRANTED: Final = {**WAITS, "is_granted": True}
UNKNOWN: Final = (HTTPStatus.NOT_FOUND, "there is no lease; see `rightsizer queue`")
BUSY: Final = (HTTPStatus.SERVICE_UNAVAILABLE, "too much to do")


def ok(answer: dict[str, Any]) -> tuple[HTTPStatus, str]:
    """A successful response."""
    return HTTPStatus.OK, json.dumps(answer)


@contextmanager
def agent(path: Path, answers: list[tuple[HTTPStatus, str]]) -> Iterator[list[str]]:
    """Responses in order; requests by method."""
    asked: list[str] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def _answer(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            asked.append(self.command)
            status, body = answers.pop(0)
            self.send_response(status)
            self.end_headers()
            self.wfile.write(body.encode())

        do_GET = do_POST = do_DELETE = _answer  # noqa: N815 - as the library calls them.

        def log_message(self, *_: object) -> None:
            """Log nothing."""

    with socketserver.UnixStreamServer(str(path), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield asked
        server.shutdown()
        thread.join()


def test_an_agent_that_lost_a_ticket_and_is_busy_is_asked_again(tmp_path: Path) -> None:
    """Until it accepts the ticket again: a client that has waited is not dropped."""
    answers = [ok(WAITS), UNKNOWN, BUSY, UNKNOWN, BUSY, UNKNOWN, ok(WAITS), ok(GRANTED)]
    slept: list[float] = []
    said: list[str] = []
    with agent(tmp_path / "api.sock", answers) as asked:
        applicant = LeaseClient(
            LocalClient(tmp_path / "api.sock"),
            {},
            say=said.append,
            time=lambda: sum(slept),
            sleep=slept.append,
        )
        assert applicant.wait()["is_granted"]
    assert asked == ["POST", "GET", "POST", "GET", "POST", "GET", "POST", "GET"]
    assert said == ["waits as 1 of 1: no room"]


class EnoughError(Exception):
    """Ends a wait that would last forever."""


def test_an_agent_that_is_away_for_days_is_asked_every_few_seconds(tmp_path: Path) -> None:
    """GPUs would be idle after its return; a failed request costs nothing."""
    path = tmp_path / "api.sock"
    slept = list[float]()

    def sleep(seconds: float) -> None:
        path.unlink(missing_ok=True)
        slept.append(seconds)
        if len(slept) == 3000:
            raise EnoughError

    said: list[str] = []
    with agent(path, [ok(WAITS)]):
        applicant = LeaseClient(
            LocalClient(path), {}, say=said.append, time=lambda: sum(slept), sleep=sleep
        )
        with pytest.raises(EnoughError):
            applicant.wait()
    assert max(slept) <= 4.0
    assert sum(slept) > 3600.0
    assert len(said) == 2
