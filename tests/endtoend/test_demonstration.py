"""A simulated day of an eight-GPU node in a process of its own: its findings are true."""

import sys
from collections.abc import Iterator
from typing import Any, Final

import pytest
from markupsafe import escape

from agent_process import AgentProcess, agent_process, eventually

pytestmark = pytest.mark.timeout(300)

DAY_SECONDS: Final = 86400.0
DEMO: Final = """\
import time
from rightsizer.cli.demo import DemoSettings, run_demo
# In the evening of a day of January 2026, whenever the test is run: what stalls does so at noon.
LATER = 1_767_816_000 * 10**9 - time.time_ns()
run_demo(
    DemoSettings(
        listen_address="127.0.0.1:0",
        speed=2700.0,
        tick_seconds=960.0,
        memory_tick_seconds=3600.0,
        # A machine with other work reads all GPUs at each of the few ticks too.
        deadline_seconds=30.0,
    ),
    lambda text: print(text, flush=True),
    lambda: time.time_ns() + LATER,
)
"""
TRUE: Final = {
    ("slurm/finetune-ddp", "hidden_stall"),
    ("kubernetes/notebooks/notebook-ana", "idle"),
    ("kubernetes/production/embedding-svc", "overprovisioned"),
    ("kubernetes/research/graph-train", "near_out_of_memory"),
    ("kubernetes/vision/image-train", "host_bound"),
    ("kubernetes/vision/rollout-worker", "launch_bound"),
}
ALSO: Final = {
    ("kubernetes/production/chat-api", "idle"),
    ("kubernetes/production/chat-api", "diurnal_autoscale"),
    ("kubernetes/production/embedding-svc", "sharing"),
}
"""The chat service has no visitors at night; a GPU that is too large may be shared instead."""


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AgentProcess]:
    """The demonstration after its day; sixteen minutes a tick in place of ten seconds."""
    folder = tmp_path_factory.mktemp("demo")
    with agent_process(folder, command=(sys.executable, "-c", DEMO)) as process:
        began = eventually(lambda: process.json("/api/v1/report"))["time"]
        # The first tick may be past when the first report is seen; the last is not.
        is_over = began + DAY_SECONDS - 1800.0
        eventually(lambda: process.json("/api/v1/report")["time"] >= is_over, 240, 1.0)
        yield process


@pytest.fixture(scope="module")
def advice(demo: AgentProcess) -> list[dict[str, Any]]:
    """All advice of the day, open or closed."""
    found: list[dict[str, Any]] = demo.json("/api/v1/advice")["advice"]
    return found


def test_every_condition_of_the_scenario_is_named(advice: list[dict[str, Any]]) -> None:
    """Stall, idle notebook, oversized GPU, growing memory, starved loader, launch storm."""
    assert {(each["workload"], each["rule"]) for each in advice} >= TRUE


def test_nothing_is_named_that_is_not_so(advice: list[dict[str, Any]]) -> None:
    """Healthy training, checkpoints and preallocated memory get no advice."""
    held = {(each["workload"], each["rule"]) for each in advice if each["workload"]}

    assert held - TRUE <= ALSO


def test_unheld_gpu_is_only_called_idle(advice: list[dict[str, Any]]) -> None:
    """GPUs between two workloads are empty and nothing else."""
    reasons = {reason for each in advice if not each["workload"] for reason in each["reasons"]}

    assert reasons <= {"IdleEmpty"}


def test_advice_says_all_that_is_needed_to_act(advice: list[dict[str, Any]]) -> None:
    """Action, GPUs, reason, confidence, and start."""
    for each in advice:
        assert each["summary"]
        assert each["devices"]
        # It takes 0.5 to open; confidence has fallen in items about to close.
        assert 0.25 <= each["confidence"] <= 1.0
        assert each["confidence_factors"]
        assert each["evidence"]
        assert each["abstained"] is None
        assert each["opened"] <= each["updated"]


def test_a_sleeping_service_is_told_to_scale_and_not_to_go(advice: list[dict[str, Any]]) -> None:
    """It will be needed again in the morning."""
    asleep = "kubernetes/production/chat-api"
    actions = {each["action"] for each in advice if each["workload"] == asleep}

    assert actions <= {"scale_to_zero", "autoscale"}


def test_the_page_and_the_metrics_tell_the_same(demo: AgentProcess) -> None:
    """All three share one ledger; simulated time continues between requests."""

    def differences() -> list[str]:
        advice = demo.json("/api/v1/advice")["advice"]
        page, metrics = demo.get("/")[1], demo.metrics()
        if demo.json("/api/v1/advice")["advice"] != advice:
            return ["the ledger went on meanwhile"]
        now_open = [each for each in advice if each["state"] == "active"]
        exported = {
            dict(labels)["id"] for (name, labels) in metrics if name == "rightsizer_advice_info"
        }
        # A key may break after its slashes, but not inside its words.
        keys = [each["workload"].replace("/", "/<wbr/>") for each in now_open if each["workload"]]
        shown = [*keys, *(escape(each["summary"]) for each in now_open)]
        return [
            *({each["id"] for each in now_open} - exported),
            *(text for text in shown if text not in page),
        ]

    assert eventually(lambda: not differences(), 30.0), differences()
