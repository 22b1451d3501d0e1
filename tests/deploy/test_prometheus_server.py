"""The harness itself: a real Prometheus that scrapes, evaluates, answers, and exits."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.error import URLError

import pytest

from prometheus_server import prometheus_server, promtool, scrape_config

pytestmark = pytest.mark.prometheus

PAGE = b"# HELP answer What it is.\n# TYPE answer gauge\nanswer 42\n"
RULES = "groups: [{name: a, rules: [{record: 'twice:answer:sum', expr: 'sum(answer) * 2'}]}]\n"


class _Target(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        """Serve one metric."""
        self.send_response(200)
        self.send_header("Content-Type", "text/plain; version=0.0.4")
        self.end_headers()
        self.wfile.write(PAGE)

    def log_message(self, *arguments: object) -> None:
        """Log nothing."""


@pytest.fixture
def target() -> Iterator[str]:
    """A tiny exporter on loopback."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _Target) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


def test_scrapes_evaluates_answers_and_ends(target: str) -> None:
    """A target is scraped, a rule is evaluated over it, and afterwards the port is closed."""
    config = scrape_config(target, rule_files=("rules.yaml",))
    with prometheus_server(config, {"rules.yaml": RULES}) as prometheus:
        labels = {"__name__": "answer", "instance": target, "job": "rightsizer"}
        assert prometheus.wait_for("answer") == [(labels, 42.0)]
        assert prometheus.wait_for("twice:answer:sum")[0][1] == 84.0
        assert prometheus.query("1 + 1") == [({}, 2.0)]
        with pytest.raises(ValueError, match="parse error"):
            prometheus.query("sum(")
    with pytest.raises(URLError):
        prometheus.query("1")


def test_faulty_configuration_is_reported() -> None:
    """A refused configuration fails the test with the server's message."""
    with (
        pytest.raises(AssertionError, match="field nonsense not found"),
        prometheus_server("nonsense: 1"),
    ):
        pass


def test_promtool_answers() -> None:
    """The package's other program is there too."""
    assert "promtool, version" in promtool("--version").stdout
