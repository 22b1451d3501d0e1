"""The panel of waste by namespace, over scrapes, recorded results, and both."""

from collections.abc import Mapping
from typing import Final

import pytest

from dashboard_files import QUERIES, VALUES, concrete
from prometheus_server import Prometheus, prometheus_server, scrape_config
from rightsizer.model.units import seconds
from scraped_day import LAST, START, ScrapedDay, recorded, scraped_day

pytestmark = [pytest.mark.prometheus, pytest.mark.timeout(240)]

RANGE: Final = f"{round(seconds(LAST - START))}s"
(PANEL,) = [query for query in QUERIES if query.name == "fleet: Wasted by namespace: A"]


@pytest.fixture(scope="module")
def node() -> ScrapedDay:
    """Two hours of eight GPUs with workloads of several namespaces."""
    return scraped_day("eight-gpu-node")


def wasted(server: Prometheus) -> Mapping[str, float]:
    """GPU-hours by namespace, as shown by the panel at the end of the two hours."""
    promql = concrete(PANEL.expression, {**VALUES, "$__range": RANGE, "$__rate_interval": "4m"})
    data = server.get("query", query=promql, time=str(seconds(LAST)))
    return {each["metric"]["namespace"]: float(each["value"][1]) for each in data["result"]}


def test_rules_beside_scrapes_double_nothing(node: ScrapedDay) -> None:
    """With either kind of series the sums are about the same; with both they are no larger."""
    with prometheus_server(scrape_config(), past=f"{node.text}# EOF\n") as server:
        rules = recorded(server)
        by_scrapes = wasted(server)
    with prometheus_server(scrape_config(), past=f"{node.text}{rules}# EOF\n") as server:
        by_both = wasted(server)

    assert len(by_scrapes) > 2
    assert by_both.keys() == by_scrapes.keys()
    # First values differ: a rule's is of its first five minutes, a scrape's of its first moment.
    assert sum(by_both.values()) == pytest.approx(sum(by_scrapes.values()), rel=0.1)
