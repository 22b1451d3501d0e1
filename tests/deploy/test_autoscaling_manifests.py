"""The autoscaling recipes are valid for Kubernetes, KEDA and the adapter."""

import copy
import json
from pathlib import Path
from typing import Any, Final

import pytest

from cases import case, window
from json_schema import faults
from prometheus_server import promtool
from readings import HOUR
from rightsizer.advice.autoscale_schedule import (
    ReplicaSchedule,
    ScalingOutcome,
    schedule_instructions,
)
from rightsizer.advice.rules import compute_saturated
from rightsizer.io.yaml import load_yaml
from rightsizer.model.state import Resource, State
from rightsizer.model.workload import Workload, WorkloadClass, WorkloadKind

ROOT: Final = Path(__file__).parents[2]
RECIPES: Final = ROOT / "config" / "kubernetes" / "autoscaling"
SCHEMAS: Final = Path(__file__).parent / "schemas"
SCHEMA_OF: Final = {
    "horizontal-pod-autoscaler.yaml": "horizontal_pod_autoscaler",
    "keda-cron.yaml": "scaled_object",
    "keda-metrics-api.yaml": "scaled_object",
    "keda-prometheus.yaml": "scaled_object",
    "keda-release-notebook.yaml": "scaled_object",
    "keda-release-serving.yaml": "scaled_object",
    "prometheus-adapter.yaml": "prometheus_adapter",
}
SCALED: Final = sorted(name for name in SCHEMA_OF if name.startswith("keda"))


def recipe(name: str) -> Any:
    """A recipe's contents."""
    return load_yaml((RECIPES / name).read_text("utf-8"), name).data


def schema(name: str) -> dict[str, Any]:
    """The schema of a recipe."""
    found: dict[str, Any] = json.loads((SCHEMAS / f"{SCHEMA_OF[name]}.json").read_text())
    return found


@pytest.mark.parametrize("name", SCHEMA_OF)
def test_recipe_is_as_its_schema_says(name: str) -> None:
    """Every key is known, and every value of its type."""
    assert faults(schema(name), recipe(name)) == []


def test_every_recipe_is_held() -> None:
    """Except rules, which promtool checks."""
    assert {path.name for path in RECIPES.glob("*.yaml")} == {*SCHEMA_OF, "rules.yaml"}


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("maxReplicas", "8"),
        ("maxReplicas", 0),
        ("minReplicaCount", 0),
        ("metrics", []),
        ("metrics", [{"type": "External"}]),
    ],
)
def test_the_schema_refuses(key: str, value: object) -> None:
    """A quoted number, a missing one, KEDA's key in an autoscaler, half a metric."""
    broken = copy.deepcopy(recipe("horizontal-pod-autoscaler.yaml"))
    broken["spec"][key] = value

    assert faults(schema("horizontal-pod-autoscaler.yaml"), broken)


def test_the_schema_refuses_a_number_where_keda_wants_text() -> None:
    """All of a trigger's metadata is text."""
    broken = copy.deepcopy(recipe("keda-prometheus.yaml"))
    broken["spec"]["triggers"][0]["metadata"]["threshold"] = 0.7

    assert faults(schema("keda-prometheus.yaml"), broken)


@pytest.mark.prometheus
def test_promtool_accepts_the_rules() -> None:
    """Every rule parses without lint warnings."""
    result = promtool("check", "rules", "--lint=all", "--lint-fatal", RECIPES / "rules.yaml")
    assert result.returncode == 0, result.stdout + result.stderr


def test_autoscaler_asks_for_metrics_that_the_adapter_has() -> None:
    """Each external metric has a rule of the adapter, and each rule is used."""
    metrics = recipe("horizontal-pod-autoscaler.yaml")["spec"]["metrics"]
    rules = recipe("prometheus-adapter.yaml")["rules"]["external"]

    assert [metric["external"]["metric"]["name"] for metric in metrics] == [
        rule["name"]["as"] for rule in rules
    ]


def test_adapter_speaks_of_rules_that_are_recorded() -> None:
    """Each series is one of ours."""
    recorded = {
        rule["record"] for group in recipe("rules.yaml")["groups"] for rule in group["rules"]
    }
    for rule in recipe("prometheus-adapter.yaml")["rules"]["external"]:
        assert rule["seriesQuery"].split('"')[1] in recorded


@pytest.mark.parametrize("name", SCALED)
def test_missing_data_is_never_idle(name: str) -> None:
    """Triggers that measure load fall back to replicas without data, and ignore errors.

    An agent does not know a workload that is gone, so a trigger based on it alone has no fallback,
    which would undo the scale-down at once. KEDA keeps the replicas on errors then.
    """
    spec = recipe(name)["spec"]
    measuring = [each for each in spec["triggers"] if each["type"] != "cron"]
    if measuring:
        asks_agents = {each["type"] for each in measuring} == {"metrics-api"}
        assert ("fallback" not in spec) is asks_agents
        assert asks_agents or spec["fallback"]["replicas"] >= 1
        assert spec["cooldownPeriod"] >= 1800
    for trigger in measuring:
        # KEDA falls back for means over replicas alone, in all of its versions.
        assert trigger["metricType"] == "AverageValue"
        if trigger["type"] == "prometheus":
            assert trigger["metadata"]["ignoreNullValues"] == "false"


@pytest.mark.parametrize("replicas", [(0,) * 8 + (1,) * 12 + (0,) * 4, (1,) * 20 + (3,) * 148])
def test_manifests_of_advice_follow_the_schema(replicas: tuple[int, ...]) -> None:
    """By day and by week; the fleet's advice and a node's are identical."""
    workload = Workload(
        "web/chat", WorkloadKind.KUBERNETES, "chat", WorkloadClass.SERVING, namespace="web"
    )
    hours = ReplicaSchedule(
        replicas, ScalingOutcome(1.0, 0.5, 0.0, 1.0), periods=14, lead_seconds=300.0
    )
    (step,) = schedule_instructions(workload, hours)

    written = load_yaml(step.text, "advice").data
    assert faults(schema("keda-cron.yaml"), written) == []
    assert {each["metadata"]["timezone"] for each in written["spec"]["triggers"]} == {"Etc/UTC"}


def test_scaling_by_waiting_requests_uses_keda() -> None:
    """As printed by the advice, and never to zero while requests are served."""
    server = Workload(
        "web/chat", WorkloadKind.KUBERNETES, "chat", WorkloadClass.SERVING, namespace="web"
    )
    busy = {Resource.COMPUTE: 4 * HOUR}
    pressed = window({State.COMPUTE_BOUND: 6}, saturated=busy, pressed=busy)
    (step,) = compute_saturated.RULE.judge(case([pressed], server)).instructions

    written = load_yaml(step.text, "advice").data
    assert faults(schema("keda-prometheus.yaml"), written) == []
    assert written["spec"]["minReplicaCount"] == 1


def test_every_recipe_is_documented() -> None:
    """The guide names each file."""
    guide = (ROOT / "docs" / "autoscaling.md").read_text("utf-8")
    for path in RECIPES.glob("*.yaml"):
        assert f"`{path.name}`" in guide, path.name
