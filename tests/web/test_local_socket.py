"""The local socket: local-only routes, who may open it, and what prevents it."""

import http.client
import os
import socket
import stat
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from typing import Final

import pytest
from structlog.testing import capture_logs

from agent_process import eventually
from node_api import node_api
from publish_reports import node_report
from rightsizer.exposition.exposition import MetricsExposition
from rightsizer.model.errors import RightsizerError, UsageError
from rightsizer.web.local_socket import LocalSocket
from rightsizer.web.message import WebRequest, WebResponse
from rightsizer.web.router import Route
from rightsizer.web.server import WebServer
from rightsizer.web.settings import WebSettings


def echo(request: WebRequest) -> WebResponse:
    """Return the request and its user; a body of `no` is rejected."""
    if request.body == b"no":
        raise UsageError("'no' is no answer; say yes")
    peer = request.peer
    who = None if peer is None else [peer.pid, peer.uid, peer.gid]
    return WebResponse.of_json({"body": request.body.decode(), "who": who})


ROUTE: Final = Route("POST", "/api/v1/echo", echo, is_local=True)


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    """Closes what a test leaves open."""
    with ExitStack() as stack:
        yield stack


def served(path: Path, stack: ExitStack, **options: float) -> WebServer:
    """A server on loopback and at a path."""
    server = WebServer(
        ["127.0.0.1:0"],
        latest=node_report,
        exposition=MetricsExposition(node_report),
        settings=WebSettings(**options),  # type: ignore[arg-type] # Whole numbers are floats too.
        local_socket=str(path),
        local_routes=[ROUTE],
    )
    server.start()
    stack.callback(server.stop)
    return server


def connect(path: Path) -> socket.socket:
    """A bare connection to a path."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.settimeout(20)
    connection.connect(str(path))
    return connection


def ask(
    where: Path | WebServer, target: str, method: str = "GET", body: bytes | None = None
) -> tuple[int, bytes]:
    """Status and body of an answer, from a path or over TCP."""
    address = "127.0.0.1:1" if isinstance(where, Path) else where.addresses[0]
    with closing(http.client.HTTPConnection(address, timeout=60)) as connection:
        if isinstance(where, Path):
            connection.sock = connect(where)
        with suppress(BrokenPipeError):  # The request was refused by its head, and answered.
            connection.request(method, target, body)
        response = connection.getresponse()
        return response.status, response.read()


def left_behind(path: Path) -> Path:
    """The socket of a killed process."""
    with closing(socket.socket(socket.AF_UNIX)) as dead:
        dead.bind(str(path))
        dead.listen()
    return path


def unavailable(path: Path, stack: ExitStack) -> str:
    """Why a server has no local socket; TCP still works."""
    with capture_logs() as logs:
        server = served(path, stack)
    assert ask(server, "/-/healthy") == (200, b"healthy\n")
    (entry,) = logs
    assert (entry["event"], entry["log_level"]) == ("local_socket_unavailable", "warning")
    return str(entry["error"])


def test_all_that_tcp_serves_is_there(tmp_path: Path, stack: ExitStack) -> None:
    """Every page has the same status, including metrics and health."""
    path = tmp_path / "api.sock"
    server = served(path, stack)

    pages = [route.path for route in node_api().routes()]
    assert [ask(path, page)[0] for page in pages] == [ask(server, page)[0] for page in pages]
    assert ask(path, "/-/healthy") == (200, b"healthy\n")
    assert all(address.startswith("127.0.0.1:") for address in server.addresses)


def test_local_request_has_the_peer_credentials(tmp_path: Path, stack: ExitStack) -> None:
    """The kernel provides process, user and group."""
    served(tmp_path / "api.sock", stack)
    status, body = ask(tmp_path / "api.sock", "/api/v1/echo", "POST", b"hello")

    assert status == 200
    who = [os.getpid(), os.getuid(), os.getgid()]
    assert body.decode() == f'{{"body":"hello","who":{who}}}\n'.replace(" ", "")


def test_local_route_is_refused_over_tcp(tmp_path: Path, stack: ExitStack) -> None:
    """The response has reason and remedy, with or without a local socket."""
    server = served(tmp_path / "api.sock", stack)
    status, body = ask(server, "/api/v1/echo", "POST", b"hello")

    assert status == 403
    assert body.startswith(b"refused over TCP, where the caller is unknown; ask on the node")
    assert b"path.api_socket" in body


def test_a_wrong_method_is_told_the_right_one(tmp_path: Path, stack: ExitStack) -> None:
    """HEAD is allowed only where GET is."""
    served(tmp_path / "api.sock", stack)

    assert ask(tmp_path / "api.sock", "/api/v1/echo") == (
        405,
        b"GET is not allowed here; use POST\n",
    )


def test_a_request_that_makes_no_sense_is_the_askers_fault(
    tmp_path: Path, stack: ExitStack
) -> None:
    """The response is 400 with the handler's message, and nothing is logged."""
    served(tmp_path / "api.sock", stack)
    with capture_logs() as logs:
        answer = ask(tmp_path / "api.sock", "/api/v1/echo", "POST", b"no")

    assert answer == (400, b"'no' is no answer; say yes\n")
    assert logs == []


def test_a_body_is_bounded_and_whole(tmp_path: Path, stack: ExitStack) -> None:
    """A body that is too long or truncated reaches no handler."""
    path = tmp_path / "api.sock"
    served(path, stack, body_limit_bytes=10)
    with closing(connect(path)) as connection:
        connection.sendall(
            b"POST /api/v1/echo HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nhalf"
        )
        connection.shutdown(socket.SHUT_WR)
        cut_off = connection.recv(65536)

    assert ask(path, "/api/v1/echo", "POST", b"x" * 11)[0] == 413
    assert cut_off.startswith(b"HTTP/1.1 400 ")
    assert cut_off.endswith(b"the body is shorter than Content-Length says\n")


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
def test_only_user_and_group_may_open_it(tmp_path: Path, stack: ExitStack, umask: int) -> None:
    """This holds for any umask."""
    before = os.umask(umask)
    try:
        served(tmp_path / "api.sock", stack)
    finally:
        os.umask(before)

    assert stat.S_IMODE((tmp_path / "api.sock").stat().st_mode) == 0o660


def test_local_socket_is_removed_when_the_server_stops(tmp_path: Path, stack: ExitStack) -> None:
    """The path can be used again at once."""
    server = served(tmp_path / "api.sock", stack)
    server.stop()
    assert list(tmp_path.iterdir()) == []

    served(tmp_path / "api.sock", stack)
    assert ask(tmp_path / "api.sock", "/-/healthy")[0] == 200


def test_the_socket_of_a_killed_agent_is_replaced(tmp_path: Path, stack: ExitStack) -> None:
    """No process answers on it."""
    served(left_behind(tmp_path / "api.sock"), stack)

    assert ask(tmp_path / "api.sock", "/-/healthy")[0] == 200


def test_a_socket_that_somebody_answers_behind_is_left_to_them(
    tmp_path: Path, stack: ExitStack
) -> None:
    """It stays while it is served, and after the late agent has stopped."""
    path = tmp_path / "api.sock"
    served(path, stack)
    with ExitStack() as late:
        error = unavailable(path, late)

    assert error.startswith(f"{path}: another process listens there")
    assert ask(path, "/-/healthy")[0] == 200


def test_a_listener_that_is_too_busy_to_accept_is_there_nevertheless(tmp_path: Path) -> None:
    """A full accept queue does not mean a stale socket."""
    path = tmp_path / "api.sock"
    with (
        closing(socket.socket(socket.AF_UNIX)) as busy,
        closing(socket.socket(socket.AF_UNIX)) as a,
    ):
        busy.bind(str(path))
        busy.listen(0)
        a.connect(str(path))
        with pytest.raises(RightsizerError, match="another process listens there"):
            LocalSocket(path).listen()


def test_of_agents_that_start_at_once_one_gets_it(tmp_path: Path, stack: ExitStack) -> None:
    """The agent that owns the socket is the one that answers."""
    path = left_behind(tmp_path / "api.sock")
    start = threading.Barrier(8)
    sockets = [LocalSocket(path) for _ in range(8)]
    listening: list[socket.socket] = []
    refused: list[str] = []

    def race(each: LocalSocket) -> None:
        start.wait()
        try:
            listening.append(stack.enter_context(closing(each.listen())))
        except RightsizerError as error:
            refused.append(str(error))

    threads = [threading.Thread(target=race, args=(each,)) for each in sockets]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert (len(listening), len(refused)) == (1, 7)
    with closing(connect(path)):
        listening[0].settimeout(20)
        listening[0].accept()[0].close()


def test_a_socket_of_somebody_else_by_now_is_not_removed(tmp_path: Path, stack: ExitStack) -> None:
    """An agent removes only the socket that it created."""
    path = tmp_path / "api.sock"
    mine = LocalSocket(path)
    stack.enter_context(closing(mine.listen()))
    path.unlink()
    other = LocalSocket(path)
    stack.enter_context(closing(other.listen()))
    mine.remove()
    assert path.is_socket()

    other.remove()
    assert not path.exists()


def test_a_file_that_is_no_socket_stays(tmp_path: Path, stack: ExitStack) -> None:
    """A wrong setting deletes no file."""
    path = tmp_path / "notes.txt"
    path.write_text("mine")

    assert "is no socket and is left as it is" in unavailable(path, stack)
    assert path.read_text() == "mine"


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("nowhere/api.sock", ["there is no folder", "nowhere", "RuntimeDirectory="]),
        ("file/api.sock", ["there is no folder"]),
        ("x" * 120, ["longer than the 107 bytes"]),
    ],
)
def test_without_a_place_for_it_the_agent_goes_on(
    tmp_path: Path, stack: ExitStack, path: str, words: list[str]
) -> None:
    """One log line names the path and the setting, and TCP is served as before."""
    (tmp_path / "file").write_text("")
    error = unavailable(tmp_path / path, stack)

    assert [word for word in (*words, "path.api_socket") if word not in error] == []


def test_a_folder_of_others_is_named_with_the_user() -> None:
    """This is typical of an agent that was started by hand."""
    # No user may create a file there, not even root.
    with pytest.raises(RightsizerError) as refused:
        LocalSocket(Path("/sys/api.sock")).listen()

    message = str(refused.value)
    assert message.startswith(f"/sys/api.sock may not be made by user {os.geteuid()} (")
    assert "give /sys to that user, or choose another place with path.api_socket" in message


def test_a_deleted_socket_comes_back(tmp_path: Path, stack: ExitStack) -> None:
    """Within seconds, logged, with the same permissions; connections that were open go on."""
    path = tmp_path / "api.sock"
    server = served(path, stack)
    earlier = stack.enter_context(closing(connect(path)))
    with capture_logs() as logs:
        path.unlink()
        eventually(path.exists)
        eventually(lambda: [line["event"] for line in logs] == ["local_socket_renewed"])
    assert stat.S_IMODE(path.stat().st_mode) == 0o660
    assert ask(path, "/api/v1/echo", "POST", b"yes")[0] == 200
    earlier.sendall(b"GET /-/healthy HTTP/1.1\r\nHost: a\r\n\r\n")
    assert earlier.recv(100).startswith(b"HTTP/1.1 200 ")
    server.stop()
    assert not path.exists()


def test_socket_that_could_not_be_made_at_the_start_comes_later(
    tmp_path: Path, stack: ExitStack
) -> None:
    """Once its folder is there, logged."""
    path = tmp_path / "later" / "api.sock"
    with capture_logs() as logs:
        server = served(path, stack)
        path.parent.mkdir()
        eventually(path.exists)
        eventually(lambda: len(logs) == 2)
    assert [line["event"] for line in logs] == ["local_socket_unavailable", "local_socket_renewed"]
    assert logs[1]["reason"] == "it could not be made before"
    assert ask(path, "/api/v1/echo", "POST", b"yes")[0] == 200
    server.stop()
    assert not path.exists()


def test_a_socket_that_another_process_made_by_now_is_left_to_it(
    tmp_path: Path, stack: ExitStack
) -> None:
    """With the process's remedy in the log, once."""
    local = LocalSocket(tmp_path / "api.sock")
    stack.enter_context(local.listen())
    local.path.unlink()
    other = stack.enter_context(socket.socket(socket.AF_UNIX))
    other.bind(str(local.path))
    other.listen()
    with capture_logs() as logs:
        assert local.renew() is None
        assert local.renew() is None
    assert [line["event"] for line in logs] == ["local_socket_lost"]
    assert "another process listens there" in logs[0]["error"]


def test_a_crowd_at_the_addresses_does_not_keep_the_operator_out(
    tmp_path: Path, stack: ExitStack
) -> None:
    """The local socket has connections of its own."""
    entered = threading.Semaphore(0)
    leave = threading.Event()

    def slow() -> None:
        entered.release()
        leave.wait(20)

    server = WebServer(
        ["127.0.0.1:0"],
        latest=slow,
        exposition=MetricsExposition(node_report),
        settings=WebSettings(connections_maximum=2),
        local_socket=str(tmp_path / "api.sock"),
    )
    server.start()
    stack.callback(server.stop)
    crowd = [threading.Thread(target=ask, args=(server, "/-/ready")) for _ in range(2)]
    for thread in crowd:
        thread.start()
        entered.acquire(timeout=60)
    refused = ask(server, "/-/healthy")[0]
    answered = ask(tmp_path / "api.sock", "/-/healthy")[0]
    leave.set()
    for thread in crowd:
        thread.join()

    assert (refused, answered) == (503, 200)
