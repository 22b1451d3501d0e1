"""The local socket's client: each reason of a missing answer has its own message."""

import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Final

import pytest

from rightsizer.io.local import LocalClient
from rightsizer.model.errors import RightsizerError, UsageError

Peer = Callable[..., Path]
CRLF: Final = b"\r\n"


@pytest.fixture
def peer(tmp_path: Path) -> Iterator[Peer]:
    """Starts a listener at a path that takes one request and sends a given answer."""
    path = tmp_path / "api.sock"
    heard = threading.Event()
    listening = socket.socket(socket.AF_UNIX)
    threads: list[threading.Thread] = []

    def start(answer: bytes, *, keeps: list[bytes] | None = None, hangs: bool = False) -> Path:
        listening.bind(str(path))
        listening.listen()

        def serve() -> None:
            with listening.accept()[0] as connection:
                request = connection.recv(65536)
                while request.partition(CRLF * 2)[2] == b"" and b"Content-Length" in request:
                    request += connection.recv(65536)
                if keeps is not None:
                    keeps.append(request)
                connection.sendall(answer)
                if hangs:
                    heard.wait(20)

        threads.append(threading.Thread(target=serve))
        threads[0].start()
        return path

    yield start
    heard.set()
    for thread in threads:
        thread.join()
    listening.close()


def answer(body: bytes, status: str = "200 OK") -> bytes:
    """A complete response."""
    length = str(len(body)).encode()
    return b"HTTP/1.1 " + status.encode() + b"\r\nContent-Length: " + length + CRLF * 2 + body


def refusal(path: Path, timeout_seconds: float = 20.0) -> str:
    """Why a request failed."""
    with pytest.raises(RightsizerError) as failed:
        LocalClient(path, timeout_seconds).get("/api/v1/releases")
    assert not isinstance(failed.value, UsageError)
    return str(failed.value)


def test_a_value_goes_out_as_json_and_comes_back_so(peer: Peer) -> None:
    """It is one request to the local host, with `?` for what is no UTF-8."""
    heard: list[bytes] = []
    client = LocalClient(peer(answer(b'{"resumed":["gpus"]}'), keeps=heard))

    assert client.post("/api/v1/resume", {"held": "gp\udce9"}) == {"resumed": ["gpus"]}
    head, _, body = heard[0].partition(CRLF * 2)
    assert head.startswith(b"POST /api/v1/resume HTTP/1.1\r\nHost: localhost\r\n")
    assert b"Content-Type: application/json" in head
    assert body == b'{"held":"gp?"}'


def test_a_request_that_the_agent_does_not_take_is_the_askers_fault(peer: Peer) -> None:
    """The error has the agent's own message."""
    client = LocalClient(peer(answer(b"held: choose one\n", "400 Bad Request")))
    with pytest.raises(UsageError, match=r"^held: choose one$"):
        client.post("/api/v1/release", {})


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (answer(b"on fire\n", "500 Internal Server Error"), "answers 500: on fire"),
        (answer(b"", "503 Service Unavailable"), "answers 503: Service Unavailable"),
        (answer(b"nothing here\n", "404 Not Found"), "nothing here; is it older than this command"),
        (answer(b"<html>"), "answers no JSON"),
        (b"SSH-2.0-OpenSSH_9.6\r\n", "does not speak HTTP"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{", "does not speak HTTP"),
        (b"", "broke off: Remote end closed connection"),
    ],
)
def test_an_answer_that_is_none_is_reported(peer: Peer, said: bytes, words: str) -> None:
    """The error has the socket's path."""
    path = peer(said)
    message = refusal(path)

    assert words in message
    assert str(path) in message


def test_an_agent_that_says_nothing_is_not_waited_for_for_ever(peer: Peer) -> None:
    """The error has the time, and where to look."""
    path = peer(b"", hangs=True)

    assert refusal(path, timeout_seconds=0.1) == (
        f"the agent at {path} does not answer within 0.1 s; see its log, `journalctl -u rightsizer`"
    )


def test_missing_socket_error_names_the_agent_command(tmp_path: Path) -> None:
    """The message has the command that starts an agent."""
    message = refusal(tmp_path / "no" / "api.sock")

    assert message.startswith(
        f"no agent runs here: there is no socket {tmp_path}/no/api.sock; start"
    )
    assert "systemctl start rightsizer" in message


def test_stale_socket_error_differs_from_a_missing_one(tmp_path: Path) -> None:
    """An agent has stopped, rather than never run."""
    path = tmp_path / "api.sock"
    with closing(socket.socket(socket.AF_UNIX)) as dead:
        dead.bind(str(path))

    assert refusal(path).startswith(
        f"no agent runs here: nothing answers at {path} any more; start"
    )


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_one_who_may_not_is_told_who_may(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Allowed are root, the agent's user, and its group."""
    monkeypatch.chdir(tmp_path)
    with closing(socket.socket(socket.AF_UNIX)) as listening:
        listening.bind("api.sock")
        listening.listen()
        Path("api.sock").chmod(0o660)
        os.seteuid(65534)
        try:
            message = refusal(Path("api.sock"))
        finally:
            os.seteuid(0)

    assert message == (
        "user 65534 may not use api.sock; run as root, as the user that the agent runs as, or as "
        "a member of its group"
    )
