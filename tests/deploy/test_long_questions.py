"""The guide's questions over two weeks, against a real Prometheus with recorded series only.

A simulated node lives for more than an hour and is scraped. One Prometheus evaluates our rules over
the scrapes every five minutes; another gets only the results and the guide's queries.
"""

import re
from bisect import bisect_left
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from prometheus_server import Prometheus, prometheus_server, scrape_config
from rightsizer.io.yaml import load_yaml
from rightsizer.model.metric import METRICS
from scraped_node import Scraped, scraped_node

pytestmark = pytest.mark.prometheus

ROOT: Final = Path(__file__).parents[2]
QUERIES: Final = re.findall(
    r"```promql\n(.+?)```", (ROOT / "docs" / "alerts.md").read_text("utf-8"), re.DOTALL
)
FIVE_MINUTES: Final = 300
WINDOWS: Final = 13
NEEDED: Final = (
    "rightsizer_state_seconds_total",
    "rightsizer_condition_seconds_total",
    "rightsizer_used_seconds_total",
    "rightsizer_waste_seconds_total",
    "rightsizer_used_joules_total",
    "rightsizer_waste_joules_total",
    "rightsizer_device_up",
    "rightsizer_device_info",
    "rightsizer_device_capacity_ratio",
    "rightsizer_workload_info",
    "rightsizer_workload_share_ratio",
    "rightsizer_memory_used_bytes",
    "rightsizer_memory_total_bytes",
    "rightsizer_sm_work_distribution_ratio_bucket",
)


@pytest.fixture(scope="module")
def scraped() -> Scraped:
    """A node's last hour."""
    return scraped_node(NEEDED)


@pytest.fixture(scope="module")
def recorded(scraped: Scraped) -> Iterator[Prometheus]:
    """A Prometheus with the results of the rules for long questions."""
    rules = load_yaml((ROOT / "config/prometheus/rules.yaml").read_text("utf-8"), "rules").data
    lines = []
    start = scraped.times[-1] - (WINDOWS - 1) * FIVE_MINUTES
    with prometheus_server(scrape_config(), past=scraped.text) as raw:
        for group in rules["groups"]:
            for rule in group["rules"] if group["name"].startswith("rightsizer-long-") else ():
                found = raw.query_range(rule["expr"], start, scraped.times[-1], FIVE_MINUTES)
                for labels, values in found:
                    inside = ",".join(
                        f'{name}="{text}"' for name, text in labels.items() if name != "__name__"
                    )
                    series = f"{rule['record']}{{{inside}}}"
                    lines += [f"{series} {value} {time}\n" for time, value in values]
    with prometheus_server(scrape_config(), past="".join([*lines, "# EOF\n"])) as server:
        yield server


@pytest.mark.parametrize("promql", QUERIES, ids=lambda text: text.split("(")[0][:20].strip())
def test_question_is_answered(recorded: Prometheus, promql: str) -> None:
    """Every query of the guide has results, and all are numbers."""
    answers = recorded.query(promql)

    assert answers
    assert all(value >= 0.0 for _, value in answers)


def test_wasted_hours_are_the_agents_own(scraped: Scraped, recorded: Prometheus) -> None:
    """By cause, within the error of a scrape at each end of every five minutes."""
    (promql,) = (
        query for query in QUERIES if query.startswith("sum by (cause)") and "3600" in query
    )
    found = {labels["cause"]: value for labels, value in recorded.query(promql)}
    begins = bisect_left(scraped.times, scraped.times[-1] - WINDOWS * FIVE_MINUTES)
    first = scraped.totals[begins]
    last = scraped.totals[-1]
    whole = {
        cause: sum(
            last[uuid].waste_seconds.get(cause, 0.0) - first[uuid].waste_seconds.get(cause, 0.0)
            for uuid in scraped.uuids
        )
        / 3600
        for cause in found
    }

    assert sum(whole.values()) > 1.0
    for cause, hours in whole.items():
        assert found[cause] == pytest.approx(hours, rel=0.1, abs=0.1), cause


def test_two_weeks_are_few_samples(recorded: Prometheus) -> None:
    """A question reads one sample in five minutes of each series."""
    series = "uuid_state:rightsizer_state_seconds:increase5m"
    counts = [value for _, value in recorded.query(f"count_over_time({series}[14d])")]

    assert counts
    assert max(counts) == WINDOWS


def test_guides_queries_rest_on_recorded_series_alone() -> None:
    """None of them reads scraped series, which have expired by then."""
    for promql in QUERIES:
        raw = {name for name in METRICS if re.search(rf"(?<![:\w]){name}(?![\w:])", promql)}
        assert raw == set()
