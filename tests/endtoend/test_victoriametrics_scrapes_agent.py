"""A real VictoriaMetrics and vmalert in place of Prometheus: scraped, evaluated, queried."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from agent_process import AgentProcess, agent_process, eventually
from prometheus_server import Prometheus, prometheus_server, scrape_config
from rightsizer.io.yaml import load_yaml
from victoria_server import rule_groups, victoria_server, vmalert

pytestmark = pytest.mark.prometheus

CONFIG: Final = Path(__file__).parents[2] / "config" / "prometheus"
NODE: Final = ("--simulated.scenario", "single-h100", "--web.listen-address", "127.0.0.1:0")
FILES: Final = ("rules.yaml", "alerts.yaml")
INTERVAL: Final = re.compile(r"interval: \d+m")
UNKNOWN_TO_VMALERT: Final = re.compile(r"^ +keep_firing_for: .+\n", re.MULTILINE)


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AgentProcess]:
    """An agent on one simulated H100."""
    folder = tmp_path_factory.mktemp("agent")
    with agent_process(folder, *NODE, "--history.path", "") as process:
        yield process


@pytest.fixture(scope="module")
def victoria(agent: AgentProcess) -> Iterator[Prometheus]:
    """A VictoriaMetrics that scrapes it."""
    jobs = load_yaml(scrape_config(agent.address), "prometheus.yml").data["scrape_configs"]
    config = f"global: {{scrape_interval: 1s}}\nscrape_configs: {jobs}\n"
    with victoria_server(config) as server:
        server.wait_for("increase(rightsizer_samples_total[1m]) > 3")
        yield server


@pytest.fixture(scope="module")
def groups(victoria: Prometheus) -> Iterator[list[dict[str, Any]]]:
    """Our rules in vmalert, once each has been evaluated."""
    rules = {
        name: INTERVAL.sub(
            "interval: 1s", UNKNOWN_TO_VMALERT.sub("", (CONFIG / name).read_text("utf-8"))
        )
        for name in FILES
    }
    with vmalert(victoria, rules) as url:
        eventually(lambda: _all_evaluated(rule_groups(url)), 30.0)
        victoria.wait_for("instance:rightsizer_device_up:sum")
        victoria.wait_for("uuid_state:rightsizer_state_seconds:increase5m > 0")
        yield rule_groups(url)


def _all_evaluated(groups: list[dict[str, Any]]) -> bool:
    rules = [rule for group in groups for rule in group["rules"]]
    # The alerts' groups have no interval of their own and wait a minute for their first evaluation.
    recording = [rule for rule in rules if rule["type"] == "recording"]
    return bool(recording) and all(
        not rule["lastEvaluation"].startswith("0001") for rule in recording
    )


def test_the_same_series_arrive(agent: AgentProcess, victoria: Prometheus) -> None:
    """Every metric exported by the agent is there under its name."""
    stored = {labels["__name__"] for labels, _ in victoria.query('{job="rightsizer"}')}
    exported = {name for name, _ in agent.metrics()}
    assert exported - stored == set()


def test_series_join_by_uuid(victoria: Prometheus) -> None:
    """Joins are written as for Prometheus."""
    join = "rightsizer_device_up * on (uuid) group_left (model) rightsizer_device_info"
    assert victoria.query(join)[0][0]["model"] == "NVIDIA H100 80GB HBM3"


def test_every_rule_is_evaluated_without_an_error(groups: list[dict[str, Any]]) -> None:
    """Recording rules and alerts, without `keep_firing_for`."""
    rules = [rule for group in groups for rule in group["rules"]]
    shipped = [
        rule
        for name in FILES
        for group in load_yaml((CONFIG / name).read_text("utf-8"), name).data["groups"]
        for rule in group["rules"]
    ]
    assert {rule["name"] for rule in rules} == {
        rule.get("record", rule.get("alert")) for rule in shipped
    }
    assert [(rule["name"], rule["lastError"]) for rule in rules if rule["lastError"]] == []


@pytest.mark.usefixtures("groups")
def test_recorded_shares_sum_to_one(victoria: Prometheus) -> None:
    """Part and whole are evaluated at one time, and results are written back."""
    found = victoria.wait_for("sum without (state) (uuid_state:rightsizer_state_seconds:share1h)")
    assert [value for _, value in found] == [pytest.approx(1.0)]


def test_an_increase_begins_at_the_first_sample(agent: AgentProcess) -> None:
    """Prometheus extrapolates to the range's ends, VictoriaMetrics uses actual samples."""
    growth = "increase(rightsizer_samples_total[1m])"
    with prometheus_server(scrape_config(agent.address)) as prometheus:
        ((_, extrapolated), *_) = prometheus.wait_for(f"{growth} > 5")
    assert extrapolated != pytest.approx(round(extrapolated), abs=1e-6)


def test_an_increase_is_a_whole_number(victoria: Prometheus) -> None:
    """A counter of whole things grows by whole numbers here."""
    ((_, value), *_) = victoria.query("increase(rightsizer_samples_total[1m])")
    assert value == round(value)
