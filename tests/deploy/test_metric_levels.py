"""Metric levels needed by alerts and dashboards, as documented on the page on alerts."""

import json
from pathlib import Path
from typing import Any, Final

import pytest

from grafana.levels import level_needed, setting_needed
from rightsizer.io.yaml import load_yaml
from rightsizer.model.metric_family import Level

ROOT: Final = Path(__file__).parents[2]
PAGE: Final = (ROOT / "docs" / "alerts.md").read_text("utf-8")
BOARDS: Final = ROOT / "grafana" / "dashboards"


def rules_of(name: str) -> list[dict[str, Any]]:
    """The rules of a file."""
    text = (ROOT / "config" / "prometheus" / name).read_text("utf-8")
    return [rule for group in load_yaml(text, name).data["groups"] for rule in group["rules"]]


def expressions(node: Any) -> list[str]:
    """All queries in a dashboard."""
    if isinstance(node, list):
        return [expression for each in node for expression in expressions(each)]
    if not isinstance(node, dict):
        return []
    own = [node["expr"]] if isinstance(node.get("expr"), str) else []
    return own + expressions(list(node.values()))


def test_page_names_the_alerts_of_each_level() -> None:
    """Those beyond `essential`, at which the rest works."""
    found: dict[Level, list[str]] = {level: [] for level in Level}
    for rule in rules_of("alerts.yaml"):
        found[level_needed(rule["expr"])].append(rule["alert"].removeprefix("Rightsizer"))
    assert "DeviceDown" in found[Level.ESSENTIAL]
    for level in (Level.STANDARD, Level.FULL):
        assert f"- alerts from `{level}` on: {', '.join(found[level])}." in PAGE


def test_page_counts_what_each_dashboard_has_at_each_level() -> None:
    """Answered queries out of all."""
    for path in sorted(BOARDS.glob("*.json")):
        asked = expressions(json.loads(path.read_text("utf-8")))
        ranks = [level_needed(expression).rank for expression in asked]
        cells = [f"`{path.stem}`", *(str(sum(rank <= i for rank in ranks)) for i in range(3))]
        assert f"| {' | '.join(cells)} |" in PAGE


def test_no_alert_asks_for_histograms() -> None:
    """They are a third of all series."""
    assert not any("_bucket" in rule["expr"] for rule in rules_of("alerts.yaml"))


def test_panels_beyond_the_defaults_stand_in_a_folded_row_that_names_the_setting() -> None:
    """All others have something to show at the default level, and no word of levels."""
    for path in sorted(BOARDS.glob("*.json")):
        for row in json.loads(path.read_text("utf-8"))["panels"]:
            for panel in row.get("panels") or [row]:
                setting = setting_needed(expressions(panel.get("targets", [])))
                assert (f"Needs `{setting}`" in panel.get("description", "")) is bool(setting)
                is_folded = row["type"] == "row" and row["collapsed"] and bool(row["panels"])
                assert not setting or (is_folded and row["title"].endswith(f"({setting})"))
                empty = panel.get("fieldConfig", {}).get("defaults", {}).get("noValue", "")
                assert "web.metrics.level" not in empty


@pytest.mark.parametrize(
    ("expression", "level"),
    [
        ("rightsizer_device_up", Level.ESSENTIAL),
        ("rate(rightsizer_condition_seconds_total[5m])", Level.STANDARD),
        ("rightsizer_sm_work_distribution_ratio_bucket", Level.FULL),
        ("rightsizer_topology_link_info", Level.ESSENTIAL),
        ("up", Level.ESSENTIAL),
    ],
)
def test_a_query_needs_what_it_asks_for(expression: str, level: Level) -> None:
    """A metric that is off by default is exported completely once it is on."""
    assert level_needed(expression) is level
