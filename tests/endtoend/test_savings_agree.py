"""One recommendation's savings on the page, in a command, in the metrics and on a dashboard."""

import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from msgspec import Struct

from advice_history import keep_advice
from agent_process import AgentProcess, agent_process, run_rightsizer
from dashboard_files import QUERIES, concrete
from prometheus_server import Prometheus, prometheus_server, scrape_config
from rightsizer.model.finding import Action, Reason, Savings

pytestmark = pytest.mark.prometheus

CONFIG: Final = """\
history: {{path: "{folder}/history.db"}}
web: {{listen_addresses: ["127.0.0.1:0"]}}
sources: {{simulated: {{scenario: single-h100}}}}
path: {{api_socket: "{folder}/api.sock"}}
"""
SAVINGS: Final = Savings(0.0, 2.0, 0.0, 20.0, dollars_per_hour_typical=4.0)
"""Of a hung job, which may save nothing and is expected to save much."""


class Node(Struct, frozen=True):
    """An agent with one recommendation, and a Prometheus that scrapes it."""

    id: str
    folder: Path
    agent: AgentProcess
    prometheus: Prometheus

    def board(self, panel: str, letter: str) -> list[tuple[dict[str, str], float]]:
        """What a query of the board of recommendations finds."""
        name = f"advice: {panel}: {letter}"
        (query,) = [each.expression for each in QUERIES if each.name == name]
        return self.prometheus.wait_for(concrete(query), 60.0)


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    """It was opened by an earlier agent a minute ago, and stands without a claim."""
    folder = tmp_path_factory.mktemp("node")
    id_ = keep_advice(
        folder / "history.db",
        time.time_ns() - 60 * 10**9,
        savings=SAVINGS,
        action=Action.INVESTIGATE_STRAGGLER,
        reasons=(Reason.HIDDEN_STALL,),
        workload="kubernetes:research/llama",
    )
    config = CONFIG.format(folder=folder)
    with (
        agent_process(folder, config=config) as agent,
        prometheus_server(scrape_config(agent.address)) as server,
    ):
        yield Node(id_, folder, agent, server)


def test_expected_savings_are_the_same_everywhere(node: Node) -> None:
    """$4 an hour, which is $96 a day: neither $0.00, the lower bound, nor $480."""
    (stated,) = [
        each for each in node.agent.json("/api/v1/advice")["advice"] if each["id"] == node.id
    ]
    said = run_rightsizer("advise", "--config.file", node.folder / "rightsizer.yaml").stdout
    _, page = node.agent.get("/")
    dollars = "rightsizer_advice_savings_dollars_per_hour"
    combined = "rightsizer_advice_combined_savings_dollars_per_hour"

    assert stated["savings"]["dollars_per_hour_typical"] == 4.0
    assert "saves $96 a day ($0 to $480), 0 to 2 GPUs" in " ".join(said.split())
    assert "$96 a day ($0 to $480), 0 to 2 GPUs" in page
    assert node.agent.metric(dollars, id=node.id) == 4.0
    assert node.agent.metric("rightsizer_advice_savings_gpus", id=node.id) == 1.0
    assert node.agent.metric(combined) == 4.0
    for panel in ("What to do", "Recommendations"):
        assert [value for _, value in node.board(panel, "A")] == [96.0]
    bounds = [node.board("Recommendations", letter)[0][1] for letter in "CDE"]
    assert bounds == [0.0, 480.0, 1.0]
    assert node.board("Savings a day", "A")[0][1] == 96.0
    assert node.board("GPUs freed", "A")[0][1] == 1.0


def test_row_leads_to_the_sentence_and_to_the_claim(node: Node) -> None:
    """By the addresses in the links of the table, filled in from its columns."""
    ((labels, _),) = node.board("What to do", "B")
    address = f"http://{labels['instance']}"
    status, text = node.agent.get(f"/api/v1/advice/{labels['id']}")
    _, page = node.agent.get("/")

    assert address == node.agent.url
    assert status == 200
    assert '"summary"' in text
    assert f'id="advice-{node.id}"' in page
    assert labels["namespace"] == "research"
    assert re.fullmatch("investigate_straggler/[a-z]+", labels["do"])


def test_claim_is_seen_on_the_board(node: Node) -> None:
    """So that no one else begins."""
    config = node.folder / "rightsizer.yaml"
    run_rightsizer("claim", node.id, "--actor", "ana", "--config.file", config)
    deadline = time.monotonic() + 60.0
    states = [""]
    while states != ["claimed"] and time.monotonic() < deadline:
        states = [labels["state"] for labels, _ in node.board("What to do", "B")]
        time.sleep(0.5)
    assert states == ["claimed"]
