"""Every query of the dashboards at scrapes of 15 and 60 s, at both levels, with rules or not."""

import math
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any, Final

import pytest
from msgspec import Struct

from dashboard_files import BOARDS, VALUES, concrete
from grafana.levels import recorded_rules
from prometheus_server import Prometheus, prometheus_server, scrape_config
from rightsizer.model.metric_family import Level
from scraped_levels import END, NODES, PRICE, SPAN, ScrapedLevels, scraped_levels

pytestmark = [pytest.mark.prometheus, pytest.mark.timeout(300)]

RULES: Final = (
    "uuid:rightsizer_used_seconds:increase5m",
    "uuid_cause:rightsizer_waste_seconds:increase5m",
    "uuid_cause:rightsizer_waste_joules:increase5m",
    "instance:rightsizer_used_seconds:increase5m",
    "instance_cause:rightsizer_waste_seconds:increase5m",
    "workload:rightsizer_used_seconds:increase5m",
    "workload:rightsizer_waste_seconds:increase5m",
)
RANGE: Final = 1800
"""Of the dashboard, in seconds: within the node's forty minutes."""
GRAFANA: Final = {**VALUES, "$__rate_interval": "4m", "$__range": f"{RANGE}s"}
"""What Grafana makes of queries whose least step is a minute."""
NOT_OF_GPUS: Final = frozenset({"rightsizer-estate", "rightsizer-advice"})
"""Of the fleet service and the recommender, which do not run here."""
MAY_BE_EMPTY: Final = {
    "Devices that are down": "all respond",
    "Firing alerts": "no alert is evaluated",
    "Xids": "there are none, and the simulated driver has no counter of them",
    "Xids over time": "the same",
    "Xids by code": "the same",
    "Annotations pending": "there is no Grafana",
    "Preemptions": "there is no serving engine",
    "Latency": "the same",
    "Requests": "the same",
    "Key-value cache": "the same",
    "Longest in queue": "the same",
    "Conditions": "none need hold",
    "Failures": "nothing fails",
    "Collectors": "there is no agent, only its metrics of GPUs",
    "Jobs": "the same",
    "Memory of the agent": "the same",
    "CPU of the agent": "the same",
    "Log messages": "the same",
    "NVLink errors": "the simulated driver counts none",
    "Fan speed": "boards for servers have no fans",
    "Links between GPUs": "the collector is off",
    "Corrected memory errors": "the same",
    "Memory pages retired": "boards since Ampere remap rows",
}


class Servers(Struct, frozen=True):
    """The same scrapes, without and with what the rules would have recorded."""

    plain: Prometheus
    ruled: Prometheus
    scraped: ScrapedLevels


@pytest.fixture(scope="module")
def servers() -> Iterator[Servers]:
    """Two servers of one past."""
    scraped = scraped_levels()
    with ExitStack() as stack:
        config = scrape_config()
        plain = stack.enter_context(prometheus_server(config, past=f"{scraped.text}# EOF\n"))
        past = f"{scraped.text}{recorded(plain)}# EOF\n"
        ruled = stack.enter_context(prometheus_server(config, past=past))
        yield Servers(plain, ruled, scraped)


@pytest.mark.parametrize("node", NODES)
def test_every_panel_shows_something(servers: Servers, node: str) -> None:
    """Folded rows that name a setting are for agents that have it."""
    level, _ = NODES[node]
    empty = []
    for uid, board in BOARDS.items():
        for row in board["panels"]:
            needs = row["title"].endswith("(web.metrics.level: full)") and row["type"] == "row"
            for panel in [] if needs and level is not Level.FULL else row.get("panels") or [row]:
                queries = [target["expr"] for target in panel.get("targets", [])]
                is_excepted = uid in NOT_OF_GPUS or panel["title"] in MAY_BE_EMPTY
                if queries and not any(numbers(servers.plain, query, node) for query in queries):
                    empty += [] if is_excepted else [f"{uid}: {panel['title']}"]
    assert empty == []


@pytest.mark.parametrize("node", NODES)
@pytest.mark.parametrize("has_rules", [False, True])
def test_hours_are_those_of_the_agent(
    servers: Servers,
    node: str,
    has_rules: bool,  # noqa: FBT001 - a case.
) -> None:
    """A slower scrape shows no fewer; a rule's five minutes shift the range by as much."""
    server = servers.ruled if has_rules else servers.plain
    wasted = grown(servers.scraped)
    tolerance = 0.2 if has_rules else 0.03
    for uid, title, letter, expected in (
        ("rightsizer-waste", "Wasted", "A", wasted),
        ("rightsizer-waste", "Hours by cause", "A", wasted),
        ("rightsizer-waste", "Money wasted", "A", wasted * PRICE.dollars_per_hour_typical),
        ("rightsizer-waste", "GPUs", "A", wasted),
        ("rightsizer-fleet", "Wasted", "A", wasted),
        ("rightsizer-fleet", "By model", "C", wasted),
    ):
        found = sum(numbers(server, query_of(uid, title, letter), node))
        assert found == pytest.approx(expected, rel=tolerance), (uid, title)


def test_workloads_have_the_same_hours_at_any_scrape(servers: Servers) -> None:
    """Once a fifth of them was shown at 60 s."""
    query = query_of("rightsizer-waste", "Workloads", "A")
    for server in (servers.plain, servers.ruled):
        fast, slow = (sum(numbers(server, query, f"standard-{each}")) for each in (15, 60))
        assert slow == pytest.approx(fast, rel=0.1)
        # Both ends of the range may count a whole step, here of five minutes.
        assert 0.0 < fast <= grown(servers.scraped) * (1.0 + 300.0 / RANGE) * 1.02


def test_dearest_recommendation_is_first_and_each_has_one_row(servers: Servers) -> None:
    """What is expected, by one row for each, with all that stands in the first columns."""
    node = "standard-60"
    daily = answers(servers.plain, query_of("rightsizer-fleet", "What to do", "A"), node)
    told = answers(servers.plain, query_of("rightsizer-fleet", "What to do", "B"), node)
    assert {labels["id"]: value for labels, value in daily} == {"stall": 96.0}
    assert sorted(labels["id"] for labels, _ in told) == ["idle", "stall"]
    (stall,) = [labels for labels, _ in told if labels["id"] == "stall"]
    assert (stall["gpu"], stall["state"], stall["instance"]) == ("2, 3", "active", node)


def recorded(server: Prometheus) -> str:
    """What the rules that boards ask first would have recorded, as OpenMetrics."""
    known = recorded_rules()
    lines = []
    for rule in RULES:
        for labels, samples in server.query_range(known[rule], END - SPAN + 300, END, 300):
            inside = ",".join(
                f'{name}="{text}"' for name, text in labels.items() if name != "__name__"
            )
            lines += [f"{rule}{{{inside}}} {value!r} {time:.3f}\n" for time, value in samples]
    return "".join(lines)


def grown(scraped: ScrapedLevels) -> float:
    """GPU-hours that were wasted within the range, by the agent's own totals."""
    whole = sum(
        (sum(scraped.last[uuid].waste_seconds.values()) - sum(totals.waste_seconds.values()))
        * scraped.capacities[uuid]
        for uuid, totals in scraped.first.items()
    )
    return whole / 3600.0 * RANGE / SPAN


def query_of(uid: str, title: str, letter: str) -> str:
    """A query of a board."""
    (found,) = [
        target["expr"]
        for row in BOARDS[uid]["panels"]
        for panel in row.get("panels") or [row]
        for target in panel.get("targets", [])
        if (panel["title"], target["refId"]) == (title, letter)
    ]
    return str(found)


def answers(server: Prometheus, expression: str, node: str) -> list[tuple[dict[str, str], float]]:
    """What a query finds at the end of the node's time."""
    asked = concrete(expression, {**GRAFANA, "$instance": node})
    data: Any = server.get("query", query=asked, time=str(END))
    return [(series["metric"], float(series["value"][1])) for series in data["result"]]


def numbers(server: Prometheus, expression: str, node: str) -> list[float]:
    """Its values, without NaN."""
    return [value for _, value in answers(server, expression, node) if not math.isnan(value)]
