"""The dashboard: up to date, as the linter wants it, and every query answered by Prometheus."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from exposition_sample import sample_exporter
from prometheus_server import Prometheus, prometheus_server, scrape_config
from rightsizer.domain.metric import METRICS, MetricKind
from rightsizer.domain.state import Cause, State
from rightsizer.edge.yaml import load_yaml

ROOT = Path(__file__).resolve().parents[2]
GRAFANA = ROOT / "grafana"
DASHBOARD = json.loads((GRAFANA / "dashboards" / "rightsizer-node.json").read_text())
EXCLUSIONS = load_yaml((GRAFANA / ".lint").read_text(), ".lint").data["exclusions"]
PANELS = [
    panel
    for top in DASHBOARD["panels"]
    for panel in ([*top["panels"]] if top["type"] == "row" else [top])
]
EXPRESSIONS = [
    pytest.param(panel["title"], target["expr"], id=f"{panel['title']} {target['refId']}")
    for panel in PANELS
    for target in panel.get("targets", [])
]
VARIABLES = {variable["name"]: variable for variable in DASHBOARD["templating"]["list"]}
SELECTOR = re.compile(r"\b((?:rightsizer|process)_\w+)(\{[^}]*\})?")
HISTOGRAM_SUFFIX = "_bucket"


def excluded(rule: str) -> set[str]:
    """Titles of the panels that a rule does not hold for."""
    return {entry["panel"] for entry in EXCLUSIONS.get(rule, {}).get("entries", [])}


def concrete(expression: str) -> str:
    """An expression as Grafana would send it."""
    for name, value in {
        "$__rate_interval": "8s",
        "$__range": "1m",
        "$window": "24h",
        "$job": ".+",
        "$instance": ".+",
        "$uuid": ".+",
    }.items():
        expression = expression.replace(name, value)
    return expression


@pytest.fixture(scope="module")
def prometheus() -> Iterator[Prometheus]:
    """A Prometheus that has scraped every metric of the table a few times."""
    with sample_exporter() as target, prometheus_server(scrape_config(target)) as server:
        server.wait_for("rightsizer_samples_total > 3")
        yield server


def test_generated_file_is_up_to_date() -> None:
    """The committed dashboard is what the script writes."""
    command = [sys.executable, "-m", "grafana.generate", "--check"]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.returncode == 0, f"run 'python -m grafana.generate': {result.stdout}"


@pytest.mark.prometheus
@pytest.mark.parametrize(("title", "expression"), EXPRESSIONS)
def test_query_is_answered(prometheus: Prometheus, title: str, expression: str) -> None:
    """Every query parses, runs, joins, and finds something on a node that exports everything."""
    assert prometheus.query(concrete(expression)), title


@pytest.mark.prometheus
def test_annotation_query_is_answered(prometheus: Prometheus) -> None:
    """Advice can be marked from metrics alone, where no token is given."""
    (query,) = [entry["expr"] for entry in DASHBOARD["annotations"]["list"] if "expr" in entry]
    assert prometheus.query(concrete(query))


@pytest.mark.prometheus
def test_variables_find_values(prometheus: Prometheus) -> None:
    """Each query variable names a label that its metric has."""
    for variable in VARIABLES.values():
        if variable["type"] == "query":
            found = re.fullmatch(r"label_values\((.+), (\w+)\)", variable["definition"])
            assert found is not None
            ((labels, _), *_) = prometheus.query(concrete(found[1]))
            assert found[2] in labels


@pytest.mark.parametrize(("title", "expression"), EXPRESSIONS)
def test_metrics_exist(title: str, expression: str) -> None:
    """Queries speak of metrics that the agent exports."""
    for name, _ in SELECTOR.findall(expression):
        assert name.removesuffix(HISTOGRAM_SUFFIX) in METRICS or name.startswith("process_"), title


@pytest.mark.parametrize(("title", "expression"), EXPRESSIONS)
def test_target_job_and_instance_rules(title: str, expression: str) -> None:
    """Each selector has both matchers, and that of the device where there are devices."""
    for name, matchers in SELECTOR.findall(expression):
        assert 'job=~"$job", instance=~"$instance"' in matchers, title
        metric = METRICS.get(name.removesuffix(HISTOGRAM_SUFFIX))
        assert ('uuid=~"$uuid"' in matchers) is (metric is not None and "uuid" in metric.labels)


@pytest.mark.parametrize(("title", "expression"), EXPRESSIONS)
def test_target_counter_rule(title: str, expression: str) -> None:
    """A counter, or a histogram's bucket, is only read through rate or increase."""
    for found in SELECTOR.finditer(expression):
        metric = METRICS.get(found[1].removesuffix(HISTOGRAM_SUFFIX))
        is_counter = found[1].endswith(("_total", HISTOGRAM_SUFFIX))
        assert is_counter or metric is None or metric.kind is not MetricKind.COUNTER
        before = expression[: found.start()]
        assert before.endswith(("rate(", "increase(")) is is_counter, title


@pytest.mark.parametrize(("title", "expression"), EXPRESSIONS)
def test_target_rate_interval_rule(title: str, expression: str) -> None:
    """Ranges are `$__rate_interval`, but for the panels that are excepted with a reason."""
    ranges = set(re.findall(r"\[([^\]]+)\]", expression))
    if title in excluded("target-rate-interval-rule"):
        assert ranges == {"$__range"}
    else:
        assert ranges <= {"$__rate_interval"}


def test_exclusions_have_reasons_and_panels() -> None:
    """An exception says why, and is for a panel that exists."""
    titles = {panel["title"] for panel in PANELS}
    for rule, exclusion in EXCLUSIONS.items():
        assert len(exclusion["reason"].split()) > 3, rule
        assert excluded(rule) <= titles


def test_panel_rules() -> None:
    """Each panel has a title, a description, a unit, the chosen data source and a query."""
    assert len({panel["title"] for panel in PANELS}) == len(PANELS)
    for panel in PANELS:
        assert panel["title"]
        assert panel["description"].endswith("."), panel["title"]
        if panel["title"] in excluded("panel-no-targets-rule"):
            continue
        assert panel["fieldConfig"]["defaults"]["unit"], panel["title"]
        assert panel["targets"], panel["title"]
        for source in (panel["datasource"], *(t["datasource"] for t in panel["targets"])):
            assert source == {"type": "prometheus", "uid": "${datasource}"}
        letters = [target["refId"] for target in panel["targets"]]
        assert len(set(letters)) == len(letters)


def test_template_rules() -> None:
    """The variables are those that every dashboard of a mixin has, and our window."""
    assert list(VARIABLES) == ["datasource", "job", "instance", "uuid", "window"]
    assert VARIABLES["datasource"]["label"] == "Data Source"
    assert VARIABLES["datasource"]["query"] == "prometheus"
    for name in ("job", "instance", "uuid"):
        variable = VARIABLES[name]
        assert variable["datasource"]["uid"] == "${datasource}"
        assert (variable["multi"], variable["allValue"], variable["refresh"]) == (True, ".+", 2)
    windows = {option["value"] for option in VARIABLES["window"]["options"]}
    assert windows == {"24h", "7d", "current"}


def test_dashboard_is_not_editable() -> None:
    """Changes are made in the script, and the title and uid are what alerts link to."""
    assert DASHBOARD["editable"] is False
    assert DASHBOARD["uid"] == "rightsizer-node"


def test_annotations_ask_for_our_tag() -> None:
    """What the agent posts is shown."""
    target = DASHBOARD["annotations"]["list"][0]["target"]
    assert (target["type"], target["tags"]) == ("tags", ["rightsizer"])


def test_panels_do_not_overlap() -> None:
    """Ids are unique, and no two panels of one level share a cell of the grid."""
    levels = [DASHBOARD["panels"], *(top.get("panels", []) for top in DASHBOARD["panels"])]
    for level in levels:
        cells: set[tuple[int, int]] = set()
        for place in (panel["gridPos"] for panel in level):
            columns = range(place["x"], place["x"] + place["w"])
            area = {(x, y) for x in columns for y in range(place["y"], place["y"] + place["h"])}
            assert not area & cells
            assert place["x"] + place["w"] <= 24
            cells |= area
    ids = [panel["id"] for level in levels for panel in level]
    assert len(set(ids)) == len(ids)


@pytest.mark.parametrize(
    ("title", "words"), [("States of $uuid", State), ("Wasted by cause", Cause)]
)
def test_every_word_has_its_color(title: str, words: type[State] | type[Cause]) -> None:
    """No state and no cause is shown in a color that Grafana made up, and none in two."""
    (panel,) = [panel for panel in PANELS if panel["title"] == title]
    colors = {
        override["matcher"]["options"]: override["properties"][0]["value"]["fixedColor"]
        for override in panel["fieldConfig"]["overrides"]
    }
    assert set(colors) == {word.value for word in words}
    assert len(set(colors.values())) == len(colors)


def test_provisioning_is_what_grafana_reads() -> None:
    """Data source and dashboards are provisioned from files, and stay as they are."""
    sources = load_yaml((GRAFANA / "provisioning/datasources/prometheus.yaml").read_text(), "s")
    assert sources.data["apiVersion"] == 1
    assert sources.data["datasources"][0]["type"] == "prometheus"
    boards = load_yaml((GRAFANA / "provisioning/dashboards/rightsizer.yaml").read_text(), "d")
    (provider,) = boards.data["providers"]
    assert (boards.data["apiVersion"], provider["type"]) == (1, "file")
    assert provider["allowUiUpdates"] is False
    assert provider["options"]["path"].startswith("/")


def test_colors_are_those_of_the_page() -> None:
    """A state looks the same in Grafana and on the agent's own page in the dark."""
    style = (ROOT / "daemon/rightsizer/publish/web/templates/page.css").read_text()
    (panel,) = [panel for panel in PANELS if panel["title"] == "States of $uuid"]
    for override in panel["fieldConfig"]["overrides"]:
        color = override["properties"][0]["value"]["fixedColor"]
        assert f"--{override['matcher']['options']}: {color};" in style
