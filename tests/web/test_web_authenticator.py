"""The server with a web configuration file: users, limits, headers, and protected actions."""

import base64
import errno
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from http.client import HTTPConnection, HTTPException, HTTPResponse
from pathlib import Path
from socketserver import TCPServer
from typing import Any, Final

import bcrypt
import pytest
from structlog.testing import capture_logs

from publish_reports import node_report
from rightsizer.exposition.exposition import MetricsExposition
from rightsizer.model.errors import ConfigurationError
from rightsizer.web.api import lifecycle_routes
from rightsizer.web.authenticator import Authenticator, Passwords
from rightsizer.web.message import WebRequest, WebResponse
from rightsizer.web.router import Route
from rightsizer.web.server import WebAccess, WebServer
from rightsizer.web.settings import PasswordSettings
from rightsizer.web.web_config import WebConfigFile, WebConfigReader

HASH: Final = bcrypt.hashpw(b"secret", bcrypt.gensalt(4)).decode()
USERS: Final = f"basic_auth_users: {{alice: {HASH}}}\n"
REPORT: Final = node_report()


def act(request: WebRequest) -> WebResponse:
    """A protected route returns the user."""
    return WebResponse.of_text(str(request.identity))


class Place:
    """A server, its file, and its reloads."""

    def __init__(self, folder: Path, stack: ExitStack, text: str, **options: Any) -> None:
        self.path = folder / "web.yml"
        self.path.write_text(text)
        self.file = WebConfigFile(WebConfigReader(self.path), settle_seconds=0.0)
        self.reloads = 0
        is_enabled = options.get("allows_changes", False)
        self.server = WebServer(
            ["127.0.0.1:0"],
            latest=lambda: REPORT,
            exposition=MetricsExposition(lambda: REPORT),
            access=WebAccess(
                authenticator=Authenticator(
                    self.file.current, Passwords(PasswordSettings(share_ratio=1.0))
                ),
                **options,
            ),
            local_routes=(
                Route("POST", "/api/v1/act", act, is_local=True),
                *lifecycle_routes(self.reload, is_enabled=is_enabled),
            ),
        )
        self.server.start()
        stack.callback(self.server.stop)

    def reload(self) -> None:
        """Handler of `/-/reload`."""
        self.reloads += 1
        self.file.prepare()()

    def ask(
        self, path: str, method: str = "GET", user: str = "", **headers: str
    ) -> tuple[HTTPResponse, str]:
        """One request; `user` is a name and a password separated by a colon."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        if user:
            named["Authorization"] = "Basic " + base64.b64encode(user.encode()).decode()
        port = int(self.server.addresses[0].rpartition(":")[2])
        with closing(HTTPConnection("127.0.0.1", port, timeout=60)) as connection:
            connection.request(method, path, headers=named)
            response = connection.getresponse()
            return response, response.read().decode()


Open = Callable[..., Place]


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Open]:
    """Starts servers with a configuration file."""
    with ExitStack() as stack:
        yield lambda text, **options: Place(tmp_path, stack, text, **options)


@pytest.mark.parametrize("path", ["/", "/metrics", "/-/healthy", "/-/ready", "/nowhere"])
def test_users_are_asked_for_everywhere(place: Open, path: str) -> None:
    """As in the toolkit this includes health; a header makes browsers ask."""
    opened = place(USERS)
    response, body = opened.ask(path)
    assert (response.status, body) == (401, "Unauthorized\n")
    assert response.getheader("WWW-Authenticate", "").startswith("Basic ")
    assert opened.ask(path, user="alice:secret")[0].status in {200, 404, 503}


@pytest.mark.parametrize(
    "authorization",
    ["Basic", "Basic !", "Basic YWxpY2U=", "Bearer YWxpY2U6c2VjcmV0", "Basic /zpz", "x" * 9000],
)
def test_invalid_credentials_are_refused(place: Open, authorization: str) -> None:
    """Covers a missing colon, an invalid encoding, and another scheme."""
    assert place(USERS).ask("/metrics", Authorization=authorization)[0].status == 401


def test_a_changed_file_is_in_force_at_once(place: Open) -> None:
    """A broken file is logged once and keeps the old one; a repaired file is loaded."""
    opened = place("")
    assert opened.ask("/metrics")[0].status == 200
    with capture_logs() as logs:
        opened.path.write_text(f"{USERS}http_server_config: {{headers: {{X-XSS-Protection: '0'}}}}")
        response, _ = opened.ask("/metrics", user="alice:secret")
        assert (response.status, response.getheader("X-XSS-Protection")) == (200, "0")
        opened.path.write_text("basic_auth_users: [")
        for _ in range(3):
            assert opened.ask("/metrics")[0].status == 401
            assert opened.ask("/metrics", user="alice:secret")[0].status == 200
        assert "web.yml:2:1" in str(opened.file.trouble)
        opened.path.unlink()
        assert opened.ask("/metrics")[0].status == 401
        opened.path.write_text("")
        assert opened.ask("/metrics")[0].status == 200
    assert opened.file.trouble is None
    assert [entry["event"] for entry in logs] == [
        "web_config_loaded",
        "web_config_refused",
        "web_config_refused",
        "web_config_loaded",
    ]


def test_half_of_a_file_is_never_in_force(place: Open) -> None:
    """A file is read once writing has ended: an empty one would have no users."""
    opened = place(USERS)
    patient = WebConfigFile(WebConfigReader(opened.path), settle_seconds=3600.0)
    opened.path.write_text("")
    assert patient.current().users
    hasty = WebConfigFile(WebConfigReader(opened.path), settle_seconds=0.0)
    assert not hasty.current().users
    hour_ago = time.time() - 3601.0
    os.utime(opened.path, (hour_ago, hour_ago))
    assert not patient.current().users


def test_http2_is_taken_and_reported_once(place: Open) -> None:
    """A file written for other exporters works; the server speaks HTTP/1.1."""
    with capture_logs() as logs:
        opened = place("http_server_config: {http2: true}")
        opened.path.write_text("http_server_config: {http2: true} # again")
        assert opened.ask("/metrics")[0].status == 200
    assert [entry["event"] for entry in logs] == ["http2_not_spoken", "web_config_loaded"]


def test_the_operators_headers_replace_ours(place: Open) -> None:
    """The operator's headers apply to refusals too."""
    opened = place(
        f"{USERS}http_server_config: {{headers: {{X-Frame-Options: sameorigin}}}}",
    )
    response, _ = opened.ask("/")
    assert response.status == 401
    assert response.headers.get_all("X-Frame-Options") == ["sameorigin"]
    assert response.getheader("X-Content-Type-Options") == "nosniff"


def test_a_client_that_asks_too_often_is_told_to_wait(place: Open) -> None:
    """A burst is answered, then refused until an interval has passed."""
    opened = place("rate_limit: {interval: 1h, burst: 3}")
    statuses = [opened.ask("/-/healthy")[0].status for _ in range(4)]
    assert statuses == [200, 200, 200, 429]
    assert opened.ask("/metrics")[0].getheader("Retry-After") == "1"


def test_changes_need_the_flag_and_a_name(place: Open) -> None:
    """Without either the refusal has the remedy; with both the user is known."""
    opened = place(USERS)
    response, body = opened.ask("/api/v1/act", "POST", user="alice:secret")
    assert response.status == 403
    assert "--web.enable-lifecycle" in body
    opened.server.stop()
    opened = place("", allows_changes=True)
    assert opened.ask("/api/v1/act", "POST")[0].status == 403
    opened.path.write_text(USERS)
    assert opened.ask("/api/v1/act", "POST")[0].status == 401
    assert opened.ask("/api/v1/act", "POST", user="alice:secret")[1] == "user:alice\n"


@pytest.mark.parametrize(
    "headers",
    [{"Origin": "https://evil.example"}, {"Sec_Fetch_Site": "cross-site"}, {"Origin": "http://["}],
)
@pytest.mark.parametrize("path", ["/api/v1/act", "/-/reload"])
def test_another_sites_page_changes_nothing(
    place: Open, path: str, headers: dict[str, str]
) -> None:
    """A browser sends the password along, but the other site's origin is refused."""
    opened = place(USERS, allows_changes=True)
    assert opened.ask(path, "POST", "alice:secret", **headers)[0].status == 403
    own = opened.server.addresses[0]
    assert opened.ask(path, "POST", "alice:secret", Origin=f"http://{own}")[0].status == 200


def test_reload_is_for_those_who_enabled_it(place: Open) -> None:
    """403 without the flag, no GET, and 500 with the error where the file is broken."""
    opened = place("")
    response, body = opened.ask("/-/reload", "POST")
    assert response.status == 403
    assert "local socket" in body
    assert "SIGHUP" not in body  # Process 1 of a pod with hostPID is the node's.
    assert opened.ask("/-/reload")[0].status == 405
    opened.server.stop()
    opened = place("", allows_changes=True)
    assert [opened.ask("/-/reload", method)[0].status for method in ("PUT", "POST")] == [200, 200]
    opened.path.write_text("nothing: known")
    response, body = opened.ask("/-/reload", "POST")
    assert response.status == 500
    assert "web.yml:1:1: nothing: unknown key" in body
    assert opened.reloads == 3


def test_a_forced_reading_that_fails_changes_nothing(place: Open) -> None:
    """Settings apply on commit; a `prepare` that fails keeps the committed ones."""
    opened = place("")
    opened.path.write_text(USERS)
    commit = opened.file.prepare()
    commit()
    assert opened.ask("/metrics")[0].status == 401
    opened.path.write_text("x: 1")
    with pytest.raises(ConfigurationError):
        opened.file.prepare()
    assert opened.ask("/metrics")[0].status == 401


def test_a_flood_of_guesses_delays_no_one_who_is_known(place: Open) -> None:
    """While eight clients guess without a pause, each scrape of a known client is answered."""
    opened = place(USERS)
    assert opened.ask("/metrics", user="alice:secret")[0].status == 200
    stop = threading.Event()
    statuses: set[int] = set()

    def guess(number: int) -> None:
        while not stop.is_set():
            password = f"alice:{number}-{time.monotonic_ns()}"
            statuses.add(opened.ask("/metrics", user=password)[0].status)

    threads = [threading.Thread(target=guess, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    try:
        answers = [opened.ask("/metrics", user="alice:secret")[0].status for _ in range(30)]
    finally:
        stop.set()
        for thread in threads:
            thread.join(20)
    assert set(answers) == {200}
    assert statuses <= {401, 429}


def test_a_refused_request_ends_its_connection(place: Open) -> None:
    """The next guess needs a new connection, which is queued."""
    opened = place(USERS)
    refused, _ = opened.ask("/metrics", user="alice:wrong")
    served, _ = opened.ask("/metrics", user="alice:secret")

    assert (refused.status, refused.getheader("Connection")) == (401, "close")
    assert (served.status, served.getheader("Connection")) == (200, None)


def test_a_fault_outside_of_an_answer_is_logged(
    place: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only internal errors are logged; disconnecting clients are not."""
    opened = place("")
    for fault in (ConnectionResetError(), LookupError("no such thing")):

        def fails(*_: object, fault: Exception = fault) -> None:
            raise fault

        monkeypatch.setattr("rightsizer.web.handler.read_head", fails)
        with capture_logs() as logs, pytest.raises(HTTPException):
            opened.ask("/metrics")

    assert [(entry["event"], entry["error"]) for entry in logs] == [
        ("connection_failed", "LookupError('no such thing')")
    ]


def test_connections_wait_where_no_file_can_be_opened(
    place: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each retry waits, as the connection would be there at once; one line is logged."""
    opened = place("")
    accept = TCPServer.get_request
    pauses = list[float]()
    pause = time.sleep
    failures = iter([errno.EMFILE, errno.EMFILE, errno.ENFILE])

    def refuse(server: TCPServer) -> Any:
        for code in failures:
            raise OSError(code, "Too many open files")
        return accept(server)

    def rest(seconds: float) -> None:
        # All threads of the process rest by the same function.
        if threading.current_thread().name.startswith("web "):
            pauses.append(seconds)
        else:
            pause(seconds)

    monkeypatch.setattr(TCPServer, "get_request", refuse)
    monkeypatch.setattr("rightsizer.web.listener.time.sleep", rest)
    with capture_logs() as logs:
        assert opened.ask("/-/healthy")[0].status == 200

    assert pauses == [0.2, 0.2, 0.2]
    assert [entry["event"] for entry in logs] == ["connections_wait"]


def test_everything_is_below_a_prefix(place: Open) -> None:
    """Paths without it are not found, except for the root, which redirects there."""
    opened = place("", route_prefix="/gpu", telemetry_path="/numbers")
    response, _ = opened.ask("/")
    assert (response.status, response.getheader("Location")) == (302, "/gpu/")
    assert opened.ask("/gpu/numbers")[1].startswith("# HELP")
    assert opened.ask("/metrics")[0].status == 404
    assert opened.ask("/gpu/metrics")[0].status == 404
    assert opened.ask("/gpux/numbers")[0].status == 404
