"""A real Prometheus and a running agent: scraped, evaluated, queried."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from agent_process import AgentProcess, agent_process
from prometheus_server import Prometheus, prometheus_server, scrape_config

pytestmark = pytest.mark.prometheus

RULES: Final = Path(__file__).parent.parent.parent / "config" / "prometheus"
FILES: Final = ("rules.yaml", "alerts.yaml")


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AgentProcess]:
    """An agent on one simulated H100."""
    folder = tmp_path_factory.mktemp("agent")
    flags = ("--simulated.scenario", "single-h100", "--web.listen-address", "127.0.0.1:0")
    with agent_process(folder, *flags, "--history.path", str(folder / "history.db")) as process:
        yield process


@pytest.fixture(scope="module")
def prometheus(agent: AgentProcess) -> Iterator[Prometheus]:
    """A Prometheus that scrapes it, and evaluates our rules every second."""
    files = {
        name: (RULES / name).read_text("utf-8").replace("interval: 1m", "interval: 1s")
        for name in FILES
    }
    with prometheus_server(scrape_config(agent.address, rule_files=FILES), files) as server:
        server.wait_for("rightsizer_state_seconds_total")
        yield server


def test_every_series_of_the_page_arrives(agent: AgentProcess, prometheus: Prometheus) -> None:
    """The scrape succeeds with as many samples as offered."""
    (_, scraped) = prometheus.wait_for("scrape_samples_scraped")[0]

    assert prometheus.wait_for("up")[0][1] == 1.0
    assert scraped == pytest.approx(len(agent.metrics()), abs=60)


def test_series_join_by_uuid(prometheus: Prometheus) -> None:
    """Values have only the uuid; names come from the info series."""
    join = "rightsizer_device_up * on (uuid) group_left (model) rightsizer_device_info"
    labels, value = prometheus.wait_for(join)[0]

    assert (labels["model"], value) == ("NVIDIA H100 80GB HBM3", 1.0)


def test_the_states_of_a_device_are_all_of_its_time(prometheus: Prometheus) -> None:
    """Their sum grows, and the current state is one of them."""
    total = "sum by (uuid) (rightsizer_state_seconds_total)"
    (before,) = prometheus.wait_for(total)
    (after,) = prometheus.wait_for(f"{total} > {before[1]}")

    assert after[0] == before[0]


def test_distributions_are_histograms_that_quantiles_can_be_taken_of(
    prometheus: Prometheus,
) -> None:
    """`histogram_quantile` over all GPUs and weeks is their purpose."""
    quantile = (
        "histogram_quantile(0.5, sum by (le) (rightsizer_memory_used_distribution_ratio_bucket))"
    )
    (_, value) = prometheus.wait_for(f"{quantile} >= 0")[0]

    assert 0.0 <= value <= 1.0


def test_our_rules_are_evaluated_without_an_error(prometheus: Prometheus) -> None:
    """Recording rules give series, alerts give none on a healthy node."""
    assert prometheus.wait_for("instance:rightsizer_device_up:sum")[0][1] == 1.0
    rules = [rule for group in prometheus.get("rules")["groups"] for rule in group["rules"]]

    assert rules
    assert [(rule["name"], rule["lastError"]) for rule in rules if rule.get("lastError")] == []
    assert prometheus.query('ALERTS{alertstate="firing"}') == []
