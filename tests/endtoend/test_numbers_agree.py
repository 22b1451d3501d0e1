"""Page, terminal, JSON and metrics of simulated nodes: equal values, and parts that sum up."""

import html
import re
import sys
import time
from collections.abc import Iterator
from typing import Any, Final

import pytest
from prometheus_client.parser import text_string_to_metric_families

from agent_process import AgentProcess, agent_process, eventually, run_rightsizer
from rightsizer.console.node_screen import frame_of
from rightsizer.console.node_table import TableView, shown_rows
from rightsizer.console.remote_agent import RemoteAgent
from rightsizer.io.http import HttpClient
from rightsizer.model.units import dollars_text, percent_text
from rightsizer.report.labels import ABSENT

pytestmark = pytest.mark.timeout(400)

DAY_SECONDS: Final = 86400.0
DEMO: Final = """\
import sys
from rightsizer.cli.demo import DemoSettings, run_demo
run_demo(
    DemoSettings(
        scenario=sys.argv[1],
        listen_address="127.0.0.1:0",
        speed=2700.0,
        tick_seconds=960.0,
        memory_tick_seconds=3600.0,
        deadline_seconds=30.0,
    ),
    lambda text: print(text, flush=True),
)
"""


@pytest.fixture(scope="module", params=["eight-gpu-node", "a100-mig"])
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
    """Time of the last reading; 0 while others follow it, a third of a second apart."""
    before = process.json("/api/v1/report")["time"]
    time.sleep(2.0)
    return float(before) if process.json("/api/v1/report")["time"] == before else 0.0


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
    span, devices = node.json("/api/v1/summary")["span"], counted(node)
    used = sum(past["used_seconds"] * part for past, part in devices)
    waste = sum(sum(past["waste_seconds"].values()) * part for past, part in devices)
    assert (span["used_seconds"], span["waste_seconds"]) == (
        pytest.approx(used),
        pytest.approx(waste),
    )
    for past, _ in devices:
        assert past["used_seconds"] + sum(past["waste_seconds"].values()) <= DAY_SECONDS + 1e-3
    gpus = sum(part for _, part in devices)
    assert sum(span["state_seconds"].values()) <= gpus * DAY_SECONDS + 1e-3


def test_the_headline_is_the_sum_of_the_rows(node: AgentProcess) -> None:
    """In percent of known time, and in money up to the rounding of rows."""
    page, devices = page_of(node), counted(node)
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
    amounts = [re.search(r'list prices">\$([\d.,]+)<', board) for board in boards]
    money = re.search(r": \$([\d,.]+)$", headline[1])
    if money is not None:
        total = sum(float(each[1].replace(",", "")) for each in amounts if each)
        assert float(money[1].replace(",", "")) == pytest.approx(total, abs=len(boards), rel=0.01)


def test_all_count_the_same_recommendations(node: AgentProcess) -> None:
    """In the same order on page and terminal; metrics have the same lower bounds."""
    opened = [each for each in node.json("/api/v1/advice")["advice"] if each["closed"] is None]
    summary, page = node.json("/api/v1/summary")["advice"], page_of(node)
    printed = run_rightsizer("advise", "--url", node.url).stdout
    assert summary["open"] == len(opened)
    assert re.search(rf'id="tile-advice"><dt>[^<]*</dt><dd class="value">{len(opened)}<', page) or (
        re.search(rf'id="tile-advice">.*?class="value">{len(opened)}<', page, re.DOTALL)
    )
    assert re.search(rf"^{len(opened)} recommendations? (is|are) open", printed, re.MULTILINE)
    shown = re.findall(r'<h[34] id="advice-(\w+)"', page)
    named = re.findall(r"(?:active|claimed)(?: by \S+)?\s+(\w{12})$", printed, re.MULTILINE)
    assert sorted(shown) == sorted(each["id"] for each in opened)
    assert [each for each in shown if each in named] == named
    daily = dollars_text(summary["savings"]["dollars_per_hour"] * 24.0)
    if summary["savings"]["has_price"] and opened:
        assert f'class="value">{daily}/day<' in page
    families = {
        each.name: each.samples
        for each in text_string_to_metric_families(node.get("/metrics")[1])
        if each.name.startswith("rightsizer_advice")
    }
    assert families["rightsizer_advice_open"][0].value == len(opened)
    low = {
        sample.labels["id"]: sample.value
        for sample in families.get("rightsizer_advice_savings_dollars_per_hour", ())
    }
    for each in opened:
        bound = each["savings"]["dollars_per_hour_low"]
        assert low.get(each["id"]) == (None if bound is None else pytest.approx(bound))


def test_top_has_the_waste_of_the_page(node: AgentProcess) -> None:
    """For each GPU; boards without instances are in the same order."""
    rows = rows_of(page_of(node))
    shown = shown_rows(frame_of(RemoteAgent(HttpClient(node.url))), TableView())
    for row in shown:
        wasted = ABSENT if row.wasted_ratio is None else percent_text(row.wasted_ratio)
        assert f">{wasted}" in rows[row.uuid].replace("\n", "")
    alone = [row.uuid for row in shown if "MIG" not in row.board and "g." not in row.title]
    assert [uuid for uuid in rows if uuid in alone] == alone
