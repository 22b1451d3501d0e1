"""A real alert: the agent dies, Prometheus notices, Alertmanager notifies, and resolves it."""

import json
import re
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final

import pytest

from agent_process import agent_process, eventually
from alertmanager_server import Alertmanager, alertmanager_server
from prometheus_server import prometheus_server, scrape_config
from rightsizer.io.yaml import load_yaml

pytestmark = [pytest.mark.prometheus, pytest.mark.timeout(240)]

CONFIG: Final = Path(__file__).parents[2] / "config" / "prometheus"
DURATION: Final = re.compile(r"(for|keep_firing_for|interval): \d+[mhd]\b")
WAITING: Final = re.compile(r"(group_wait|group_interval): \d+[smhd]\b")
FORGOTTEN: Final = """\
name: forgotten-notebook
seed: 5
cores: 32
boards:
  - {board: T4, count: 2}
workloads:
  - name: train
    class: batch
    allocator: growing
    gpus: [0]
    memory_gib: 8
    phases: [{activity: matrix_training, state: compute_bound}]
  - name: notebook
    class: notebook
    allocator: growing
    gpus: [1]
    memory_gib: 4
    phases: [{activity: nothing, state: idle_held}]
"""
"""Few GPUs, since six hours must pass quickly on a slow machine too."""
DEMO: Final = """\
import sys
from rightsizer.cli.demo import DemoSettings, run_demo
run_demo(
    DemoSettings(
        scenario=sys.argv[1],
        listen_address="127.0.0.1:0",
        speed=3600.0,
        tick_seconds=60.0,
        days_before=0.0,
    ),
    lambda text: print(text, flush=True),
)
"""
NODE: Final = ("--simulated.scenario", "single-h100", "--history.path", "")


class WebhookReceiver:
    """Keeps the messages of Alertmanager's webhook."""

    def __init__(self) -> None:
        self.messages: list[dict[str, Any]] = []
        self.url = ""

    def alerts(self, receiver: str, status: str) -> list[Mapping[str, Any]]:
        """The received alerts with a status."""
        return [
            alert
            for message in list(self.messages)
            for alert in message["alerts"]
            if (message["receiver"], alert["status"]) == (receiver, status)
        ]


@contextmanager
def open_receiver() -> Iterator[WebhookReceiver]:
    """A receiver that listens on loopback."""
    inbox = WebhookReceiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            """Accept a message."""
            inbox.messages.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *arguments: object) -> None:
            """Log nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        inbox.url = f"http://127.0.0.1:{server.server_address[1]}/"
        yield inbox
        server.shutdown()
        thread.join()


def our_rules() -> dict[str, str]:
    """Our rules with shorter waiting times."""
    return {
        name: DURATION.sub(r"\1: 1s", (CONFIG / name).read_text("utf-8"))
        for name in ("rules.yaml", "alerts.yaml")
    }


def our_routes(inbox: WebhookReceiver) -> str:
    """Our Alertmanager's configuration with shorter waiting times and test receivers."""
    text = WAITING.sub(r"\1: 1s", (CONFIG / "alertmanager.yaml").read_text("utf-8"))
    return re.sub(r"http://\w+\.example\.org/\w+", inbox.url, text)


@pytest.fixture
def inbox() -> Iterator[WebhookReceiver]:
    """Pager and tickets in one."""
    with open_receiver() as inbox:
        yield inbox


@pytest.fixture
def alertmanager(inbox: WebhookReceiver) -> Iterator[Alertmanager]:
    """An Alertmanager that notifies the receiver."""
    with alertmanager_server(our_routes(inbox)) as server:
        yield server


def test_agent_that_dies_is_reported_and_its_return_too(
    tmp_path: Path, inbox: WebhookReceiver, alertmanager: Alertmanager
) -> None:
    """The ticket has summary and runbook, and is resolved when the agent returns."""
    with agent_process(tmp_path, *NODE, "--web.listen-address", "127.0.0.1:0") as agent:
        address = agent.address
        rules = our_rules()
        config = scrape_config(address, rule_files=tuple(rules), alertmanager=alertmanager.address)
        with prometheus_server(config, rules) as prometheus:
            prometheus.wait_for("rightsizer_device_up == 1")
            assert inbox.alerts("tickets", "firing") == []
            agent.process.kill()
            agent.process.wait()
            (alert, *_) = eventually(lambda: inbox.alerts("tickets", "firing"), 45.0)
            with agent_process(tmp_path, *NODE, "--web.listen-address", address):
                (resolved, *_) = eventually(lambda: inbox.alerts("tickets", "resolved"), 45.0)

    labels = {"alertname": "RightsizerAgentDown", "instance": address, "job": "rightsizer"}
    assert alert["labels"] == {**labels, "severity": "warning"}
    assert alert["annotations"]["summary"] == "The Rightsizer agent of 127.0.0.1 cannot be scraped."
    assert address in alert["annotations"]["description"]
    assert alert["annotations"]["runbook_url"].endswith("/runbooks/RightsizerAgentDown.md")
    assert resolved["fingerprint"] == alert["fingerprint"]
    assert resolved["endsAt"] > resolved["startsAt"]


def test_idle_gpu_of_a_simulated_day_fires(
    tmp_path: Path, inbox: WebhookReceiver, alertmanager: Alertmanager
) -> None:
    """Only the GPU of the forgotten notebook is idle, and nobody is paged for it."""
    scenario = tmp_path / "forgotten.yaml"
    scenario.write_text(FORGOTTEN)
    with agent_process(tmp_path, command=(sys.executable, "-c", DEMO, scenario)) as demo:
        rules = our_rules()
        config = scrape_config(
            demo.address, rule_files=tuple(rules), alertmanager=alertmanager.address
        )
        with prometheus_server(config, rules) as prometheus:
            idle = 'ALERTS{alertname="RightsizerGpuIdle", alertstate="firing"}'
            found = prometheus.wait_for(idle, timeout_seconds=90.0)
            held = eventually(
                lambda: [
                    alert
                    for alert in alertmanager.alerts()
                    if alert["labels"]["alertname"] == "RightsizerGpuIdle"
                ],
                30.0,
            )
            workload = 'rightsizer_device_info{gpu="1"}'
            (labels, _) = prometheus.wait_for(workload)[0]

    assert {each["uuid"] for each, _ in found} == {labels["uuid"]}
    assert {receiver["name"] for alert in held for receiver in alert["receivers"]} == {"nobody"}
    assert inbox.alerts("pager", "firing") == []


def test_one_cause_is_one_message(alertmanager: Alertmanager) -> None:
    """Advice with a ticket silences Prometheus' alert on the same GPU with the same cause.

    Neither another GPU's, nor another cause's; informational advice silences nothing.
    """

    def alert(name: str, uuid: str, **labels: str) -> dict[str, Any]:
        facts = {"alertname": name, "uuid": uuid, "severity": "warning", **labels}
        return {"labels": facts, "annotations": {"summary": name}}

    seen = {"instance": "n1:19400", "job": "rightsizer"}
    short = {"instance": "n1", "reason": "GpuMemoryUnderprovisioned"}
    alertmanager.tell(
        [
            alert("RightsizerAdvice", "GPU-0", **short),
            alert("RightsizerNearOutOfMemory", "GPU-0", **seen),
            alert("RightsizerGpuUnderProvisioned", "GPU-0", **seen),
            alert("RightsizerNearOutOfMemory", "GPU-1", **seen),
            alert("RightsizerAdvice", "GPU-2", **{**short, "severity": "info"}),
            alert("RightsizerNearOutOfMemory", "GPU-2", **seen),
        ]
    )

    def silenced() -> set[tuple[str, str]]:
        return {
            (each["labels"]["alertname"], each["labels"]["uuid"])
            for each in alertmanager.alerts()
            if each["status"]["inhibitedBy"]
        }

    # It marks them shortly before it notifies, a moment after receiving them.
    assert eventually(silenced) == {("RightsizerNearOutOfMemory", "GPU-0")}


def test_only_durations_are_changed_for_these_tests() -> None:
    """The evaluated rules are the shipped ones."""
    for name, text in our_rules().items():
        shipped = load_yaml((CONFIG / name).read_text("utf-8"), name).data
        evaluated = load_yaml(text, name).data
        for before, after in zip(shipped["groups"], evaluated["groups"], strict=True):
            for old, new in zip(before["rules"], after["rules"], strict=True):
                waits = {"for", "keep_firing_for"}
                assert {k: v for k, v in old.items() if k not in waits} == {
                    k: v for k, v in new.items() if k not in waits
                }
