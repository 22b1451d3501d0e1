"""Every query of every dashboard, against a real Prometheus with every metric."""

import re
from collections.abc import Iterator
from typing import Any

import pytest

from cases import NOW, finding
from dashboard_files import BOARDS, QUERIES, concrete
from exposition_sample import sample_exporter
from prometheus_server import Prometheus, prometheus_server, scrape_config
from rightsizer.model.advice import Advice, AdviceEvent, AdviceEventKind, AdviceState
from rightsizer.notify.grafana.annotation import body_of

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
    """Each query variable has values on its metric; the cluster may be absent."""
    for board in BOARDS.values():
        for variable in board["templating"]["list"]:
            if variable["type"] == "query" and variable["name"] != "cluster":
                assert options(prometheus, variable), variable["name"]


def test_gpus_are_chosen_by_name(prometheus: Prometheus) -> None:
    """By node and index, while links and queries have the uuid."""
    variables = {each["name"]: each for each in BOARDS["rightsizer-gpu"]["templating"]["list"]}
    found = options(prometheus, variables["uuid"])
    assert {value for _, value in found} == {"GPU-0", "GPU-1"}
    assert all(re.fullmatch(r"127\.0\.0\.1:\d+ GPU x", text) for text, _ in found)


@pytest.mark.parametrize("board", ["rightsizer-node", "rightsizer-gpu", "rightsizer-workload"])
def test_annotations_have_the_tags_that_the_board_asks_for(
    prometheus: Prometheus, board: str
) -> None:
    """An agent's own tags, and the values of the board's variables for the same node."""
    told = finding(devices=("GPU-0",), workload="kubernetes:research/llama")
    event = AdviceEvent(AdviceEventKind.OPENED, Advice(told, AdviceState.ACTIVE, NOW, NOW), NOW)
    written = body_of(event, node="node-7").tags
    variables = {each["name"]: each for each in BOARDS[board]["templating"]["list"]}
    _, asked = BOARDS[board]["annotations"]["list"][0]["target"]["tags"]
    kind, _, name = asked.partition(":$")
    values = {value for _, value in options(prometheus, variables[name])}

    assert {f"{kind}:{value}" for value in values} & set(written)


def options(prometheus: Prometheus, variable: dict[str, Any]) -> set[tuple[str, str]]:
    """Texts and values of a variable, as Grafana makes them of an answer."""
    asked = re.fullmatch(
        r"(label_values|query_result)\((.+?)(?:, (\w+))?\)", variable["definition"]
    )
    assert asked is not None
    answer = prometheus.query(concrete(asked[2]))
    if asked[1] == "label_values":
        return {(labels[asked[3]],) * 2 for labels, _ in answer if asked[3] in labels}
    pattern = variable["regex"].strip("/").replace("(?<", "(?P<")
    found = set()
    for labels, value in answer:
        inside = ",".join(f'{name}="{text}"' for name, text in sorted(labels.items()))
        match = re.search(pattern, f"{{{inside}}} {value} 0")
        assert match is not None
        named = match.groupdict()
        found.add((named.get("text", match[1]), named.get("value", match[1])))
    return found
