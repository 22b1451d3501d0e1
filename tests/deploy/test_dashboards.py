"""The dashboards: up to date, accepted by the linter, linked and provisioned."""

import json
import re
import subprocess
import sys
import warnings
from importlib import import_module
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest

from dashboard_files import (
    BOARDS,
    EXCLUSIONS,
    GRAFANA,
    QUERIES,
    SELECTOR,
    excluded,
    panels_of,
)
from rightsizer.io.yaml import load_yaml
from rightsizer.model.metric import METRICS
from rightsizer.model.metric_family import MetricKind
from rightsizer.model.state import Cause, Condition, State
from rightsizer.report.labels import display_name

ROOT = GRAFANA.parent
VARIABLES = ["datasource", "cluster", "job", "instance", "uuid", "workload"]
SOURCE = {"type": "prometheus", "uid": "${datasource}"}
SUBJECTS = {
    "rightsizer-node": "instance",
    "rightsizer-gpu": "uuid",
    "rightsizer-workload": "workload",
}
TAGS = {
    "rightsizer-node": "node:$nodename",
    "rightsizer-gpu": "uuid:$uuid",
    "rightsizer-workload": "workload:$holder",
}
TARGET = 'cluster=~"$cluster", job=~"$job", instance=~"$instance"'
COLORED = [
    ("rightsizer-node", "States over time", State),
    ("rightsizer-fleet", "GPUs by state", State),
    ("rightsizer-workload", "States", State),
    ("rightsizer-node", "Wasted by cause", Cause),
    ("rightsizer-waste", "GPUs by use", Cause),
    ("rightsizer-gpu", "Conditions", Condition),
]


@pytest.fixture(params=BOARDS.values(), ids=BOARDS)
def board(request: pytest.FixtureRequest) -> dict[str, Any]:
    """Each dashboard."""
    chosen: dict[str, Any] = request.param
    return chosen


def panel_of(uid: str, title: str) -> Any:
    """A panel by its dashboard and its title."""
    (panel,) = [panel for panel in panels_of(BOARDS[uid]) if panel["title"] == title]
    return panel


def colors_of(panel: Any) -> dict[str, str]:
    """The fixed color of each series name."""
    return {
        override["matcher"]["options"]: override["properties"][0]["value"]["fixedColor"]
        for override in panel["fieldConfig"]["overrides"]
    }


def links_of(panel: Any, start: str = "/d/") -> list[str]:
    """Link targets of a panel's series and table columns, to our dashboards or elsewhere."""
    config = panel.get("fieldConfig", {})
    links = list(config.get("defaults", {}).get("links", []))
    for override in config.get("overrides", []):
        for found in override["properties"]:
            links += found["value"] if found["id"] == "links" else []
    return [link["url"] for link in links if link["url"].startswith(start)]


def test_generated_files_are_up_to_date() -> None:
    """The committed dashboards equal the generator's output, without extra files."""
    command = [sys.executable, "-m", "grafana.generate", "--check"]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.returncode == 0, f"run 'python -m grafana.generate': {result.stdout}"


def test_there_is_one_for_each_question() -> None:
    """Alerts and bookmarks use the names."""
    assert set(BOARDS) == {
        "rightsizer-fleet",
        "rightsizer-node",
        "rightsizer-gpu",
        "rightsizer-workload",
        "rightsizer-waste",
        "rightsizer-advice",
        "rightsizer-health",
        "rightsizer-estate",
    }
    assert all(board["uid"] == name for name, board in BOARDS.items())
    assert len({board["title"] for board in BOARDS.values()}) == len(BOARDS)


def test_the_sdk_reads_back_what_it_wrote(board: dict[str, Any]) -> None:
    """The file has nothing unknown to the SDK's types from Grafana's schema."""
    with warnings.catch_warnings():
        # The SDK would rather have Grafana's second schema, which Grafana 11 does not read.
        warnings.simplefilter("ignore", DeprecationWarning)
        sdk = import_module("grafana_foundation_sdk.models.dashboard")
        import_module("grafana_foundation_sdk.cog.plugins").register_default_plugins()
    encoder = import_module("grafana_foundation_sdk.cog.encoder").JSONEncoder
    written = json.loads(json.dumps(sdk.Dashboard.from_json(board), cls=encoder))
    assert written["schemaVersion"] == board["schemaVersion"]
    lost = list(missing(board, written))
    assert lost == []


def missing(wanted: Any, found: Any, place: str = "") -> list[str]:
    """Paths of the second tree that the first lacks."""
    if isinstance(wanted, dict):
        if not isinstance(found, dict):
            return [place]
        return [
            each
            for key, value in wanted.items()
            for each in missing(value, found.get(key), f"{place}.{key}")
        ]
    if isinstance(wanted, list):
        if not isinstance(found, list) or len(wanted) != len(found):
            return [place]
        pairs = enumerate(zip(wanted, found, strict=True))
        return [each for i, pair in pairs for each in missing(*pair, f"{place}[{i}]")]
    return [] if wanted == found else [place]


def test_metrics_exist() -> None:
    """Queries use metrics exported by the agent, or recorded by rules."""
    rules = load_yaml((ROOT / "config/prometheus/rules.yaml").read_text(), "rules").data
    known = {rule["record"] for group in rules["groups"] for rule in group["rules"]}
    for query in QUERIES:
        for name, _ in SELECTOR.findall(query.expression):
            assert (
                name.removesuffix("_bucket") in METRICS
                or name.startswith("process_")
                or (name in known)
            ), name


def test_target_matchers() -> None:
    """Each selector has the variables' choices, as far as its metric has these labels.

    Metrics of the fleet service belong to no node: they are selected by their cluster alone.
    """
    for query in QUERIES:
        place = (query.board, query.panel)
        is_service = place in excluded("target-job-rule") & excluded("target-instance-rule")
        for name, matchers in SELECTOR.findall(query.expression):
            if is_service:
                assert 'cluster=~"$cluster"' in matchers, query.name
                assert "$job" not in matchers, query.name
                assert "$instance" not in matchers, query.name
                continue
            assert TARGET in matchers, query.name
            metric = METRICS.get(name.removesuffix("_bucket"))
            for label in ("uuid", "workload") if metric else ():
                assert (f'{label}=~"${label}"' in matchers) is (label in metric.labels), query.name


def test_target_counter_rule() -> None:
    """Counters and histogram buckets are only read through rate or increase.

    Xids by code are the exception: a code's series begins with its first Xid, so that an increase
    would miss it.
    """
    for query in QUERIES:
        for found in SELECTOR.finditer(query.expression):
            metric = METRICS.get(found[1].removesuffix("_bucket"))
            if metric is None or found[1] == "rightsizer_xid_code_errors_total":
                continue
            is_counter = metric.kind in (MetricKind.COUNTER, MetricKind.HISTOGRAM)
            before = query.expression[: found.start()]
            assert before.endswith(("rate(", "increase(")) is is_counter, query.name


def test_target_rate_interval_rule() -> None:
    """Ranges are `$__rate_interval`, except in panels exempted with a reason."""
    for query in QUERIES:
        ranges = set(re.findall(r"\[([^\]]+)\]", query.expression))
        is_excepted = (query.board, query.panel) in excluded("target-rate-interval-rule")
        assert is_excepted or ranges <= {"$__rate_interval"}, query.name


def test_exclusions_have_reasons_and_panels() -> None:
    """An exemption has a reason, and is for an existing panel or a whole dashboard."""
    titles = {(uid, panel["title"]) for uid, each in BOARDS.items() for panel in panels_of(each)}
    for rule, exclusion in EXCLUSIONS.items():
        assert len(exclusion["reason"].split()) > 3, rule
        for entry in exclusion["entries"]:
            assert entry["dashboard"] in BOARDS
            assert "panel" not in entry or (entry["dashboard"], entry["panel"]) in titles


def test_variables_without_a_choice_are_hidden() -> None:
    """If nodes cannot be chosen, their variables are hidden and only passed on by links."""
    for uid, each in BOARDS.items():
        asked = json.dumps([*panels_of(each)])
        for variable in each["templating"]["list"]:
            if variable["name"] in {"job", "instance"}:
                is_asked = f'=~\\"${variable["name"]}\\"' in asked
                assert (variable.get("hide", 0) == 0) is is_asked, (uid, variable["name"])


def test_panel_rules(board: dict[str, Any]) -> None:
    """Each panel has a title, description, unit, no-data text, source and query."""
    panels = list(panels_of(board))
    assert len({panel["title"] for panel in panels}) == len(panels)
    for panel in panels:
        assert panel["title"]
        assert panel["description"].endswith("."), panel["title"]
        if (board["uid"], panel["title"]) in excluded("panel-no-targets-rule"):
            assert panel["type"] == "text"
            continue
        defaults = panel["fieldConfig"]["defaults"]
        assert defaults["unit"], panel["title"]
        assert defaults["noValue"], panel["title"]
        assert panel["targets"], panel["title"]
        for source in (panel["datasource"], *(t["datasource"] for t in panel["targets"])):
            assert source == SOURCE
        letters = [target["refId"] for target in panel["targets"]]
        assert len(set(letters)) == len(letters)


def test_several_thresholds_have_a_reason(board: dict[str, Any]) -> None:
    """The description explains each color threshold."""
    for panel in panels_of(board):
        steps = panel.get("fieldConfig", {}).get("defaults", {}).get("thresholds", {})
        if len(steps.get("steps", [])) > 1:
            words = ("Red ", "Amber ", "Blue ", "Green ", "Shaded ")
            assert any(word in panel["description"] for word in words), panel["title"]


def test_series_have_legends(board: dict[str, Any]) -> None:
    """Time series and strips name their series by a subset of their labels."""
    for panel in panels_of(board):
        if panel["type"] in {"timeseries", "state-timeline"}:
            assert panel["options"]["legend"]["showLegend"], panel["title"]
            assert all(t["legendFormat"] != "__auto" for t in panel["targets"]), panel["title"]


def test_template_rules(board: dict[str, Any]) -> None:
    """All dashboards have the same variables, so that links can pass them on."""
    found = {variable["name"]: variable for variable in board["templating"]["list"]}
    assert list(found)[:6] == VARIABLES
    assert set(found) - set(VARIABLES) <= {"window", "nodename", "holder", "scheme"}
    assert (found["datasource"]["label"], found["datasource"]["query"]) == (
        "Data Source",
        "prometheus",
    )
    for name in VARIABLES[1:]:
        variable = found[name]
        assert variable["datasource"]["uid"] == "${datasource}"
        is_one = SUBJECTS.get(board["uid"]) == name
        assert (variable["multi"], variable["includeAll"]) == (not is_one, not is_one)
        assert variable["refresh"] == 2
        # A label absent from some series must not exclude them.
        everything = ".*" if name in {"cluster", "workload"} else ".+"
        assert variable.get("allValue") == (None if is_one else everything)


def test_every_variable_of_a_query_is_there(board: dict[str, Any]) -> None:
    """Queries use existing variables only, and every variable is used."""
    asked = set(re.findall(r"\$\{?(?!__)([a-z]\w*)", json.dumps([*panels_of(board)])))
    there = {variable["name"] for variable in board["templating"]["list"]}
    assert asked <= there
    assert {"window"} & there <= asked


def test_drill_down_leads_somewhere(board: dict[str, Any]) -> None:
    """Links go to our dashboards, keep source, cluster, job and time, and set known values."""
    for panel in panels_of(board):
        for url in links_of(panel):
            parts = urlsplit(url)
            assert parts.path.removeprefix("/d/") in BOARDS
            for kept in ("datasource", "cluster", "job", "scheme"):
                assert f"${{{kept}:queryparam}}" in parts.query
            assert parts.query.endswith("${__url_time_range}")
            given = [name for name, _ in parse_qsl(parts.query) if name.startswith("var-")]
            assert given
            assert {name.removeprefix("var-") for name in given} <= set(VARIABLES)


def test_columns_are_there(board: dict[str, Any]) -> None:
    """Columns that a table renames, formats and links exist under Grafana's names.

    The values of a single query are `Value`, those of several `Value #A` and so on.
    """
    for panel in panels_of(board):
        if panel["type"] != "table" or panel["transformations"][0]["id"] != "merge":
            continue
        options = panel["transformations"][-1]["options"]
        letters = [target["refId"] for target in panel["targets"]]
        values = {f"Value #{letter}" for letter in letters} if len(letters) > 1 else {"Value"}
        named = {name for name in options["indexByName"] if name.startswith("Value")}
        assert named == values - set(options["excludeByName"]), panel["title"]
        columns = {options["renameByName"].get(name, name) for name in options["indexByName"]}
        overridden = {each["matcher"]["options"] for each in panel["fieldConfig"]["overrides"]}
        assert overridden <= columns | {"/.+/"}, panel["title"]
        for url in (*links_of(panel), *links_of(panel, "${scheme}://")):
            assert set(re.findall(r"__data\.fields\.(\w+)", url)) <= columns, panel["title"]


def test_every_dashboard_is_reached(board: dict[str, Any]) -> None:
    """Each lists all others by their tag, keeping variables and time."""
    (link,) = board["links"]
    assert (link["type"], link["tags"]) == ("dashboards", ["rightsizer"])
    assert (link["includeVars"], link["keepTime"]) == (True, True)
    assert "rightsizer" in board["tags"]


def test_dashboard_is_not_editable(board: dict[str, Any]) -> None:
    """Changes are made in the generator."""
    assert board["editable"] is False


def test_annotations_are_those_of_the_boards_subject(board: dict[str, Any]) -> None:
    """Boards that show everything have them off; those from metrics are an alternative."""
    posted, *queries = board["annotations"]["list"]
    subject = TAGS.get(board["uid"])
    assert posted["target"]["type"] == "tags"
    assert posted["target"]["tags"] == ["rightsizer", *filter(None, [subject])]
    assert posted["target"]["matchAny"] is False
    assert posted["enable"] is (subject is not None)
    variables = {variable["name"] for variable in board["templating"]["list"]}
    assert set(re.findall(r"\$(\w+)", str(subject))) <= variables
    assert [query["enable"] for query in queries] == [False, False]
    assert all(query["datasource"] == SOURCE and query["expr"] for query in queries)


def test_panels_do_not_overlap(board: dict[str, Any]) -> None:
    """Ids are unique, and no two panels of one level share a cell of the grid."""
    levels = [board["panels"], *(top.get("panels", []) for top in board["panels"])]
    for level in levels:
        cells: set[tuple[int, int]] = set()
        for place in (panel["gridPos"] for panel in level):
            columns = range(place["x"], place["x"] + place["w"])
            area = {(x, y) for x in columns for y in range(place["y"], place["y"] + place["h"])}
            assert not area & cells, place
            assert place["x"] + place["w"] <= 24
            assert place["w"] >= 4, "narrower than 240 pixels on a screen of 1440"
            cells |= area
    ids = [panel["id"] for level in levels for panel in level]
    assert len(set(ids)) == len(ids)


@pytest.mark.parametrize(("uid", "title", "words"), COLORED)
def test_every_word_has_its_color(uid: str, title: str, words: type[State | Cause]) -> None:
    """States, causes and conditions have fixed colors, one each."""
    colors = colors_of(panel_of(uid, title))
    assert set(colors) - {"used"} == {word.value for word in words}
    assert len(set(colors.values())) == len(colors)


@pytest.mark.parametrize("uid", ["rightsizer-node", "rightsizer-gpu", "rightsizer-workload"])
def test_the_strip_has_a_number_for_each_state(uid: str) -> None:
    """The mapping names the query's numbers, with the state's usual color."""
    (strip,) = [panel for panel in panels_of(BOARDS[uid]) if panel["type"] == "state-timeline"]
    (mapping,) = strip["fieldConfig"]["defaults"]["mappings"]
    numbered = re.findall(r'vector\((\d+)\), "state", "(\w+)"', strip["targets"][0]["expr"])
    colors = colors_of(panel_of("rightsizer-node", "States over time"))
    assert {number: (display_name(state), colors[state]) for number, state in numbered} == {
        number: (named["text"], named["color"]) for number, named in mapping["options"].items()
    }
    assert {state for _, state in numbered} == set(State)


def test_colors_are_those_of_the_page() -> None:
    """A state has the color of the agent's own page in dark mode."""
    templates = ROOT / "daemon/rightsizer/web/templates"
    style = "".join(path.read_text() for path in templates.glob("*.css"))
    for state, color in colors_of(panel_of("rightsizer-node", "States over time")).items():
        assert f"--{state}: {color};" in style


def test_money_is_at_the_agents_prices() -> None:
    """Alike on all boards: exported savings, or time at the exported price of its device."""
    for query in QUERIES:
        panel = panel_of(query.board, query.panel)
        if panel["fieldConfig"]["defaults"]["unit"].startswith("currency"):
            assert "_dollars_per_hour{" in query.expression, query.name


def test_provisioning_is_what_grafana_reads() -> None:
    """Data source and dashboards are provisioned from read-only files."""
    sources = load_yaml((GRAFANA / "provisioning/datasources/prometheus.yaml").read_text(), "s")
    assert sources.data["apiVersion"] == 1
    assert sources.data["datasources"][0]["type"] == "prometheus"
    boards = load_yaml((GRAFANA / "provisioning/dashboards/rightsizer.yaml").read_text(), "d")
    (provider,) = boards.data["providers"]
    assert (boards.data["apiVersion"], provider["type"]) == (1, "file")
    assert provider["allowUiUpdates"] is False
    assert provider["options"]["path"].startswith("/")


def test_documentation_names_every_dashboard() -> None:
    """Each has a heading with its title, and its uid."""
    text = (ROOT / "docs" / "dashboards.md").read_text()
    for uid, each in BOARDS.items():
        assert f"## {each['title'].removeprefix('Rightsizer / ')}\n" in text
        assert f"`{uid}`" in text
