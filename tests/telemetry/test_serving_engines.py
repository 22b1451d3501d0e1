"""Serving engines over real sockets: fast, slow, hung, gone, restarted, and other servers."""

import threading
from collections.abc import Callable, Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import MappingProxyType
from typing import Any

import pytest

from readings import gpu
from rightsizer.model.signal import Signal
from rightsizer.telemetry.serving.settings import (
    EngineName,
    ServingEndpoint,
    ServingTelemetrySettings,
)
from rightsizer.telemetry.serving.source import ServingEngineCollector

WAIT = 20.0
"""Far longer than any test takes; nothing is measured by it."""


def vllm(requests: int) -> str:
    """A page of vLLM after the given number of requests of 2 s each."""
    return (
        'vllm:num_requests_waiting{model_name="llama"} 4\n'
        f'vllm:num_preemptions_total{{model_name="llama"}} {requests}\n'
        f'vllm:e2e_request_latency_seconds_sum{{model_name="llama"}} {2 * requests}\n'
        f'vllm:e2e_request_latency_seconds_count{{model_name="llama"}} {requests}\n'
    )


class Pages:
    """A loopback server with a given answer for each path."""

    def __init__(self) -> None:
        self.answers: dict[str, Callable[[BaseHTTPRequestHandler], None]] = {}
        self.requests: list[str] = []
        self.stop = threading.Event()
        pages = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                pages.requests.append(self.path)
                try:
                    pages.answers[self.path](self)
                except (BrokenPipeError, ConnectionResetError):
                    self.close_connection = True

            def log_message(self, *arguments: object) -> None:
                """Log nothing."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        self._thread = threading.Thread(target=self.server.serve_forever, args=(0.01,))
        self._thread.start()

    def say(
        self,
        path: str,
        text: str | bytes,
        status: int = 200,
        headers: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """Answer a path with a text."""
        body = text.encode() if isinstance(text, str) else text

        def answer(handler: BaseHTTPRequestHandler) -> None:
            handler.send_response(status)
            for name, value in {"Content-Length": str(len(body)), **headers}.items():
                handler.send_header(name, value)
            handler.end_headers()
            handler.wfile.write(body)

        self.answers[path] = answer

    def hang(self, path: str) -> None:
        """Accept a request and hang until the end."""
        self.answers[path] = lambda _: self._hang()

    def _hang(self) -> None:
        self.stop.wait(WAIT)

    def drip(self, path: str) -> None:
        """Send a line now and then, forever."""

        def answer(handler: BaseHTTPRequestHandler) -> None:
            handler.send_response(200)
            handler.end_headers()
            while not self.stop.wait(0.02):
                handler.wfile.write(b"# another line\n")

        self.answers[path] = answer

    def close(self) -> None:
        """Stop the server and all hanging requests."""
        self.stop.set()
        self.server.shutdown()
        self.server.server_close()
        self._thread.join()


@pytest.fixture
def pages() -> Iterator[Pages]:
    """A server for one test."""
    served = Pages()
    yield served
    served.close()


class Node:
    """Engines on a clock that only a test advances."""

    def __init__(self, *endpoints: ServingEndpoint, **settings: float) -> None:
        self.time = 1000.0
        configured = ServingTelemetrySettings(endpoints=endpoints, **settings)  # type: ignore[arg-type]
        self.engines = ServingEngineCollector(configured, now=lambda: self.time)

    def after(self, seconds: float) -> dict[Signal, float]:
        """Result of the only endpoint some time later."""
        self.time += seconds
        return dict(next(iter(self.engines.latest(WAIT).values()), {}))

    def trouble(self) -> str:
        """Error of the only endpoint."""
        return next(iter(self.engines.outcomes().values())).failure or ""


@pytest.fixture
def node(pages: Pages) -> Iterator[Node]:
    """One engine at the default path, on GPU 0."""
    made = Node(ServingEndpoint(pages.url, gpus=("0",)), timeout_seconds=WAIT)
    yield made
    made.engines.close()


def test_first_page_gives_what_stands_and_the_second_what_happened(
    pages: Pages, node: Node
) -> None:
    """A mean needs an interval; a queue length does not."""
    pages.say("/metrics", vllm(10))
    assert node.after(0) == {Signal.REQUESTS_WAITING: 4.0, Signal.PREEMPTIONS: 10.0}

    pages.say("/metrics", vllm(15))
    assert node.after(5) == {
        Signal.REQUESTS_WAITING: 4.0,
        Signal.PREEMPTIONS: 15.0,
        Signal.REQUEST_LATENCY_SECONDS: 2.0,
    }


def test_an_engine_is_asked_once_an_interval(pages: Pages, node: Node) -> None:
    """However often it is read, its values are kept for the interval."""
    pages.say("/metrics", vllm(10))
    said = node.after(0)

    assert [node.after(1) for _ in range(4)] == [said] * 4
    assert pages.requests == ["/metrics"]


def test_nobody_waits_for_an_engine_that_hangs(pages: Pages) -> None:
    """The other's values arrive, and the silent one is reported."""
    pages.hang("/hung")
    pages.say("/metrics", vllm(10))
    hung = ServingEndpoint(f"{pages.url}/hung", gpus=("0",))
    quick = ServingEndpoint(pages.url, gpus=("1",))
    node = Node(hung, quick, timeout_seconds=0.3)

    node.engines.latest()
    while quick not in node.engines.latest():
        threading.Event().wait(0.01)
    said = node.engines.read((gpu(0), gpu(1)), {})
    assert set(said) == {gpu(1).uuid}
    while "did not answer within 0.3 s" not in str(node.engines.outcomes()[hung.name].failure):
        threading.Event().wait(0.01)
        node.engines.latest()
    outcomes = node.engines.outcomes()
    node.engines.close()

    assert outcomes[quick.name].success
    assert not outcomes[hung.name].success


def test_a_page_that_never_ends_is_given_up(pages: Pages) -> None:
    """Each line comes in time, the whole page does not."""
    pages.drip("/metrics")
    node = Node(ServingEndpoint(pages.url, gpus=("0",)), timeout_seconds=0.2)

    assert node.after(0) == {}
    assert "did not answer within 0.2 s" in node.trouble()
    node.engines.close()


def test_a_page_that_is_too_large_is_given_up(pages: Pages) -> None:
    """No engine has such a page."""
    pages.say("/metrics", b"#" * 5000)
    node = Node(ServingEndpoint(pages.url, gpus=("0",)), page_maximum_bytes=4096)

    assert node.after(0) == {}
    assert "more than 4096 bytes" in node.trouble()
    node.engines.close()


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (("", 404), "answered 404"),
        (("", 302, {"Location": "http://h/login"}), "points to http://h/login; use the address"),
        (("<html>sign in</html>",), "no metrics of a serving engine"),
        ((b"\x00\xff\xfe",), "no metrics of a serving engine"),
        (("",), "no metrics of a serving engine"),
        (('tgi_queue_size{x="',), "not in Prometheus's text format"),
        ((vllm(1), 200, {"Content-Length": "9999"}), "broke off"),
    ],
)
def test_page_of_another_server_is_reported(
    pages: Pages, node: Node, answer: tuple[Any, ...], why: str
) -> None:
    """Nothing is read from it, and the error shows what came instead."""
    pages.say("/metrics", *answer)

    assert node.after(0) == {}
    assert why in node.trouble()


def test_a_page_in_pieces_without_a_length_is_read(pages: Pages, node: Node) -> None:
    """Some engines stream it so."""

    def stream(handler: BaseHTTPRequestHandler) -> None:
        handler.protocol_version = "HTTP/1.1"
        handler.send_response(200)
        handler.send_header("Transfer-Encoding", "chunked")
        handler.end_headers()
        for line in (*vllm(10).splitlines(keepends=True), ""):
            handler.wfile.write(f"{len(line):x}\r\n{line}\r\n".encode())
            handler.wfile.flush()

    pages.answers["/metrics"] = stream

    assert node.after(0) == {Signal.REQUESTS_WAITING: 4.0, Signal.PREEMPTIONS: 10.0}


def test_nobody_at_the_address_is_reported(pages: Pages, node: Node) -> None:
    """An engine that loads its model is such a case; an answer ends the error."""
    silent = Node(ServingEndpoint("http://127.0.0.1:1", gpus=("0",)))
    assert silent.after(0) == {}
    assert "127.0.0.1:1 cannot be reached" in silent.trouble()
    silent.engines.close()

    pages.say("/metrics", "", 503)
    assert node.after(0) == {}
    pages.say("/metrics", vllm(0))
    assert node.after(5)[Signal.REQUESTS_WAITING] == 4.0
    assert node.trouble() == ""


def test_a_failure_leaves_what_was_said_until_its_time_is_up(pages: Pages, node: Node) -> None:
    """They are valid for two intervals; then they are missing, and the next page is a first one."""
    pages.say("/metrics", vllm(10))
    said = node.after(0)
    pages.say("/metrics", "", 500)

    assert node.after(5) == said
    assert "answered 500" in node.trouble()
    assert node.after(6) == {}
    pages.say("/metrics", vllm(1000))
    assert Signal.REQUEST_LATENCY_SECONDS not in node.after(5)


def test_restarted_engine_is_read_on(pages: Pages, node: Node) -> None:
    """Its counters restart at 0; no value is negative."""
    pages.say("/metrics", vllm(100))
    node.after(0)
    pages.say("/metrics", vllm(3))

    found = node.after(5)
    assert found[Signal.PREEMPTIONS] == 3.0
    assert found[Signal.REQUEST_LATENCY_SECONDS] == 2.0


def test_another_engine_takes_the_address(pages: Pages, node: Node) -> None:
    """It is recognized again, and its totals are not compared with the former's."""
    pages.say("/metrics", vllm(100))
    node.after(0)
    pages.say(
        "/metrics", "tgi_queue_size 7\ntgi_request_duration_sum 9\ntgi_request_duration_count 3\n"
    )

    assert node.after(5) == {Signal.REQUESTS_WAITING: 7.0}


def test_the_wrong_engine_is_reported(pages: Pages) -> None:
    """The operator configured another kind."""
    pages.say("/metrics", vllm(1))
    node = Node(ServingEndpoint(pages.url, EngineName.SGLANG, gpus=("0",)))

    assert node.after(0) == {}
    assert node.trouble() == "the page has no metrics of sglang; it looks like vllm"
    node.engines.close()


def test_unmatched_endpoint_is_in_the_outcomes(pages: Pages) -> None:
    """It answers, but its workload is unknown, which is no success."""
    pages.say("/metrics", vllm(1))
    node = Node(ServingEndpoint(pages.url))
    node.after(0)

    assert node.engines.read((gpu(0),), {}) == {}
    assert "names neither GPUs nor an owner" in node.trouble()
    assert [outcome.success for outcome in node.engines.outcomes().values()] == [False]
    node.engines.close()
