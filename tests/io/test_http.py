"""The JSON client against real sockets on loopback."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from email.utils import formatdate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grafana_server import TOKEN, grafana_server
from rightsizer.io.http import HttpClient
from rightsizer.io.http_result import Failure, FailureKind, Response
from rightsizer.io.http_settings import HttpSettings

SEARCH = [("tags", "a b"), ("tags", "c"), ("from", "1"), ("to", "2")]
PATIENCE = HttpSettings(timeout_seconds=0.3, backoff_seconds=1.0)


def client(url: str, slept: list[float] | None = None) -> HttpClient:
    """A client that only records its waits."""
    waits = slept if slept is not None else []
    return HttpClient(url, PATIENCE, token=lambda: TOKEN, sleep=waits.append, jitter=lambda: 1.0)


@contextmanager
def raw_server(answer: bytes) -> Iterator[str]:
    """A server that sends the given bytes on a connection and closes it."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                with connection:
                    connection.recv(65536)
                    connection.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()


def closed_port() -> int:
    """A port of loopback without a listener."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def page(body: bytes, status: str = "200 OK", headers: str = "") -> bytes:
    """An HTTP response."""
    return f"HTTP/1.1 {status}\r\n{headers}Content-Length: {len(body)}\r\n\r\n".encode() + body


def test_answer_is_parsed_json() -> None:
    """A success has its status and parsed body; repeated query keys all arrive."""
    with grafana_server() as grafana:
        result = client(grafana.url).request("GET", "/api/annotations", query=SEARCH)
    assert (result.status, result.body) == (200, [])
    assert grafana.requests == [("GET", "/api/annotations?tags=a+b&tags=c&from=1&to=2")]


def test_sub_path_of_the_address_stays() -> None:
    """An address with a path prefixes every request with it."""
    with grafana_server() as grafana:
        client(grafana.url + "/grafana/").request("GET", "/x", query=SEARCH)
        grafana.complaints.clear()
    assert grafana.requests[0][1].startswith("/grafana/x?")


@pytest.mark.parametrize("status", [429, 502, 503, 504])
def test_busy_peer_is_asked_again(status: int) -> None:
    """A read from a busy server is retried, with doubling waits."""
    slept: list[float] = []
    with grafana_server() as grafana:
        grafana.faults = [f"GET {status}"] * 2
        result = client(grafana.url, slept).request("GET", "/api/annotations", query=SEARCH)
    assert isinstance(result, Response)
    assert slept == [1.0, 2.0]


@pytest.mark.parametrize("status", [400, 401, 403, 404, 500])
def test_refusal_is_final(status: int) -> None:
    """Any other status is not retried."""
    with grafana_server() as grafana:
        grafana.faults = [f"GET {status}"]
        result = client(grafana.url).request("GET", "/api/annotations", query=SEARCH)
    assert isinstance(result, Failure)
    assert (result.kind, result.status) == (FailureKind.REFUSED, status)
    assert len(grafana.requests) == 1


def test_tries_are_counted() -> None:
    """After the last attempt the failure is the last response."""
    with grafana_server() as grafana:
        grafana.faults = ["GET 503"] * 9
        result = client(grafana.url).request("GET", "/api/annotations", query=SEARCH)
    assert isinstance(result, Failure)
    assert result.status == 503
    assert len(grafana.requests) == PATIENCE.tries


def test_retry_after_is_honored() -> None:
    """The wait is the requested one."""
    slept: list[float] = []
    with grafana_server() as grafana:
        grafana.faults = ["GET 429"]
        grafana.retry_after = "7"
        result = client(grafana.url, slept).request("GET", "/api/annotations", query=SEARCH)
    assert isinstance(result, Response)
    assert slept == [7.0]


def test_long_retry_after_is_left_to_the_caller() -> None:
    """The failure has the duration."""
    slept: list[float] = []
    with grafana_server() as grafana:
        grafana.faults = ["GET 429"]
        grafana.retry_after = "3600"
        result = client(grafana.url, slept).request("GET", "/api/annotations", query=SEARCH)
    assert isinstance(result, Failure)
    assert result.retry_after_seconds == 3600
    assert slept == []


def test_retry_after_may_be_a_date() -> None:
    """A date is converted to seconds until then."""
    slept: list[float] = []
    with grafana_server() as grafana:
        grafana.faults = ["GET 503"]
        grafana.retry_after = formatdate(1000.0, usegmt=True)
        patient = HttpClient(
            grafana.url,
            PATIENCE,
            token=lambda: TOKEN,
            sleep=slept.append,
            wall_seconds=lambda: 995.0,
        )
        patient.request("GET", "/api/annotations", query=SEARCH)
    assert slept == [5.0]


@pytest.mark.parametrize(("method", "tries"), [("GET", 3), ("POST", 1)])
def test_aborted_request_is_retried_where_that_is_safe(method: str, tries: int) -> None:
    """Covers connections closed or reset in the middle of a response."""
    slept: list[float] = []
    with raw_server(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf") as url:
        result = client(url, slept).request(method, "/", body={} if method == "POST" else None)

    assert isinstance(result, Failure)
    assert result.kind is FailureKind.INTERRUPTED
    assert len(slept) == tries - 1


def test_an_interrupted_wait_ends_the_tries() -> None:
    """A stopping caller gets the last failure at once, without another attempt."""
    with grafana_server() as grafana:
        grafana.faults = ["GET 503", "GET 503"]
        hasty = HttpClient(grafana.url, PATIENCE, token=lambda: TOKEN, sleep=lambda _: True)
        result = hasty.request("GET", "/api/annotations", query=SEARCH)
        assert grafana.faults == ["GET 503"]
    assert isinstance(result, Failure)
    assert result.status == 503


@given(st.text(alphabet=st.characters(codec="latin-1", exclude_categories=["Cc"])))
def test_strange_retry_after_does_no_harm(header: str) -> None:
    """For any Retry-After the request ends in a typed failure."""
    answer = page(b"{}", "404 Not Found").replace(
        b"Content-Length", f"Retry-After: {header}\r\nContent-Length".encode("latin-1")
    )
    with raw_server(answer) as url:
        assert isinstance(client(url).request("GET", "/"), Failure)


@pytest.mark.parametrize("fault", ["POST 503", "POST 429", "POST cut"])
def test_post_is_sent_once(fault: str) -> None:
    """A request that is not idempotent is not repeated once its bytes are sent."""
    body = {"time": 10**13, "timeEnd": 10**13, "tags": ["a"], "text": "x"}
    with grafana_server() as grafana:
        grafana.faults = [fault]
        result = client(grafana.url).request("POST", "/api/annotations", body=body)
    assert isinstance(result, Failure)
    assert len(grafana.requests) == 1


def test_caller_may_vouch_for_a_request() -> None:
    """A PATCH declared idempotent by its caller is retried."""
    with grafana_server() as grafana:
        grafana.faults = ["PATCH 503"]
        grafana.annotations[4] = {"id": 4}
        result = client(grafana.url).request(
            "PATCH", "/api/annotations/4", body={"timeEnd": 5}, idempotent=True
        )
    assert (result.status, result.body) == (200, {"message": "Annotation patched"})


def test_peer_that_is_away_is_a_failure() -> None:
    """A refused connection is retried, even for a POST, and then returned as a failure."""
    slept: list[float] = []
    port = closed_port()
    result = client(f"http://127.0.0.1:{port}", slept).request("POST", "/", body={})
    assert isinstance(result, Failure)
    assert result.kind is FailureKind.AWAY
    assert result.message == (f"127.0.0.1:{port} cannot be reached: connection refused")
    assert slept == [1.0, 2.0]


def test_slow_peer_is_given_up() -> None:
    """A response after the timeout is an interruption, without a retry."""
    with grafana_server() as grafana:
        grafana.faults = ["GET slow"] * 3
        result = client(grafana.url).request("GET", "/api/annotations", query=SEARCH)
    assert isinstance(result, Failure)
    assert result.kind is FailureKind.INTERRUPTED
    assert "did not answer within 0.3 s" in result.message
    assert len(grafana.requests) == 1


def test_page_in_the_way_is_named() -> None:
    """A success without JSON suggests a login page or a proxy."""
    with grafana_server() as grafana:
        grafana.faults = ["GET html"]
        result = client(grafana.url).request("GET", "/api/annotations", query=SEARCH)
    assert isinstance(result, Failure)
    assert result.kind is FailureKind.MALFORMED
    assert "login page" in result.message


def test_redirect_is_not_followed() -> None:
    """A redirect could leak the token: the failure has its target."""
    answer = page(b"", "302 Found", "Location: https://elsewhere.example/login\r\n")
    with raw_server(answer) as url:
        result = client(url).request("GET", "/")
    assert isinstance(result, Failure)
    assert "points to https://elsewhere.example/login" in result.message


def test_answer_is_bounded() -> None:
    """A body beyond the limit is dropped."""
    small = HttpSettings(response_maximum_bytes=1024)
    with raw_server(page(b"[" + b" " * 4096 + b"]")) as url:
        result = HttpClient(url, small).request("GET", "/")
    assert isinstance(result, Failure)
    assert "more than 1024 bytes" in result.message


@pytest.mark.parametrize(
    "answer",
    [b"", b"\x00\xff\x00", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{}", b"SSH-2.0-x\r\n"],
)
def test_nonsense_is_an_interruption(answer: bytes) -> None:
    """Bytes that are no complete HTTP response give a typed failure."""
    with raw_server(answer) as url:
        result = client(url).request("GET", "/")
    assert isinstance(result, Failure)
    assert result.kind is FailureKind.INTERRUPTED


def test_empty_answer_has_no_body() -> None:
    """A success without content is a success."""
    with raw_server(page(b"")) as url:
        assert client(url).request("GET", "/").body is None


def test_plain_peer_is_not_trusted() -> None:
    """A server without the expected TLS is a failure, not an exception."""
    with raw_server(b"HTTP/1.1 400 Bad Request\r\n\r\n") as url:
        result = client(url.replace("http:", "https:")).request("GET", "/")
    assert isinstance(result, Failure)
    assert result.kind is FailureKind.MALFORMED
    assert "speaks no TLS; write http for https" in result.message


def test_missing_authorities_are_named() -> None:
    """A missing CA file is reported, and nothing is sent."""
    settings = HttpSettings(ca_file="/nonexistent/ca.pem")
    with raw_server(b"") as url:
        result = HttpClient(url.replace("http:", "https:"), settings).request("GET", "/")
    assert isinstance(result, Failure)
    assert result.kind is FailureKind.UNTRUSTED
    assert "no such file" in result.message


def test_echoed_token_is_not_repeated() -> None:
    """A response that repeats the Authorization header does not leak the token into a message."""
    with grafana_server() as grafana:
        grafana.faults = ["GET 500"]
        result = client(grafana.url).request("GET", "/api/annotations", query=SEARCH)
    assert isinstance(result, Failure)
    assert TOKEN not in result.message
    assert "***" in result.message


@pytest.mark.parametrize("token", ["two\nlines", "schlüssel"])
def test_unfit_token_is_never_sent(token: str) -> None:
    """A token that is no valid header value is a failure that does not repeat it."""
    result = HttpClient("http://127.0.0.1:1", token=lambda: token).request("GET", "/")
    assert isinstance(result, Failure)
    assert result.kind is FailureKind.CREDENTIAL
    assert token not in result.message


@pytest.mark.parametrize(
    "url", ["", "grafana:3000", "ftp://x", "http://", "http://u:p@x", "http://x/?orgId=1"]
)
def test_unusable_address_is_refused(url: str) -> None:
    """The error comes when the client is created."""
    with pytest.raises(ValueError, match=r"write it like|use a token|end it at the path"):
        HttpClient(url)


def test_hanging_up_is_not_the_end() -> None:
    """After `close` the next request connects again."""
    with grafana_server() as grafana:
        http = client(grafana.url)
        first = http.request("GET", "/api/annotations", query=SEARCH)
        http.close()
        assert http.request("GET", "/api/annotations", query=SEARCH) == first
        http.close()


def test_text_is_given_as_it_is() -> None:
    """A text response need not be JSON."""
    with raw_server(page("up 1 \u00b0\n".encode())) as url:
        result = HttpClient(url, PATIENCE, accept="text/plain").request("GET", "/metrics")
    assert (result.status, result.body) == (200, "up 1 \u00b0\n")


def test_a_body_that_is_no_utf_8_is_sent() -> None:
    """As an actor's name from a shell of another encoding; it is one line of JSON with a `?`."""
    with raw_server(page(b"{}")) as url:
        result = client(url).request("POST", "/x", body={"actor": "caf\udce9"})
    assert isinstance(result, Response)
