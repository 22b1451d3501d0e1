"""Every dashboard query has results on simulated nodes that real agents monitor.

No node shows everything at once, so there are three: a day of eight healthy and wasteful GPUs, the
same day of eight failing ones, and boards of all ages with all details and a serving engine. A
fleet service over a simulated fleet completes them. The short twin, on one exporter that has every
metric, is `tests/deploy/test_dashboard_queries.py`.
"""

import math
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Final

import pytest

from advice_history import keep_advice
from agent_process import RIGHTSIZER, AgentProcess, agent_process
from dashboard_files import BOARDS, QUERIES, VALUES, concrete
from fleet_loopback import LoopbackStore, loopback_store
from prometheus_server import Prometheus, prometheus_server, scrape_config
from rightsizer.model.finding import Savings

pytestmark = [pytest.mark.prometheus, pytest.mark.soak, pytest.mark.timeout(300)]

RULES: Final = Path(__file__).parents[2] / "config" / "prometheus" / "rules.yaml"
DEMO: Final = """\
from rightsizer.cli.demo import DemoSettings, run_demo
run_demo(
    DemoSettings(
        scenario="{scenario}",
        listen_address="127.0.0.1:0",
        speed={speed},
        tick_seconds={tick},
        days_before={days},
        memory_tick_seconds=3600.0,
    ),
    lambda text: print(text, flush=True),
)
"""
DETAILS: Final = """\
web: {{listen_addresses: ["127.0.0.1:0"], metrics: {{details: true, level: full}}}}
sources:
  simulated: {{scenario: zoo}}
  serving: {{endpoints: [{{url: "http://{engine}/metrics", gpus: ["0"]}}]}}
grafana: {{url: "http://{engine}/grafana"}}
history: {{path: "{folder}/history.db"}}
path: {{api_socket: ""}}
"""
FLEET: Final = """\
fleet:
  path: "{folder}/fleet.db"
  api_socket: ""
  lookback: 1d
  workers: 1
  interval: 1m
  store: {{url: "{store}", timeout: 2m}}
web: {{listen_addresses: ["127.0.0.1:0"], metrics: {{level: full}}}}
log: {{format: json}}
"""
MAY_BE_EMPTY: Final[dict[str, str]] = {
    **{
        f"{board}: Firing alerts: A": "no alert is evaluated here"
        for board in ("advice", "estate", "fleet", "node", "waste")
    },
    **dict.fromkeys(
        (
            "gpu: Need against capacity: A",
            "gpu: Need of capacity: A",
            "node: Need against capacity: A",
            "node: Need by resource: A",
        ),
        "after ten minutes at `full`; tests/deploy/test_dashboards_at_any_scrape.py has them",
    ),
    "advice: Actions: A": "no operator has named an action here",
    "advice: Profile captures: A": "no capture is configured here",
    "advice: Outcomes: A": "no advice need have been closed yet",
    "advice: Outcomes over time: A": "the same; the counter's series are those of closed advice",
    "advice: Realized: A": "nobody has acted on any advice here",
    "advice: Realized by rule: A": "the same",
    "estate: Findings of the last run: A": "nothing is wrong with this estate",
    "estate: Pools: G": "no scheduler's exporter is in its store",
    "estate: Pending by pool: A": "the same",
}
"""Queries that rightly find nothing on these nodes, with the reason. They must still parse."""
SECONDS: Final = 150.0


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    """A Prometheus with our rules that scrapes all four."""
    with ExitStack() as stack:
        node, faults, details, fleet = (tmp_path_factory.mktemp(name) for name in "abcd")
        store = stack.enter_context(loopback_store(16))
        agents = [
            _demo(stack, node, scenario="eight-gpu-node", speed=1800.0, tick=120.0, days=1),
            _demo(stack, faults, scenario="faulty-node", speed=60.0, tick=5.0, days=0),
            _details(stack, details),
            _fleet(stack, fleet, store),
        ]
        rules = RULES.read_text("utf-8").replace("interval: 5m", "interval: 1s")
        config = scrape_config(*(agent.address for agent in agents), rule_files=("rules.yaml",))
        files = {"rules.yaml": rules.replace("interval: 1m", "interval: 1s")}
        server = stack.enter_context(prometheus_server(config, files))
        # Each has been scraped, with its GPUs and holders.
        server.wait_for("count(count by (instance) (rightsizer_state_seconds_total)) == 3", 60.0)
        server.wait_for("count(rightsizer_workload_info) > 0", 60.0)
        # The service was scraped before its first run, so that the run's cost is an increase.
        server.wait_for("count_over_time(rightsizer_fleet_queries_total[1m]) > 1")
        store.goes_on.set()
        yield server


def test_every_query_finds_something(prometheus: Prometheus) -> None:
    """Each at some time: a throttle ends, advice opens later."""
    wanted = {query.name: concrete(query.expression) for query in QUERIES}
    deadline = time.monotonic() + SECONDS
    while wanted.keys() - MAY_BE_EMPTY and time.monotonic() < deadline:
        wanted = {name: text for name, text in wanted.items() if not has_number(prometheus, text)}
        time.sleep(1.0)

    assert sorted(wanted.keys() - MAY_BE_EMPTY) == []


def has_number(prometheus: Prometheus, promql: str) -> bool:
    """Whether a query finds a number other than NaN."""
    return any(not math.isnan(value) for _, value in prometheus.query(promql))


def test_panels_allowed_to_be_empty_exist() -> None:
    """No exemption outlives its panel."""
    assert set(MAY_BE_EMPTY) <= {query.name for query in QUERIES}


def test_a_cluster_chosen_shuts_out_what_has_none(prometheus: Prometheus) -> None:
    """The variable works for series without the label, and selects among others."""
    (query,) = [query for query in QUERIES if query.name == "fleet: GPUs: A"]
    prometheus.wait_for(concrete(query.expression))
    assert prometheus.query(concrete(query.expression, {**VALUES, "$cluster": "other"})) == []


def test_one_state_at_a_time(prometheus: Prometheus) -> None:
    """Each device has one number in the strip, which is a state."""
    (query,) = [query for query in QUERIES if query.name == "node: State of each device: A"]
    expression = concrete(query.expression)
    # A rate needs a second sample, which not all nodes have at once.
    prometheus.wait_for(f"count({expression}) > 8", 60.0)
    found = prometheus.query(expression)
    devices = [labels["uuid"] for labels, _ in found]
    assert len(set(devices)) == len(devices) > 8
    assert {value for _, value in found} <= set(range(11))


def test_parts_are_the_whole(prometheus: Prometheus) -> None:
    """The shares of the states, of all devices together, sum to 1 at every moment."""
    (query,) = [query for query in QUERIES if query.name == "node: States over time: A"]
    found = prometheus.wait_for(concrete(query.expression))
    assert sum(value for _, value in found) == pytest.approx(1.0)


def test_variables_find_the_nodes(prometheus: Prometheus) -> None:
    """Each label listed by a variable has values, except the cluster, which is not set here."""
    for board in BOARDS.values():
        names = [v["name"] for v in board["templating"]["list"] if v["type"] == "query"]
        assert names[:5] == ["cluster", "job", "instance", "uuid", "workload"]
    for name in ("job", "instance", "uuid", "workload"):
        assert prometheus.get(f"label/{name}/values"), name
    assert len(prometheus.get("label/instance/values")) == 4
    nodes = prometheus.query("count by (instance) (rightsizer_device_up)")
    assert len(nodes) == 3


def _demo(stack: ExitStack, folder: Path, **settings: object) -> AgentProcess:
    script = DEMO.format(**settings)
    return stack.enter_context(agent_process(folder, command=(sys.executable, "-c", script)))


def _details(stack: ExitStack, folder: Path) -> AgentProcess:
    engine = stack.enter_context(_engine())
    config = DETAILS.format(engine=engine, folder=folder)
    return stack.enter_context(agent_process(folder, config=config))


def _fleet(stack: ExitStack, folder: Path, store: LoopbackStore) -> AgentProcess:
    """A service whose first run waits for the store; it and a node's agent have open advice."""
    store.goes_on.clear()
    store.advised = "a1b2c3d4e5f6"
    keep_advice(folder / "fleet-advice.db", time.time_ns(), savings=Savings(1.0, 1.0, 2.0, 3.0))
    config = FLEET.format(folder=folder, store=store.url)
    command = (*RIGHTSIZER, "fleet", "--serve")
    return stack.enter_context(agent_process(folder, command=command, config=config))


@contextmanager
def _engine() -> Iterator[str]:
    """A page as written by vLLM; other requests, such as Grafana's, are refused."""

    class Handler(BaseHTTPRequestHandler):
        requests = 0

        def do_GET(self) -> None:
            """Serve the page, with one more request at each reading."""
            is_page = self.path == "/metrics"
            self.send_response(200 if is_page else 503)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.end_headers()
            if is_page:
                type(self).requests += 1
                self.wfile.write(_page(type(self).requests).encode())

        def log_message(self, *arguments: object) -> None:
            """Log nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()


def _page(requests: int) -> str:
    labels = '{engine="0",model_name="llama"}'
    times = {
        "time_to_first_token_seconds": 0.4,
        "inter_token_latency_seconds": 0.02,
        "e2e_request_latency_seconds": 3.0,
    }
    lines = [
        f"vllm:num_requests_running{labels} 12.0",
        f"vllm:num_requests_waiting{labels} 3.0",
        f"vllm:kv_cache_usage_perc{labels} 0.93",
        f"vllm:num_preemptions_total{labels} {5 + requests}.0",
    ]
    for name, each in times.items():
        lines += [
            f"# TYPE vllm:{name} histogram",
            f'vllm:{name}_bucket{{engine="0",model_name="llama",le="+Inf"}} {requests}',
            f"vllm:{name}_sum{labels} {each * requests}",
            f"vllm:{name}_count{labels} {requests}",
        ]
    return "".join(f"{line}\n" for line in lines)
