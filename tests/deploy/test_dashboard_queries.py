"""Every query of every dashboard, against a real Prometheus with every metric."""

import re
from collections.abc import Iterator

import pytest

from dashboard_files import BOARDS, QUERIES, concrete
from exposition_sample import sample_exporter
from prometheus_server import Prometheus, prometheus_server, scrape_config

pytestmark = pytest.mark.prometheus


@pytest.fixture(scope="module")
def prometheus() -> Iterator[Prometheus]:
    """A Prometheus that scraped every metric of the table a few times, without our rules."""
    with sample_exporter() as target, prometheus_server(scrape_config(target)) as server:
        server.wait_for("rightsizer_samples_total > 12")
        yield server


def test_query_is_answered(prometheus: Prometheus) -> None:
    """Every query parses, joins and has results on a node that exports everything."""
    for query in QUERIES:
        assert prometheus.query(concrete(query.expression)), query.name


def test_annotation_queries_are_answered(prometheus: Prometheus) -> None:
    """Without a token, advice can be marked from metrics alone."""
    for board in BOARDS.values():
        asked = [entry["expr"] for entry in board["annotations"]["list"] if "expr" in entry]
        assert len(asked) == 2
        assert all(prometheus.query(concrete(expression)) for expression in asked)


def test_variables_find_values(prometheus: Prometheus) -> None:
    """Each query variable names a label of its metric; the cluster may be absent."""
    for board in BOARDS.values():
        for variable in board["templating"]["list"]:
            if variable["type"] != "query":
                continue
            found = re.fullmatch(r"label_values\((.+), (\w+)\)", variable["definition"])
            assert found is not None
            ((labels, _), *_) = prometheus.query(concrete(found[1]))
            assert found[2] in labels or found[2] == "cluster"
