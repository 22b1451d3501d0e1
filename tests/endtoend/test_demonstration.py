"""A simulated day of two nodes, each in a process of its own; `make soak` runs the second.

The findings of the eight-GPU node are true. On both, page, terminal, JSON and metrics have equal
values, and parts that sum up.
"""

import html
import re
import sys
import time
from collections.abc import Iterator
from typing import Any, Final

import pytest
from markupsafe import escape
from prometheus_client.parser import text_string_to_metric_families

from agent_process import AgentProcess, agent_process, eventually, run_rightsizer
from rightsizer.advice.compatible import savings_of
from rightsizer.console.node_screen import frame_of
from rightsizer.console.node_table import TableView, shown_rows
from rightsizer.console.remote_agent import RemoteAgent
from rightsizer.io.http import HttpClient
from rightsizer.model.units import dollars_text, percent_text
from rightsizer.report.labels import ABSENT

pytestmark = pytest.mark.timeout(400)

DAY_SECONDS: Final = 86400.0
DEMO: Final = """\
import itertools
import sys
import time
from msgspec.structs import replace
from rightsizer.agent.service import serve
from rightsizer.cli import demo
# In the evening of a day of January 2026, whenever the test is run: what stalls does so at noon.
LATER = 1_767_816_000 * 10**9 - time.time_ns()
def serve_in_step(settings, clock, *, prepare, **more):
    # The rules run after each second reading, not beside: a busy machine would miss some hours.
    rare = replace(settings, recommender=replace(settings.recommender, interval=10 * 86400.0))
    def prepare_in_step(agent):
        prepare(agent)
        wait_until = clock.wait_until
        is_due = itertools.cycle((False, True))
        def wait(deadline, stop):
            if next(is_due):
                agent.recommend()
            return wait_until(deadline, stop)
        clock.wait_until = wait
    serve(rare, clock, prepare=prepare_in_step, **more)
demo.serve = serve_in_step
demo.run_demo(
    demo.DemoSettings(
        scenario=sys.argv[1],
        listen_address="127.0.0.1:0",
        # As fast as it is read and judged.
        speed=86400.0,
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


on_eight_gpus: Final = pytest.mark.parametrize(
    "node", ["eight-gpu-node"], indirect=True, scope="module"
)


@pytest.fixture(
    scope="module",
    params=["eight-gpu-node", pytest.param("a100-mig", marks=pytest.mark.soak)],
)
def node(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[AgentProcess]:
    """A demonstration after its day; the next reading is sixteen minutes away."""
    command = (sys.executable, "-c", DEMO, request.param)
    with agent_process(tmp_path_factory.mktemp("node"), command=command) as process:
        began = eventually(lambda: process.json("/api/v1/report"))["time"]
        is_over = began + DAY_SECONDS - 1800.0
        eventually(lambda: last_reading(process) >= is_over, 300, 1.0)
        yield process


def last_reading(process: AgentProcess) -> float:
    """Time of the last reading; 0 while others follow it, seven tenths of a second apart."""
    before = process.json("/api/v1/report")["time"]
    time.sleep(2.0)
    return float(before) if process.json("/api/v1/report")["time"] == before else 0.0


@pytest.fixture(scope="module")
def advice(node: AgentProcess) -> list[dict[str, Any]]:
    """All advice of the day, open or closed."""
    found: list[dict[str, Any]] = node.json("/api/v1/advice")["advice"]
    return found


@on_eight_gpus
def test_every_condition_of_the_scenario_is_named(advice: list[dict[str, Any]]) -> None:
    """Stall, idle notebook, oversized GPU, growing memory, starved loader, launch storm."""
    assert {(each["workload"], each["rule"]) for each in advice} >= TRUE


@on_eight_gpus
def test_nothing_is_named_that_is_not_so(advice: list[dict[str, Any]]) -> None:
    """Healthy training, checkpoints and preallocated memory get no advice."""
    held = {(each["workload"], each["rule"]) for each in advice if each["workload"]}

    assert held - TRUE <= ALSO


@on_eight_gpus
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


@on_eight_gpus
def test_a_sleeping_service_is_told_to_scale_and_not_to_go(advice: list[dict[str, Any]]) -> None:
    """It will be needed again in the morning."""
    asleep = "kubernetes/production/chat-api"
    actions = {each["action"] for each in advice if each["workload"] == asleep}

    assert actions <= {"scale_to_zero", "autoscale"}


def test_the_page_and_the_metrics_tell_the_same(node: AgentProcess) -> None:
    """All three share one ledger; simulated time continues between requests."""

    def differences() -> list[str]:
        advice = node.json("/api/v1/advice")["advice"]
        page = node.get("/")[1]
        metrics = node.metrics()
        if node.json("/api/v1/advice")["advice"] != advice:
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


def page_of(node: AgentProcess) -> str:
    """The page's text, entities resolved."""
    return html.unescape(node.get("/")[1])


def counted(node: AgentProcess) -> list[tuple[dict[str, Any], float]]:
    """The last day of each device with a state, and its share of a GPU."""
    devices = {each["uuid"]: each for each in node.json("/api/v1/report")["devices"]}
    past = node.json("/api/v1/strip?span=24h")["devices"]
    return [
        (each, devices[each["uuid"]]["capacity_ratio"])
        for each in past
        if not devices[each["uuid"]]["has_mig_instances"]
    ]


def rows_of(page: str) -> dict[str, str]:
    """The table row of each board or instance, by uuid, in order."""
    return dict(re.findall(r'<tr id="row-([^"]+)".*?>(.*?)</tr>', page, re.DOTALL))


def test_parts_sum_to_the_whole(node: AgentProcess) -> None:
    """Used and wasted time, by device and in total; no day has more than 24 hours."""
    span = node.json("/api/v1/summary")["span"]
    devices = counted(node)
    used = sum(past["used_seconds"] * part for past, part in devices)
    unused = sum(sum(past["waste_seconds"].values()) * part for past, part in devices)
    left_over = sum(past["waste_seconds"].get("headroom", 0.0) * part for past, part in devices)
    assert (span["used_seconds"], span["waste_seconds"], span["wasted_seconds"]) == (
        pytest.approx(used),
        pytest.approx(unused),
        pytest.approx(unused - left_over),
    )
    for past, _ in devices:
        assert past["used_seconds"] + sum(past["waste_seconds"].values()) <= DAY_SECONDS + 1e-3
    gpus = sum(part for _, part in devices)
    assert sum(span["state_seconds"].values()) <= gpus * DAY_SECONDS + 1e-3


def test_the_headline_is_the_sum_of_the_rows(node: AgentProcess) -> None:
    """In percent of known time, and in money up to the rounding of rows."""
    page = page_of(node)
    devices = counted(node)
    known = sum(
        (past["used_seconds"] + sum(past["waste_seconds"].values())) * part
        for past, part in devices
    )
    lost = sum(
        (sum(past["waste_seconds"].values()) - past["waste_seconds"].get("headroom", 0.0)) * part
        for past, part in devices
    )
    headline = re.search(r'<h1 id="headline"[^>]*>([^<]*)<', page)
    assert headline is not None
    assert f"{percent_text(lost / known)} of the last 24 hours wasted" in headline[1]
    boards = re.findall(r"<tbody data-board>.*?</tbody>", page, re.DOTALL)
    amounts = [re.search(r'list prices">[^<]*\$([\d.,]+)<', board) for board in boards]
    money = re.search(r": \$([\d,.]+)$", headline[1])
    if money is not None:
        total = sum(float(amount[1].replace(",", "")) for amount in amounts if amount)
        assert float(money[1].replace(",", "")) == pytest.approx(total, abs=len(boards), rel=0.01)


def test_all_count_the_same_recommendations(node: AgentProcess) -> None:
    """In the same order on page and terminal; metrics have the same savings and bounds."""
    opened = [each for each in node.json("/api/v1/advice")["advice"] if each["closed"] is None]
    summary = node.json("/api/v1/summary")["advice"]
    page = page_of(node)
    printed = run_rightsizer("advise", "--url", node.url).stdout
    assert summary["open"] == len(opened)
    # Of alternatives that exclude each other one can be done.
    count = len({advice["exclusive_group"] or advice["id"] for advice in opened})
    assert re.search(rf'id="tile-advice"><dt>[^<]*</dt><dd class="value">{count}<', page) or (
        re.search(rf'id="tile-advice">.*?class="value">{count}<', page, re.DOTALL)
    )
    assert re.search(rf"^{count} recommendations? (is|are) open", printed, re.MULTILINE)
    shown = re.findall(r'<h[34] id="advice-(\w+)"', page)
    named = re.findall(r"(?:active|claimed)(?: by \S+)? · (\w{12})$", printed, re.MULTILINE)
    assert sorted(shown) == sorted(each["id"] for each in opened)
    assert [each for each in shown if each in named] == named
    daily = dollars_text(summary["savings"]["dollars_per_hour"] * 24.0)
    if summary["savings"]["has_price"] and opened:
        assert f'class="value">{daily}/day<' in page
    families = {
        family.name: family.samples
        for family in text_string_to_metric_families(node.get("/metrics")[1])
        if family.name.startswith("rightsizer_advice")
    }
    assert families["rightsizer_advice_open"][0].value == len(opened)
    expected, low, high = (
        {
            sample.labels["id"]: pytest.approx(sample.value)
            for sample in families.get(f"rightsizer_advice_savings_{end}dollars_per_hour", ())
        }
        for end in ("", "low_", "high_")
    )
    for each in opened:
        savings = savings_of(each)
        assert low.get(each["id"]) == savings.dollars_per_hour_low
        assert high.get(each["id"]) == savings.dollars_per_hour_high
        assert expected.get(each["id"], 0.0) == savings.dollars_per_hour
    for together in families.get("rightsizer_advice_combined_savings_dollars_per_hour", ()):
        assert together.value == pytest.approx(summary["savings"]["dollars_per_hour"])


def test_top_has_the_waste_of_the_page(node: AgentProcess) -> None:
    """For each GPU; boards without instances are in the same order."""
    rows = rows_of(page_of(node))
    shown = shown_rows(frame_of(RemoteAgent(HttpClient(node.url))), TableView())
    for row in shown:
        wasted = ABSENT if row.use.wasted_ratio is None else percent_text(row.use.wasted_ratio)
        assert f">{wasted}" in rows[row.uuid].replace("\n", "")
    alone = [row.uuid for row in shown if "MIG" not in row.model and "g." not in row.title]
    assert [uuid for uuid in rows if uuid in alone] == alone
