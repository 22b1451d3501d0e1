"""The API of a running agent: each response matches its description, without private data."""

import getpass
import json
import sys
from collections.abc import Iterator
from typing import Final

import pytest

from agent_process import AgentProcess, agent_process, eventually
from api_schema import faults, json_schema_of
from rightsizer.model.report import SPANS

DEMO: Final = """\
import itertools
import sys
import time
from rightsizer.cli.demo import DemoSettings, run_demo
# Once the day has begun the world is where enough was seen: from there on time goes on as usual.
left_seconds = itertools.chain([0.0], itertools.repeat(86400.0 - float(sys.argv[5])))
run_demo(
    DemoSettings(
        scenario=sys.argv[1],
        listen_address="127.0.0.1:0",
        speed=float(sys.argv[2]),
        tick_seconds=float(sys.argv[3]),
        days_before=float(sys.argv[4]),
        memory_tick_seconds=3600.0,
        # A machine with other work reads all GPUs at each of the few ticks too.
        deadline_seconds=30.0 if sys.argv[1] != "faulty-node" else 0.8,
    ),
    lambda text: print(text, flush=True),
    lambda: time.time_ns() - int(next(left_seconds) * 1e9),
)
"""
pytestmark = pytest.mark.timeout(240)
HOUR_SECONDS: Final = 3600.0
MORE_SECONDS: Final = 3600.0
"""Extra seconds at high speed: the first report may be seen late."""
REMEMBERED: Final = {"eight-gpu-node": 2, "h100-mig": 1}
"""Days before the start; one of sixty devices takes as long as two of eight."""


@pytest.fixture(scope="module", params=[*REMEMBERED, "faulty-node"])
def scenario(request: pytest.FixtureRequest) -> str:
    """A healthy node, one with MIG instances, and one with every fault."""
    return str(request.param)


@pytest.fixture(scope="module")
def agent(scenario: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[AgentProcess]:
    """An agent after days and six hours, or after a quarter of an hour of faults."""
    is_long = scenario in REMEMBERED
    flags = ("6000", "900", str(REMEMBERED[scenario])) if is_long else ("240", "20", "0")
    lived = (6.0 if is_long else 0.25) * HOUR_SECONDS
    command = (sys.executable, "-c", DEMO, scenario, *flags, str(lived + MORE_SECONDS))
    with agent_process(tmp_path_factory.mktemp("agent"), command=command) as process:
        began = eventually(lambda: process.json("/api/v1/report"))["time"]
        until = began + lived
        eventually(lambda: process.json("/api/v1/report")["time"] > until, 60, 0.5)
        yield process


@pytest.mark.parametrize(
    "path",
    [
        "/api/v1/report",
        "/api/v1/advice",
        "/api/v1/openapi.json",
        *(f"/api/v1/{name}?span={span.name}" for name in ("summary", "strip") for span in SPANS),
    ],
)
def test_answers_are_as_described(agent: AgentProcess, path: str) -> None:
    """Strictly, for a healthy node, a faulty one and one with MIG instances."""
    status, text = agent.get(path)
    assert status == 200
    schema = json_schema_of("GET", path.partition("?")[0])
    assert list(faults(json.loads(text), schema)) == []


def test_every_piece_of_advice_is_explained_as_described(agent: AgentProcess) -> None:
    """For any rule."""
    schema = json_schema_of("GET", "/api/v1/advice/{id}")
    for piece in agent.json("/api/v1/advice")["advice"]:
        explained = agent.json(f"/api/v1/advice/{piece['id']}")
        assert list(faults(explained, schema)) == [], piece["rule"]


@pytest.mark.parametrize("scenario", REMEMBERED, indirect=True, scope="module")
def test_strips_reach_back_as_far_as_the_node_remembers(agent: AgentProcess, scenario: str) -> None:
    """The simulated days and the hours since, on every device that responds."""
    hours = {}
    for span in SPANS:
        strip = agent.json(f"/api/v1/strip?span={span.name}")
        known = [
            sum(sum(cell["state_seconds"].values()) for cell in device["cells"])
            for device in strip["devices"]
        ]
        hours[span.name] = max(known) / 3600.0
    assert hours["1h"] == pytest.approx(1.0, abs=0.1)
    assert hours["24h"] == pytest.approx(24.0, abs=0.2)
    assert hours["7d"] >= 24.0 * REMEMBERED[scenario] + 5.0
    assert hours["30d"] == pytest.approx(hours["7d"], abs=1.0)


def test_nobody_is_named_and_no_path_is_reported(agent: AgentProcess) -> None:
    """Users and their files are visible to the operator only."""
    answers = "".join(agent.get(f"/api/v1/{name}")[1] for name in ("report", "advice", "summary"))
    for private in (f'"{getpass.getuser()}"', "/home/", "/root/"):
        assert private not in answers


def test_the_page_holds_its_promises(agent: AgentProcess) -> None:
    """Every span in less than 300 KB, with nothing from elsewhere."""
    for span in SPANS:
        status, page = agent.get(f"/?span={span.name}")
        assert status == 200
        assert len(page.encode()) < 300_000
        assert f'aria-current="true" title="the last {span.text}"' in page
    assert agent.get("/?span=2h")[0] == 400
