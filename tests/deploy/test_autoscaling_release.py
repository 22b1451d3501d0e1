"""The recipes that release idle quota: their queries, run by Prometheus' own engine."""

import json
from pathlib import Path
from typing import Any, Final

import pytest
from msgspec import Struct
from msgspec.structs import replace

from prometheus_server import promtool
from rightsizer.advice.rules.idle import IdleSettings
from rightsizer.io.yaml import load_yaml
from rightsizer.model.units import parse_duration

RECIPES: Final = Path(__file__).parents[2] / "config" / "kubernetes" / "autoscaling"
_HOURS: Final = 3 * 240
"""Samples of three hours: the rules are evaluated four times a minute."""


class Release(Struct, frozen=True):
    """A recipe, and its workload in kube-state-metrics."""

    file: str
    kind: str
    grace_seconds: float

    @property
    def spec(self) -> dict[str, Any]:
        """The specification for KEDA."""
        found: dict[str, Any] = load_yaml((RECIPES / self.file).read_text("utf-8"), self.file).data[
            "spec"
        ]
        return found

    @property
    def query(self) -> str:
        """The query of its first trigger."""
        text: str = self.spec["triggers"][0]["metadata"]["query"]
        return text

    @property
    def window(self) -> str:
        """The query's time range."""
        return self.query.partition("[")[2].partition("]")[0]


NOTEBOOK: Final = Release(
    "keda-release-notebook.yaml", "statefulset", IdleSettings().notebook_seconds
)
SERVING: Final = Release("keda-release-serving.yaml", "deployment", IdleSettings().serving_seconds)
BOTH: Final = pytest.mark.parametrize("release", [NOTEBOOK, SERVING], ids=["notebook", "serving"])


class ReplicaSeries(Struct, frozen=True):
    """Three hours of two devices of two replicas, in promtool's notation of series."""

    work: str = f"0x{_HOURS}"
    devices: str = f"2x{_HOURS}"
    read: str = f"2x{_HOURS}"
    ready: str = f"2x{_HOURS}"
    replicas: str = f"2x{_HOURS}"

    def series(self, release: Release) -> list[dict[str, str]]:
        """The series in the store; empty ones are absent."""
        target = release.spec["scaleTargetRef"]["name"]
        space = "notebooks" if release is NOTEBOOK else "production"
        own = f'namespace="{space}", workload_name="{target}"'
        state = f'namespace="{space}", {release.kind}="{target}"'
        values_of = {
            f"namespace_workload:rightsizer_sm_work_ratio:sum{{{own}}}": self.work,
            f"namespace_workload:rightsizer_devices:count{{{own}}}": self.devices,
            f"namespace_workload:rightsizer_devices_read:count{{{own}}}": self.read,
            f"kube_{release.kind}_status_replicas_ready{{{state}}}": self.ready,
            f"kube_{release.kind}_status_replicas{{{state}}}": self.replicas,
        }
        return [{"series": name, "values": values} for name, values in values_of.items() if values]


IDLE: Final = ReplicaSeries()
CASES: Final[dict[str, tuple[ReplicaSeries, float | None]]] = {
    "idle for all of it": (IDLE, 0.0),
    "at work a while ago": (replace(IDLE, work=f"0x{_HOURS - 60} 0.5 0x59"), 1.0),
    "a device that gave no reading": (replace(IDLE, read=f"2x{_HOURS - 60} 1x3 2x55"), 1.0),
    "a gap without any reading": (
        replace(IDLE, read=f"2x{_HOURS - 60} _x40 2x20", work=f"0x{_HOURS - 60} _x40 0x20"),
        1.0,
    ),
    "an agent that is gone": (
        replace(IDLE, devices=f"1x{_HOURS}", read=f"1x{_HOURS}"),
        1.0,
    ),
    "all agents gone": (replace(IDLE, work="", devices="", read=""), 1.0),
    "just begun": (
        replace(
            IDLE,
            work=f"_x{_HOURS - 20} 0x20",
            devices=f"_x{_HOURS - 20} 2x20",
            read=f"_x{_HOURS - 20} 2x20",
        ),
        1.0,
    ),
    "gone long ago": (
        ReplicaSeries(work="", devices="", read="", ready=f"0x{_HOURS}", replicas=f"0x{_HOURS}"),
        0.0,
    ),
    "a store that knows nothing": (ReplicaSeries("", "", "", "", ""), None),
}


@pytest.mark.prometheus
@BOTH
@pytest.mark.parametrize("name", CASES)
def test_only_what_was_seen_to_be_idle_all_the_time_is_let_go(
    release: Release, name: str, tmp_path: Path
) -> None:
    """Unknown states keep the workload, and no answer at all is an error to KEDA."""
    case, expected = CASES[name]
    samples = [] if expected is None else [{"labels": "{}", "value": expected}]
    test = {
        "interval": "15s",
        "input_series": case.series(release),
        "promql_expr_test": [
            {"expr": release.query, "eval_time": "3h", "exp_samples": samples},
        ],
    }
    file = tmp_path / "story.json"
    file.write_text(json.dumps({"rule_files": [], "evaluation_interval": "15s", "tests": [test]}))

    result = promtool("test", "rules", file)

    assert result.returncode == 0, result.stdout + result.stderr


@BOTH
def test_the_wait_is_the_grace_of_the_class(release: Release) -> None:
    """Window and cooldown together equal the waiting time of advice."""
    spec = release.spec
    assert parse_duration(release.window) + spec["cooldownPeriod"] == release.grace_seconds


@BOTH
def test_nearly_every_sample_of_the_window_must_be_there(release: Release) -> None:
    """A missed scrape or two are tolerated; a missing tenth is not."""
    expected = parse_duration(release.window) / 15.0
    least = float(release.query.partition("count_over_time")[2].partition(">=")[2].split(")")[0])
    assert 0.9 * expected <= least < expected


@BOTH
def test_all_replicas_are_kept_or_none(release: Release) -> None:
    """The answer 1 requests the maximum number of replicas."""
    spec = release.spec
    for trigger in spec["triggers"]:
        assert 1.0 / float(trigger["metadata"]["threshold"]) == spec["maxReplicaCount"]
    assert spec["fallback"]["replicas"] == spec["maxReplicaCount"]
    assert spec["minReplicaCount"] == 0
