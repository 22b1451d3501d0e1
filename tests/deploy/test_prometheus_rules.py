"""Rules, alerts, their stories and their runbooks, judged by promtool and by the metric table."""

import re
from pathlib import Path
from typing import Any

import pytest

from prometheus_server import promtool
from rightsizer.domain.metric import METRICS
from rightsizer.edge.yaml import load_yaml

ROOT = Path(__file__).resolve().parents[2]
CONFIG = ROOT / "config" / "prometheus"
RUNBOOKS = ROOT / "docs" / "runbooks"
STORIES = sorted((CONFIG / "tests").glob("*.yaml"))


def load(path: Path) -> Any:
    """A YAML file's contents."""
    return load_yaml(path.read_text(), path.name).data


ALERTS = [rule for group in load(CONFIG / "alerts.yaml")["groups"] for rule in group["rules"]]
RULES = [rule for group in load(CONFIG / "rules.yaml")["groups"] for rule in group["rules"]]
NAMES = [alert["alert"] for alert in ALERTS]


@pytest.fixture(params=ALERTS, ids=NAMES)
def alert(request: pytest.FixtureRequest) -> dict[str, Any]:
    """Each alert."""
    chosen: dict[str, Any] = request.param
    return chosen


@pytest.mark.prometheus
@pytest.mark.parametrize("name", ["rules.yaml", "alerts.yaml"])
def test_promtool_accepts_rules(name: str) -> None:
    """Every rule parses, and no lint complains."""
    result = promtool("check", "rules", "--lint=all", "--lint-fatal", CONFIG / name)
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.prometheus
def test_promtool_accepts_scrape_configuration() -> None:
    """The snippet is a whole configuration and finds its rule files."""
    result = promtool("check", "config", CONFIG / "scrape.yaml")
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.prometheus
def test_stories_hold() -> None:
    """Each alert fires when it should, and only then."""
    result = promtool("test", "rules", *STORIES)
    assert result.returncode == 0, result.stdout + result.stderr


def test_alert_has_three_stories(alert: dict[str, Any]) -> None:
    """It fires; it does not fire just below; it is quiet where the series never existed."""
    story = load(CONFIG / "tests" / f"{alert['alert']}.yaml")
    beginnings = [test["name"].split(":")[0] for test in story["tests"]]
    assert beginnings == ["fires", "just below", "quiet"]
    verdicts = [test["alert_rule_test"] for test in story["tests"]]
    assert all(check["alertname"] == alert["alert"] for (check,) in verdicts)
    assert [len(check["exp_alerts"]) for (check,) in verdicts] == [1, 0, 0]


def test_no_story_is_left_over() -> None:
    """A story belongs to an alert, or to the recording rules."""
    assert {path.stem for path in STORIES} == {*NAMES, "rules"}


def test_alert_has_a_runbook(alert: dict[str, Any]) -> None:
    """The runbook that the alert links to exists and answers four questions."""
    name = alert["alert"]
    assert alert["annotations"]["runbook_url"].endswith(f"/docs/runbooks/{name}.md")
    lines = (RUNBOOKS / f"{name}.md").read_text().splitlines()
    assert [line for line in lines if line.startswith("#")] == [
        f"# {name}",
        "## Meaning",
        "## Impact",
        "## Diagnosis",
        "## Mitigation",
    ]


def test_no_runbook_is_left_over() -> None:
    """A runbook belongs to an alert."""
    assert {path.stem for path in RUNBOOKS.glob("*.md")} == set(NAMES)


def test_alert_says_what_it_must(alert: dict[str, Any]) -> None:
    """Common name, known severity, static summary, templated description, both links."""
    assert alert["alert"].startswith("Rightsizer")
    assert alert["labels"]["severity"] in {"critical", "warning", "info"}
    annotations = alert["annotations"]
    assert set(annotations) == {"summary", "description", "runbook_url", "dashboard_url"}
    assert "{{" not in annotations["summary"]
    assert "{{ $labels.instance }}" in annotations["description"]
    assert "/d/rightsizer-node?var-instance={{ $labels.instance }}" in annotations["dashboard_url"]
    for text in (annotations["summary"], annotations["description"]):
        assert text.endswith(".")


def test_alert_waits(alert: dict[str, Any]) -> None:
    """No alert fires before its cause has lasted five minutes."""
    minutes = {"m": 1, "h": 60}[alert["for"][-1]] * int(alert["for"][:-1])
    assert minutes >= 5


def test_findings_do_not_page() -> None:
    """Only a dead agent is critical; what a GPU could do better can wait for the morning."""
    critical = [alert["alert"] for alert in ALERTS if alert["labels"]["severity"] == "critical"]
    assert critical == ["RightsizerAgentDown"]


@pytest.mark.parametrize(
    "rule", [*RULES, *ALERTS], ids=lambda rule: rule.get("alert", rule.get("record"))
)
def test_every_metric_exists(rule: dict[str, Any]) -> None:
    """Rules speak of metrics that the agent exports, and of rules that are recorded."""
    known = {*METRICS, *(recorded["record"] for recorded in RULES), "up"}
    named = set(re.findall(r"\b[a-z_]+:[a-z0-9_:]+|\brightsizer_[a-z0-9_]+|\bup\b", rule["expr"]))
    assert named
    assert named <= known


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["record"])
def test_recorded_names_have_three_parts(rule: dict[str, Any]) -> None:
    """level:metric:operations, and no `_total` where an increase was taken."""
    level, metric, operations = rule["record"].split(":")
    assert level
    assert operations
    assert metric.startswith("rightsizer_")
    assert not metric.endswith("_total")
