"""Rules, alerts, their stories and runbooks, checked by promtool and the table of metrics."""

import json
import re
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from alertmanager_server import amtool
from dashboard_files import BOARDS
from prometheus_server import promtool
from rightsizer.advice.rules.hardware_unhealthy import SHARED_XIDS
from rightsizer.io.yaml import load_yaml
from rightsizer.model.driver_codes import CRITICAL_XIDS
from rightsizer.model.finding import Reason
from rightsizer.model.metric import METRICS
from rightsizer.model.metric_family import MetricKind
from rightsizer.notify.webhook.encoder import ALERT_NAME

pytestmark = pytest.mark.timeout(240)

ROOT = Path(__file__).resolve().parents[2]
CONFIG = ROOT / "config" / "prometheus"
RUNBOOKS = ROOT / "docs" / "runbooks"
GUIDE = (ROOT / "docs" / "alerts.md").read_text("utf-8")
RULE_TESTS = sorted((CONFIG / "tests").glob("*.yaml"))


def load(path: Path) -> Any:
    """A YAML file's contents."""
    return load_yaml(path.read_text(), path.name).data


ALERTS = [rule for group in load(CONFIG / "alerts.yaml")["groups"] for rule in group["rules"]]
RULES = [rule for group in load(CONFIG / "rules.yaml")["groups"] for rule in group["rules"]]
NAMES = [alert["alert"] for alert in ALERTS]


@pytest.mark.parametrize("name", ["rules.yaml", "alerts.yaml"])
def test_a_ruler_of_mimir_takes_every_group(name: str) -> None:
    """Its default of ruler_max_rules_per_rule_group is 20."""
    sizes = {group["name"]: len(group["rules"]) for group in load(CONFIG / name)["groups"]}
    assert max(sizes.values()) <= 20, sizes


@pytest.mark.prometheus
@pytest.mark.parametrize("name", ["rules.yaml", "alerts.yaml"])
def test_promtool_accepts_rules(name: str) -> None:
    """Every rule parses without lint warnings."""
    result = promtool("check", "rules", "--lint=all", "--lint-fatal", CONFIG / name)
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.prometheus
def test_promtool_accepts_scrape_configuration() -> None:
    """The snippet is a complete configuration and finds its rule files."""
    result = promtool("check", "config", CONFIG / "scrape.yaml")
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str, str]:
    """The folder of all stories, and the output of the one run of promtool that evaluates them."""
    folder = tmp_path_factory.mktemp("stories")
    documents = {name: load(CONFIG / name) for name in ("rules.yaml", "alerts.yaml")}
    for rule_test in RULE_TESTS:
        tests = folder / rule_test.stem / "tests"
        tests.mkdir(parents=True)
        for rules in load(rule_test)["rule_files"]:
            # JSON is YAML.
            narrowed = _narrow(documents[Path(rules).name], rule_test.stem)
            (tests / rules).resolve().write_text(json.dumps(narrowed))
        (tests / rule_test.name).write_text(rule_test.read_text())
    stories = sorted(folder.glob("*/tests/*.yaml"))
    result = promtool("test", "rules", *stories, timeout_seconds=200.0)
    return folder, result.stdout, result.stderr


@pytest.mark.prometheus
@pytest.mark.parametrize("name", [path.stem for path in RULE_TESTS])
def test_story_holds(told: tuple[Path, str, str], name: str) -> None:
    """The alert fires when it should, and only then."""
    folder, stdout, stderr = told
    story = folder / name / "tests" / f"{name}.yaml"
    assert f"Unit Testing:  {story}\n  SUCCESS\n" in stdout, stderr


def _narrow(document: Any, name: str) -> Any:
    """Only the named alert, if the name is an alert's: promtool evaluates all at each step."""
    if name not in NAMES:
        return document
    groups = [
        group | {"rules": [rule for rule in group["rules"] if rule.get("alert", name) == name]}
        for group in document["groups"]
    ]
    return document | {"groups": groups}


def test_alert_has_three_stories() -> None:
    """It fires; it does not fire just below; it is quiet if the series never existed."""
    for alert in ALERTS:
        rule_test = load(CONFIG / "tests" / f"{alert['alert']}.yaml")
        beginnings = [test["name"].split(":")[0] for test in rule_test["tests"]]
        assert list(dict.fromkeys(beginnings)) == ["fires", "just below", "quiet"], alert["alert"]
        for beginning, test in zip(beginnings, rule_test["tests"], strict=True):
            (check,) = test["alert_rule_test"]
            assert check["alertname"] == alert["alert"], alert["alert"]
            assert len(check["exp_alerts"]) == (1 if beginning == "fires" else 0), alert["alert"]


def test_no_story_is_left_over() -> None:
    """A story belongs to an alert, or to the recording rules."""
    assert {path.stem for path in RULE_TESTS} == {*NAMES, "rules"}


def test_alert_has_a_runbook() -> None:
    """The runbook linked by the alert exists and answers four questions."""
    for alert in ALERTS:
        name = alert["alert"]
        assert alert["annotations"]["runbook_url"].endswith(f"/docs/runbooks/{name}.md"), alert[
            "alert"
        ]
        lines = (RUNBOOKS / f"{name}.md").read_text().splitlines()
        assert [line for line in lines if line.startswith("#")] == [
            f"# {name}",
            "## Meaning",
            "## Impact",
            "## Diagnosis",
            "## Mitigation",
        ], alert["alert"]


def test_no_runbook_is_left_over() -> None:
    """A runbook belongs to an alert."""
    assert {path.stem for path in RUNBOOKS.glob("*.md")} == set(NAMES)


def test_alert_says_what_it_must() -> None:
    """Common name, known severity, a summary and description with the subject, both links.

    The dashboard is one of ours and shows the alert's subject.
    """
    for alert in ALERTS:
        assert alert["alert"].startswith("Rightsizer"), alert["alert"]
        assert alert["labels"]["severity"] in {"critical", "warning", "info"}, alert["alert"]
        annotations = alert["annotations"]
        assert set(annotations) == {"summary", "description", "runbook_url", "dashboard_url"}, (
            alert["alert"]
        )
        summary = annotations["summary"]
        is_of_a_node = alert["alert"] != "RightsizerAgentsGone"
        assert ('{{ $labels.instance | reReplaceAll ":[0-9]+$" "" }}' in summary) is is_of_a_node, (
            alert["alert"]
        )
        if "$labels.uuid" in annotations["description"]:
            assert summary.startswith('{{ with printf "rightsizer_device_info{uuid=%q}"'), alert[
                "alert"
            ]
            assert "rightsizer_workload_share_ratio{uuid=%q}" in summary, alert["alert"]
        # If all agents are gone, there is no instance label.
        subject = "job" if alert["alert"] == "RightsizerAgentsGone" else "instance"
        assert f"{{{{ $labels.{subject} }}}}" in annotations["description"], alert["alert"]
        dashboard = urlsplit(annotations["dashboard_url"])
        uid = dashboard.path.removeprefix("/d/")
        assert uid in BOARDS, alert["alert"]
        assert uid == "rightsizer-estate" or dashboard.query.startswith(
            f"var-{subject}={{{{ $labels.{subject} }}}}"
        ), alert["alert"]
        for text in (annotations["summary"], annotations["description"]):
            assert text.endswith("."), alert["alert"]


def test_alert_waits() -> None:
    """Alerts wait five minutes at least, except those on single events."""
    for alert in ALERTS:
        minutes = {"m": 1, "h": 60}[alert["for"][-1]] * int(alert["for"][:-1])
        looks_back = bool(re.search(r"increase\(.+\[1h\]\) > 0", alert["expr"]))
        assert minutes >= 5 or (minutes == 0 and looks_back), alert["alert"]


def test_alert_is_documented_as_it_is() -> None:
    """The table has its severity, waiting time and reason; the runbook has the condition."""
    for alert in ALERTS:
        name = alert["alert"]
        (row,) = (line for line in GUIDE.splitlines() if line.startswith(f"| [{name}]("))
        link, severity, waits, keeps, why = (cell.strip() for cell in row[1:-1].split("|"))
        assert link == f"[{name}](runbooks/{name}.md)", alert["alert"]
        assert severity == alert["labels"]["severity"], alert["alert"]
        assert (waits, keeps) == (alert["for"], alert.get("keep_firing_for", "")), alert["alert"]
        assert why.endswith("."), alert["alert"]


def test_no_alert_is_documented_that_is_not_there() -> None:
    """The table has no other alerts."""
    assert re.findall(r"^\| \[(Rightsizer\w+)\]\(", GUIDE, re.MULTILINE) == NAMES


def test_every_recorded_rule_answers_a_question() -> None:
    """The guide names each rule once, and no others."""
    table = [line for line in GUIDE.splitlines() if line.startswith("| ") and "? |" in line]
    named = re.findall(r"`([a-z_]+:[a-z0-9_:]+)`", "\n".join(table))
    assert sorted(named) == sorted(rule["record"] for rule in RULES)


def test_long_questions_take_one_sample_in_five_minutes() -> None:
    """Rules that are not for alerts are recorded every five minutes, over those five minutes."""
    groups = [
        group
        for group in load(CONFIG / "rules.yaml")["groups"]
        if group["name"].startswith("rightsizer-long-")
    ]
    assert {group["interval"] for group in groups} == {"5m"}
    ranges = {
        span
        for group in groups
        for rule in group["rules"]
        for span in re.findall(r"\[(\w+)\]", rule["expr"])
    }
    assert ranges == {"5m"}


def test_no_rule_reads_hours_of_scrapes() -> None:
    """Longer spans use recorded five minutes, so that a thousand nodes evaluate in time."""
    for rule in RULES:
        spans = re.findall(r"([a-z0-9_:]+)(?:{[^}]*})?\[(\w+)\]", rule["expr"])
        assert all(span == "5m" or name.endswith(":increase5m") for name, span in spans), spans


def test_critical_xids_are_those_of_advice() -> None:
    """The alerts and the rule HardwareUnhealthy share the lists of critical and shared Xids."""
    shared = set(SHARED_XIDS)
    named = {
        "RightsizerGpuXidCritical": [CRITICAL_XIDS, CRITICAL_XIDS, shared, shared],
        "RightsizerNodeXidCritical": [shared, shared],
    }
    for alert in ALERTS:
        spoken = re.findall(r'xid=~"([0-9|]+)"', alert["expr"])
        found = [{int(code) for code in codes.split("|")} for codes in spoken]
        assert found == named.get(alert["alert"], []), alert["alert"]


@pytest.mark.prometheus
@pytest.mark.parametrize("alert", ALERTS, ids=NAMES)
def test_alertmanager_sends_by_severity(alert: dict[str, Any]) -> None:
    """Critical alerts page, warnings open tickets, information is not sent."""
    receivers = {"critical": "pager", "warning": "tickets", "info": "nobody"}
    labels = [f"alertname={alert['alert']}", f"severity={alert['labels']['severity']}"]
    config = ("--config.file", CONFIG / "alertmanager.yaml")
    result = amtool("config", "routes", "test", *config, *labels)
    assert result.stdout.split() == [receivers[alert["labels"]["severity"]]], result.stderr


@pytest.mark.prometheus
def test_amtool_accepts_the_example() -> None:
    """The configuration is valid."""
    result = amtool("check-config", CONFIG / "alertmanager.yaml")
    assert result.returncode == 0, result.stdout + result.stderr


def test_inhibitions_speak_of_alerts_that_exist() -> None:
    """Each source and target is an alert of ours, and each reason one of advice."""
    names = [*NAMES, ALERT_NAME]
    rules = load(CONFIG / "alertmanager.yaml")["inhibit_rules"]
    for rule in rules:
        for matcher in (*rule["source_matchers"], *rule["target_matchers"]):
            label, operator, pattern = re.fullmatch(r'(\w+)(=~|!=|=)"(.*)"', matcher).groups()
            if label == "reason":
                assert set(pattern.split("|")) <= set(Reason), matcher
            if label != "alertname":
                continue
            assert [name for name in names if re.fullmatch(pattern, name)], matcher
            if operator == "=~" and "(" in pattern:
                count = len(re.findall(r"[A-Z]\w+(?=[|)])", pattern))
                found = [name for name in names if re.fullmatch(pattern, name)]
                assert len(found) == count, matcher


@pytest.mark.prometheus
@pytest.mark.parametrize(
    ("name", "kept"),
    [
        ("rightsizer-kubernetes", [("10.0.0.1:19400", "rightsizer", "gpu-node-1")]),
        (
            "rightsizer-fleet-kubernetes",
            [("10.0.0.3:19400", "rightsizer-fleet", "gpu/rightsizer-fleet")],
        ),
    ],
)
def test_pods_become_targets(tmp_path: Path, name: str, kept: list[tuple[str, str, str]]) -> None:
    """Each Kubernetes job keeps its own pods' port and names the node, or the one service.

    Debian's Prometheus lacks this discovery, so its labels are set directly.
    """
    jobs = load(CONFIG / "scrape-kubernetes.yaml")["scrape_configs"]
    (job,) = (job for job in jobs if job["job_name"] == name)
    assert job.pop("kubernetes_sd_configs") == [{"role": "pod"}]
    label = "__meta_kubernetes_pod_label_app_kubernetes_io_name"
    pods = {
        "10.0.0.1:19400": ("rightsizer", "metrics", "gpu-node-1"),
        "10.0.0.1:9000": ("rightsizer", "other", "gpu-node-1"),
        "10.0.0.2:19400": ("vllm", "metrics", "gpu-node-1"),
        "10.0.0.3:19400": ("rightsizer-fleet", "metrics", "cpu-node-1"),
    }
    job["static_configs"] = [
        {
            "targets": [address],
            "labels": {
                label: app,
                "__meta_kubernetes_namespace": "gpu",
                "__meta_kubernetes_pod_container_port_name": port,
                "__meta_kubernetes_pod_node_name": node,
            },
        }
        for address, (app, port, node) in pods.items()
    ]
    (tmp_path / "config.yaml").write_text(json.dumps({"scrape_configs": [job]}))
    result = promtool("check", "service-discovery", "--timeout=1s", tmp_path / "config.yaml", name)
    found = json.loads(result.stdout[result.stdout.index("[") :])
    labels = [each["labels"] for each in found if each["labels"]]
    assert [(each["__address__"], each["job"], each["instance"]) for each in labels] == kept


def test_findings_do_not_page() -> None:
    """Only the loss of all agents is critical; all else can wait for the morning."""
    critical = [alert["alert"] for alert in ALERTS if alert["labels"]["severity"] == "critical"]
    assert critical == ["RightsizerAgentsGone"]


def test_every_metric_exists() -> None:
    """Rules use metrics exported by the agent, or recorded by rules."""
    known = {*METRICS, *(recorded["record"] for recorded in RULES), "up"}
    known |= {f"{name}_bucket" for name in METRICS if METRICS[name].kind is MetricKind.HISTOGRAM}
    known |= {"process_resident_memory_bytes", "process_start_time_seconds"}
    pattern = r"\b[a-z_]+:[a-z0-9_:]+|\b(?:rightsizer|process)_[a-z0-9_]+|\bup\b"
    for rule in [*RULES, *ALERTS]:
        named = set(re.findall(pattern, rule["expr"]))
        assert named, rule
        assert named <= known, rule


def test_recorded_names_have_three_parts() -> None:
    """level:metric:operations, and no `_total` after an increase."""
    for rule in RULES:
        level, metric, operations = rule["record"].split(":")
        assert level, rule["record"]
        assert operations, rule["record"]
        assert metric.startswith("rightsizer_"), rule["record"]
        assert not metric.endswith("_total"), rule["record"]
