"""Autoscaler queries against a real Prometheus that scrapes a real agent on a simulated node.

The cluster's own metrics (replicas) and the serving engine's page are simulated.
"""

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final

import pytest
from msgspec import Struct

from agent_process import AgentProcess, agent_process
from prometheus_server import Prometheus, prometheus_server
from rightsizer.io.yaml import load_yaml

pytestmark = pytest.mark.prometheus

RECIPES: Final = Path(__file__).parents[2] / "config" / "kubernetes" / "autoscaling"
SCENARIO: Final = """\
name: services
seed: 7
boards:
  - {board: H100-SXM5-80GB, count: 4}
workloads:
  - {name: embedding-svc, kind: kubernetes, namespace: production, class: serving,
     allocator: growing, gpus: [0], memory_gib: 20,
     phases: [{activity: matrix_training, state: compute_bound}]}
  - {name: quiet-svc, kind: kubernetes, namespace: production, class: serving,
     allocator: growing, gpus: [1], memory_gib: 20,
     phases: [{activity: nothing, state: idle_held}]}
  - {name: chat-api, kind: kubernetes, namespace: production, class: serving,
     allocator: growing, gpus: [2], memory_gib: 20,
     phases: [{activity: matrix_training, state: compute_bound}]}
  - {name: lost-svc, kind: kubernetes, namespace: production, class: serving,
     allocator: growing, gpus: [3], memory_gib: 20,
     phases: [{activity: nothing, state: idle_held}]}
faults:
  - {kind: loss, gpus: [3], after: 10s, for: 24h}
"""
ENGINE: Final = """\
vllm:num_requests_running{model_name="chat"} 12
vllm:num_requests_waiting{model_name="chat"} 6
vllm:kv_cache_usage_perc{model_name="chat"} 0.85
"""
READY: Final = {"embedding-svc": 1, "quiet-svc": 1, "chat-api": 2, "lost-svc": 1, "gone-svc": 0}
"""Replicas in the cluster; of chat-api's two only one is on a node with an agent."""


def cluster() -> str:
    """The page of kube-state-metrics."""
    return "".join(
        f'kube_deployment_status_replicas{kind}{{namespace="production",deployment="{name}"}} {n}\n'
        for kind in ("", "_ready")
        for name, n in READY.items()
    )


@contextmanager
def page(text: str) -> Iterator[str]:
    """A page of metrics on loopback, as `host:port`."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            """Serve the page."""
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *arguments: object) -> None:
            """Log nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


class Stand(Struct, frozen=True):
    """A node, and the Prometheus that scrapes it and its cluster."""

    agent: AgentProcess
    prometheus: Prometheus

    def work(self, name: str) -> list[float]:
        """The result of KEDA's query on GPU work for a deployment."""
        (trigger, _) = recipe("keda-prometheus.yaml")["spec"]["triggers"]
        promql = trigger["metadata"]["query"].replace("embedding-svc", name)
        return [value for _, value in self.prometheus.query(promql)]

    def external(self, metric: str, selector: Mapping[str, str]) -> list[float]:
        """The adapter's response to a query of an external metric."""
        rules = recipe("prometheus-adapter.yaml")["rules"]["external"]
        (rule,) = (each for each in rules if each["name"]["as"] == metric)
        matchers = {"namespace": "production", **selector}
        promql = (
            rule["metricsQuery"]
            .replace("<<.Series>>", rule["seriesQuery"].split('"')[1])
            .replace("<<.LabelMatchers>>", ",".join(f'{k}="{v}"' for k, v in matchers.items()))
            .replace("<<.GroupBy>>", "namespace")
        )
        return [value for _, value in self.prometheus.query(promql)]


def recipe(name: str) -> Any:
    """A recipe's contents."""
    return load_yaml((RECIPES / name).read_text("utf-8"), name).data


@pytest.fixture(scope="module")
def stand(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stand]:
    """All parts, once each device was read and the lost one is lost."""
    folder = tmp_path_factory.mktemp("agent")
    (folder / "services.yaml").write_text(SCENARIO)
    flags = ("--web.listen-address", "127.0.0.1:0", "--history.path", "")
    rules = (RECIPES / "rules.yaml").read_text("utf-8").replace("interval: 15s", "interval: 1s")
    with page(ENGINE) as engine, page(cluster()) as kubernetes:
        endpoint = f"{{url: 'http://{engine}/metrics', engine: vllm, workload: chat-api}}"
        config = (
            f"sources: {{simulated: {{scenario: {folder}/services.yaml}}, "
            f"serving: {{endpoints: [{endpoint}]}}}}\n"
        )
        with agent_process(folder, *flags, config=config) as agent:
            scrapes = scrape({"rightsizer": agent.address, "kubernetes": kubernetes})
            with prometheus_server(scrapes, {"rules.yaml": rules}) as prometheus:
                prometheus.wait_for("namespace_workload:rightsizer_sm_work_ratio:sum")
                prometheus.wait_for("namespace_workload:rightsizer_kv_cache_used_ratio:max")
                prometheus.wait_for("rightsizer_device_up == 0", timeout_seconds=60.0)
                # The next evaluation of the rules includes it.
                read = 'namespace_workload:rightsizer_devices_read:count{workload_name="lost-svc"}'
                prometheus.wait_for(f"absent({read})")
                prometheus.wait_for("kube_deployment_status_replicas")
                yield Stand(agent, prometheus)


def scrape(targets: Mapping[str, str]) -> str:
    """A configuration with one job per target, honoring the target's labels."""
    jobs = "".join(
        f"  - {{job_name: {job}, honor_labels: true, static_configs: [{{targets: ['{at}']}}]}}\n"
        for job, at in targets.items()
    )
    return (
        "global: {scrape_interval: 1s, evaluation_interval: 1s}\nrule_files: [rules.yaml]\n"
        f"scrape_configs:\n{jobs}"
    )


def thresholds() -> tuple[float, float]:
    """Activation and target of KEDA's trigger on GPU work."""
    (trigger, _) = recipe("keda-prometheus.yaml")["spec"]["triggers"]
    metadata = trigger["metadata"]
    return float(metadata["activationThreshold"]), float(metadata["threshold"])


def test_busy_service_stays(stand: Stand) -> None:
    """Its work is that of its GPU, far above activation."""
    (work,) = stand.work("embedding-svc")

    assert thresholds()[0] < work <= 1.0


def test_idle_service_goes_to_zero(stand: Stand) -> None:
    """It holds its GPU and is known to be idle."""
    (work,) = stand.work("quiet-svc")

    assert 0.0 <= work <= thresholds()[0]


def test_service_without_replicas_stays_at_zero(stand: Stand) -> None:
    """Without replicas there is nothing to read, which is no error."""
    assert stand.work("gone-svc") == [0.0]


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("lost-svc", "its GPU gives no reading"),
        ("chat-api", "one of its replicas is on a node without an agent"),
        ("unknown-svc", "the cluster does not know it"),
    ],
)
def test_blind_is_no_answer(stand: Stand, name: str, why: str) -> None:
    """KEDA treats it as an error and falls back, instead of scaling to zero."""
    assert stand.work(name) == [], why


def test_adapter_answers_an_autoscaler(stand: Stand) -> None:
    """Work, maximum cache and queue of one deployment."""
    metrics = recipe("horizontal-pod-autoscaler.yaml")["spec"]["metrics"]
    answers = {
        metric["external"]["metric"]["name"]: stand.external(
            metric["external"]["metric"]["name"],
            metric["external"]["metric"]["selector"]["matchLabels"],
        )
        for metric in metrics
    }

    assert answers["rightsizer_kv_cache_used_ratio"] == [0.85]
    assert answers["rightsizer_requests_waiting"] == [6.0]
    assert 0.0 < answers["rightsizer_sm_work_ratio"][0] <= 1.0


def test_adapter_finds_no_metric_where_there_is_none(stand: Stand) -> None:
    """A service without an engine's page has no queue, rather than an empty one."""
    name = {"workload_name": "embedding-svc"}

    assert stand.external("rightsizer_requests_waiting", name) == []
    assert stand.external("rightsizer_sm_work_ratio", name) != []
    assert stand.external("rightsizer_sm_work_ratio", {"workload_name": "lost-svc"}) == []


def test_gateways_silence_is_no_answer(stand: Stand) -> None:
    """The trigger that wakes a service has no value while the gateway is not scraped."""
    (_, requests) = recipe("keda-prometheus.yaml")["spec"]["triggers"]

    assert stand.prometheus.query(requests["metadata"]["query"]) == []


def test_metrics_api_finds_its_value(stand: Stand) -> None:
    """The recipe finds a number for GPUs that are read, and an error for others."""
    (trigger,) = recipe("keda-metrics-api.yaml")["spec"]["triggers"]
    location = trigger["metadata"]["valueLocation"]
    path = "/" + trigger["metadata"]["url"].split("/", 3)[3]

    def load(namespace: str, name: str) -> tuple[int, str]:
        asked = path.replace("notebook-ana", name).replace("=notebooks", f"={namespace}")
        return stand.agent.get(asked)

    status, text = load("production", "quiet-svc")
    assert (status, json.loads(text)[location]) == (200, 0.0)
    status, text = load("production", "embedding-svc")
    assert status == 200
    assert json.loads(text)[location] > 0.5
    assert load("production", "lost-svc")[0] in {404, 503}
    assert load("notebooks", "notebook-ana")[0] == 404
