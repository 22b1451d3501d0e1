"""A fault that all GPUs of a node share, from the driver to Grafana and a webhook: one message.

Two take the whole way in `make test`, one in which nothing is read and one in which all is; the
others take it in `make soak`, and tests/advice/test_incidents.py has the rules on all of them.
"""

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest
from msgspec.structs import replace

from agent_process import eventually
from grafana_server import TOKEN, Grafana, grafana_server
from rightsizer.advice.storage import Storage
from rightsizer.agent.agent import Agent
from rightsizer.agent.settings import Settings
from rightsizer.agent.sources import live_source
from rightsizer.io.clock import FastClock
from rightsizer.model.advice import Advice
from rightsizer.notify.grafana.settings import GrafanaSettings
from rightsizer.notify.webhook.settings import WebhookSettings
from rightsizer.simulator.source import DEFAULT_START
from rightsizer.telemetry.nvml.library import use_library
from rightsizer.telemetry.settings import SimulatedSettings
from webhook_server import Inbox, webhook_server

pytestmark = pytest.mark.timeout(240)

SCENARIO: Final = """\
name: eight
boards: [{board: H100-SXM5-80GB, count: 8}]
workloads:
"""
WORKLOAD: Final = """\
  - name: train-%d
    gpus: [%d]
    memory_gib: 40
    allocator: growing
    class: batch
    phases: [{activity: matrix_training, state: compute_bound}]
"""
RUN: Final = 1800 * 10**9
"""Between two runs of the recommender, in nanoseconds."""
ALL: Final = "gpus: [0, 1, 2, 3, 4, 5, 6, 7], after: 90m"
FAULTS: Final = {
    "driver that hangs": (f"{{kind: hang, {ALL}}}", "HardwareUnhealthy"),
    "fabric": (f"{{kind: xid, {ALL}, code: 74}}", "HardwareUnhealthy"),
    "power supply": (f"{{kind: loss, {ALL}}}", "HardwareUnhealthy"),
    "power brake": (f"{{kind: throttle, {ALL}, reason: power_brake}}", "ThermalThrottled"),
    "driver that is unloaded": ("{kind: unload, after: 90m, for: 12h}", "HardwareUnhealthy"),
    "dead NVSwitch": (
        f"{{kind: nvlink, {ALL}, links: {list(range(18))}, down: true}}",
        "HardwareUnhealthy",
    ),
}
SOON: Final = ("driver that hangs", "fabric")


@contextmanager
def agent_of(folder: Path, fault: str, grafana: Grafana, inbox: Inbox) -> Iterator[Agent]:
    """Eight GPUs, each with a job, and a fault after an hour and a half; half an hour a second."""
    (folder / "token").write_text(f"{TOKEN}\n")
    scenario = folder / "eight.yaml"
    jobs = "".join(WORKLOAD % (gpu, gpu) for gpu in range(8))
    scenario.write_text(f"{SCENARIO}{jobs}faults:\n  - {fault}\n")
    base = Settings()
    # A busy machine reads all GPUs, but late; a driver that hangs is waited for in vain.
    patience_seconds = base.sources.nvml.deadline_seconds if "hang" in fault else 30.0
    settings = replace(
        base,
        sampling=replace(base.sampling, interval=300.0),
        sources=replace(
            base.sources,
            simulated=SimulatedSettings(scenario=str(scenario)),
            nvml=replace(base.sources.nvml, deadline_seconds=patience_seconds),
        ),
        grafana=GrafanaSettings(url=grafana.url, token_file=str(folder / "token")),
        webhooks=(WebhookSettings(url=inbox.url),),
        recommender=replace(base.recommender, jitter=0.0),
        web=replace(base.web, listen_addresses=("127.0.0.1:0",)),
    )
    clock = FastClock(DEFAULT_START, speed=1800.0)
    source = live_source(settings, clock)
    storage = Storage(str(folder / "history.db"))
    agent = Agent(settings, source.source, source_name=source.name, clock=clock, storage=storage)
    stop = threading.Event()
    agent.start()
    thread = threading.Thread(target=agent.run, args=(stop,))
    thread.start()
    try:
        yield agent
    finally:
        stop.set()
        thread.join()
        use_library(None)


def about(advice: Sequence[Advice], reason: str) -> list[Advice]:
    """Recommendations for a reason, ended ones included."""
    return [each for each in advice if reason in each.finding.reasons]


@pytest.mark.parametrize(
    "name",
    [*SOON, *(pytest.param(name, marks=pytest.mark.soak) for name in FAULTS if name not in SOON)],
)
def test_shared_fault_is_one_annotation_and_one_webhook(tmp_path: Path, name: str) -> None:
    """With all eight GPUs, and it stays one over the next runs of the recommender."""
    fault, reason = FAULTS[name]

    def opened(inbox: Inbox) -> list[Any]:
        return [
            body
            for body in list(inbox.bodies)
            if body["event"] == "opened" and reason in body["advice"]["reasons"]
        ]

    with grafana_server() as grafana, webhook_server() as inbox:
        with agent_of(tmp_path, fault, grafana, inbox) as agent:
            (first,) = eventually(lambda: about(agent.advice_service.advice, reason), 120)
            eventually(lambda: opened(inbox), 60)
            until = first.updated + 2 * RUN
            eventually(lambda: about(agent.advice_service.advice, reason)[0].updated >= until, 120)
            (advice,) = about(agent.advice_service.advice, reason)
        # A rise of the severity is a point of its own.
        regions = [
            note["tags"]
            for note in grafana.annotations.values()
            if {"event:opened", f"reason:{reason}"} <= set(note["tags"])
        ]
    (message,) = opened(inbox)

    # One whose readings came late on a busy machine joins later.
    assert len(advice.finding.devices) >= 7
    assert message["advice"]["id"] == advice.id
    (tags,) = regions
    assert f"advice:{advice.id}" in tags
