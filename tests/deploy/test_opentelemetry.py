"""The collector's configuration: renamed metrics are exported, with the labels used."""

import copy
import json
import re
from pathlib import Path
from typing import Any, Final

import pytest

from json_schema import faults
from prometheus_server import promtool
from publish_reports import full_report
from rightsizer.exposition.exposition import MetricsExposition
from rightsizer.exposition.settings import MetricsSettings
from rightsizer.io.yaml import load_yaml
from rightsizer.model.metric import METRICS
from rightsizer.model.metric_family import DEFAULT_COLLECTORS, Level
from sample_devices import NOW

ROOT: Final = Path(__file__).parents[2]
SCHEMAS: Final = Path(__file__).with_name("schemas")
FILE: Final = ROOT / "config" / "opentelemetry" / "collector.yaml"
CONFIGURATION: Final[dict[str, Any]] = load_yaml(FILE.read_text("utf-8"), FILE.name).data
TRANSFORMS: Final = CONFIGURATION["processors"]["metrics_transform"]["transforms"]
UNITS: Final = {
    "hw.gpu.utilization": "ratio",
    "hw.gpu.memory.usage": "bytes",
    "hw.gpu.memory.limit": "bytes",
    "hw.power": "watts",
    "hw.energy": "joules",
    "hw.temperature": "celsius",
    "hw.errors": "errors",
}
"""From opentelemetry.io/docs/specs/semconv/hardware, in development."""
BOARD_12239: Final = (
    "DCGM_FI_DEV_GPU_TEMP",
    "DCGM_FI_DEV_POWER_USAGE",
    "DCGM_FI_DEV_SM_CLOCK",
    "DCGM_FI_DEV_GPU_UTIL",
    "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE",
    "DCGM_FI_DEV_FB_USED",
)
"""Metrics queried by NVIDIA's dashboard."""


def test_every_part_of_the_pipeline_is_configured() -> None:
    """A collector refuses to start otherwise."""
    (pipeline,) = CONFIGURATION["service"]["pipelines"].values()
    for kind, names in pipeline.items():
        assert set(names) == set(CONFIGURATION[kind])


def test_every_key_is_one_of_its_component() -> None:
    """By the schemas that the components publish; a collector refuses others."""
    schema = json.loads((SCHEMAS / "opentelemetry_collector.json").read_text("utf-8"))
    assert faults(schema, CONFIGURATION) == []
    wrong = copy.deepcopy(CONFIGURATION)
    wrong["processors"]["metrics_transform"]["transforms"][0]["newname"] = "hw.power"
    wrong["exporters"]["otlp_http"]["sending_queue"]["batch"]["timeout"] = "1s"
    assert len(faults(schema, wrong)) == 2


def test_scrapes_are_read_by_prometheus(tmp_path: Path) -> None:
    """The receiver takes Prometheus' own configuration, which Prometheus' own checker accepts."""
    file = tmp_path / "prometheus.yml"
    file.write_text(json.dumps(CONFIGURATION["receivers"]["prometheus"]["config"]))
    checked = promtool("check", "config", file)
    assert checked.returncode == 0, checked.stdout + checked.stderr


@pytest.mark.parametrize(
    "transform", TRANSFORMS, ids=[transform["include"] for transform in TRANSFORMS]
)
def test_renamed_metrics_are_exported_by_default(transform: dict[str, Any]) -> None:
    """In the unit of the convention, with every renamed label."""
    metric = METRICS[transform["include"]]
    assert metric.collector in DEFAULT_COLLECTORS
    assert metric.level.rank <= Level.STANDARD.rank
    unit = UNITS[transform["new_name"]]
    assert re.search(rf"_{unit}(_total)?$", metric.name)
    renamed = {each["label"] for each in transform["operations"] if "label" in each}
    assert renamed <= set(metric.labels)
    assert transform["action"] == "insert"
    added = {each["new_label"]: each.get("new_value") for each in transform["operations"]}
    assert added["hw.type"] == "gpu"
    assert "hw.id" in added


def test_the_page_has_every_name() -> None:
    """In its table, row by row."""
    page = (ROOT / "docs" / "alerts.md").read_text("utf-8")
    for transform in TRANSFORMS:
        assert f"| `{transform['include']}` | `{transform['new_name']}` |" in page


def test_the_board_for_dcgm_exporter_finds_its_metrics() -> None:
    """By the labels that it selects."""
    report = full_report()
    exposition = MetricsExposition(
        lambda: report, MetricsSettings(dcgm=True), wall_time=lambda: NOW, hostname="node-7"
    )
    page = exposition.render_dcgm().body.decode()
    for name in BOARD_12239:
        lines = [line for line in page.splitlines() if line.startswith(f"{name}{{")]
        assert lines, name
        assert all('gpu="' in line and 'Hostname="node-7"' in line for line in lines)
