"""A real Prometheus over a simulated node: its shares of time equal the agent's own.

The node lives for more than an hour and is scraped every 15 s of it. The scrapes are imported as
Prometheus' past, dated to end now, and the recording rules are evaluated at the present.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from prometheus_server import Prometheus, prometheus_server, scrape_config
from rightsizer.io.yaml import load_yaml
from rightsizer.model.state import Condition, State
from scraped_node import HOUR, SCRAPE, Scraped, scraped_node

pytestmark = pytest.mark.prometheus

RULES: Final = Path(__file__).parents[2] / "config" / "prometheus" / "rules.yaml"
NAMES: Final = (
    "rightsizer_state_seconds_total",
    "rightsizer_condition_seconds_total",
    "rightsizer_used_seconds_total",
    "rightsizer_waste_seconds_total",
    "rightsizer_device_capacity_ratio",
    "rightsizer_device_up",
)
SHARE_OF_THE_SCRAPES: Final = 12 * SCRAPE / HOUR
"""Prometheus extrapolates to the ends of each five minutes: growth between the last scrape of one
and the first of the next is in neither."""


def rules_of_the_present() -> str:
    """The rules each second, with each recorded five minutes replaced by its subquery.

    This Prometheus has a past of scrapes, but no recorded results.
    """
    text = re.sub(r"interval: [12]m", "interval: 1s", RULES.read_text("utf-8"))
    rules = [
        rule for group in load_yaml(text, RULES.name).data["groups"] for rule in group["rules"]
    ]
    for rule in rules:
        name = re.escape(rule["record"])
        expression = " ".join(rule["expr"].split())
        recorded = re.compile(rf"{name}(?:{{(.+?)}})?\[(1h|6h)\]")
        text = recorded.sub(rf"({expression})[\2:5m]", text)
    return text


@pytest.fixture(scope="module")
def scraped() -> Scraped:
    """A node's last hour."""
    return scraped_node(NAMES)


@pytest.fixture(scope="module")
def prometheus(scraped: Scraped) -> Iterator[Prometheus]:
    """A Prometheus that has scraped it, and evaluates our rules every second."""
    rules = rules_of_the_present()
    config = scrape_config(rule_files=("rules.yaml",))
    with prometheus_server(config, {"rules.yaml": rules}, past=scraped.text) as server:
        yield server


def recorded(prometheus: Prometheus, rule: str, label: str) -> dict[tuple[str, str], float]:
    """The results of a rule, by device and the value of a label."""
    found = prometheus.wait_for(rule)
    return {(labels.get("uuid", ""), labels.get(label, "")): value for labels, value in found}


def recorded_at(prometheus: Prometheus, rule: str) -> float:
    """The end of the last recorded five minutes."""
    prometheus.wait_for(rule)
    at = max(value for _, value in prometheus.query(f"timestamp({rule})"))
    return at - at % 300.0


def test_shares_of_states_are_the_agents_own(scraped: Scraped, prometheus: Prometheus) -> None:
    """The share of the hour that each device spent in each state."""
    rule = "uuid_state:rightsizer_state_seconds:share1h"
    found = recorded(prometheus, rule, "state")
    until = recorded_at(prometheus, rule)
    seen: set[State] = set()
    for uuid in scraped.uuids:
        before, after = scraped.grown(uuid, until)
        spent = {
            state: after.state_seconds.get(state, 0.0) - before.state_seconds.get(state, 0.0)
            for state in State
        }
        shares = {state: part / sum(spent.values()) for state, part in spent.items()}
        seen |= {state for state, share in shares.items() if share > 0.1}
        for state, share in shares.items():
            assert found[uuid, state] == pytest.approx(share, abs=SHARE_OF_THE_SCRAPES)
        assert sum(found[uuid, state] for state in State) == pytest.approx(1.0)
    assert len(seen) > 3


def test_shares_of_conditions_are_the_agents_own(scraped: Scraped, prometheus: Prometheus) -> None:
    """Of all time, since they overlap."""
    rule = "uuid_condition:rightsizer_condition_seconds:share1h"
    found = recorded(prometheus, rule, "condition")
    until = recorded_at(prometheus, rule)
    for uuid in scraped.uuids:
        before, after = scraped.grown(uuid, until)
        whole = sum(after.state_seconds.values()) - sum(before.state_seconds.values())
        for condition in Condition:
            grown = after.condition_seconds.get(condition, 0.0) - before.condition_seconds.get(
                condition, 0.0
            )
            share = found.get((uuid, condition), 0.0)
            assert share == pytest.approx(grown / whole, abs=SHARE_OF_THE_SCRAPES)


def test_used_part_of_the_node_is_the_agents_own(scraped: Scraped, prometheus: Prometheus) -> None:
    """Of the known hours of both devices together."""
    rule = "instance:rightsizer_used_seconds_per_known_seconds:ratio1h"
    found = recorded(prometheus, rule, "instance")
    until = recorded_at(prometheus, rule)
    used = known = 0.0
    for uuid in scraped.uuids:
        before, after = scraped.grown(uuid, until)
        used += after.used_seconds - before.used_seconds
        known += sum(after.state_seconds.values()) - sum(before.state_seconds.values())
    assert 0.0 < used < known
    assert list(found.values()) == [pytest.approx(used / known, abs=SHARE_OF_THE_SCRAPES)]
