"""A running agent, scraped by a real Prometheus in either format and as dcgm-exporter."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final
from urllib.request import Request, urlopen

import pytest

from agent_process import AgentProcess, agent_process, eventually
from prometheus_server import Prometheus, prometheus_server

pytestmark = pytest.mark.prometheus

CONFIG: Final = "web:\n  metrics:\n    dcgm: true\n    collectors:\n      topology: true\n"
TEXT: Final = "text/plain;version=0.0.4"
OF_PROMETHEUS: Final = {"instance", "job"}

Names = set[tuple[tuple[str, str], ...]]


@contextmanager
def asking_for_text(url: str) -> Iterator[tuple[str, list[str]]]:
    """A relay for a Prometheus without `scrape_protocols`: its address, and the types received."""
    types: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            """Request version 0.0.4 of the text from the agent, and pass it on."""
            with urlopen(Request(f"{url}{self.path}", headers={"Accept": TEXT})) as answer:
                body = answer.read()
                content_type = answer.headers["Content-Type"]
            types.append(content_type)
            self.send_response(200)
            self.send_header("Content-Type", content_type)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *arguments: object) -> None:
            """Log nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"127.0.0.1:{server.server_address[1]}", types
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AgentProcess]:
    """An agent on a node with MIG, with the compatible page, and collectors switched."""
    folder = tmp_path_factory.mktemp("agent")
    flags = ("--simulated.scenario", "h100-mig", "--web.listen-address", "127.0.0.1:0")
    more = ("--history.path", str(folder / "history.db"), "--no-collector.process")
    with agent_process(folder, *flags, *more, config=CONFIG) as process:
        eventually(lambda: "rightsizer_memory_used_bytes{" in process.get("/metrics")[1])
        yield process


@pytest.fixture(scope="module")
def prometheus(agent: AgentProcess) -> Iterator[Prometheus]:
    """A Prometheus that scrapes it in three ways."""
    with asking_for_text(agent.url) as (relay, types):
        jobs = [
            {"job_name": "open", "static_configs": [{"targets": [agent.address]}]},
            {"job_name": "text", "static_configs": [{"targets": [relay]}]},
            {
                "job_name": "dcgm",
                "metrics_path": "/metrics/dcgm",
                "static_configs": [{"targets": [agent.address]}],
            },
        ]
        config = {"global": {"scrape_interval": "1s"}, "scrape_configs": jobs}
        with prometheus_server(json.dumps(config)) as server:
            for job in ("open", "text", "dcgm"):
                server.wait_for(f'up{{job="{job}"}} == 1')
            assert set(types) == {"text/plain; version=0.0.4; charset=utf-8"}
            yield server


def series_of(prometheus: Prometheus, job: str, name: str) -> Names:
    """The series of a job with matching names, without Prometheus's own labels."""
    found = prometheus.query(f'{{job="{job}",__name__=~"{name}"}}')
    return {
        tuple(sorted((key, text) for key, text in labels.items() if key not in OF_PROMETHEUS))
        for labels, _ in found
    }


def test_both_formats_give_the_same_series(prometheus: Prometheus) -> None:
    """Equal by name and labels, whichever a server asks for."""

    def alike() -> Names:
        read = [series_of(prometheus, job, "rightsizer_.+") for job in ("open", "text")]
        return read[0] if read[0] == read[1] else set()

    series = eventually(alike, 30.0)
    assert len(series) > 300


def test_types_and_help_arrive_alike(prometheus: Prometheus) -> None:
    """Metadata of counters and gauges is equal; the text format has no info type."""
    data = {
        job: {
            each["metric"]: (each["type"], each["help"])
            for each in prometheus.get(
                "targets/metadata", match_target=f'{{job="{job}"}}', limit="1000"
            )
        }
        for job in ("open", "text")
    }
    counters = {
        name: metadata[1] for name, metadata in data["text"].items() if metadata[0] == "counter"
    }
    assert len(counters) > 10
    for name, sentence in counters.items():
        assert data["open"][name.removesuffix("_total")] == ("counter", sentence)


def test_switched_collectors_are_as_switched(prometheus: Prometheus) -> None:
    """The flag removed the process, the configuration added the links between GPUs."""
    series = eventually(lambda: series_of(prometheus, "open", "rightsizer_topology_link_info"))
    assert len(series) >= 1
    assert not series_of(prometheus, "open", "process_.+")


def test_queries_for_dcgm_exporter_are_answered(prometheus: Prometheus) -> None:
    """Those of public dashboards and autoscalers, with MIG instances by their profile."""
    memory = "sum by (GPU_I_PROFILE) (DCGM_FI_DEV_FB_USED)"
    profiles = {labels.get("GPU_I_PROFILE") for labels, _ in prometheus.wait_for(memory)}
    busy = prometheus.wait_for("avg(DCGM_FI_PROF_GR_ENGINE_ACTIVE)")

    assert len(profiles) > 1
    assert 0.0 <= busy[0][1] <= 1.0
    assert prometheus.wait_for("rate(DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION[20s]) / 1000 > 10")


def test_a_request_for_what_is_off_is_refused(agent: AgentProcess) -> None:
    """Over HTTP too: 400, with the remedy."""
    status, said = agent.get("/metrics?collect[]=process")
    assert status == 400
    assert "--collector.process" in said
    status, said = agent.get("/metrics?collect[]=memory")
    assert status == 200
    assert "rightsizer_memory_used_bytes" in said
    assert "rightsizer_device_up" not in said
