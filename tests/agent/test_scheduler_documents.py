"""Documents on this node for schedulers: the real stack over simulated drivers."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest
from msgspec.structs import replace

from json_schema import faults
from nvml_driver import FakeDriver, installed, patient_settings
from placed_node import scenario_file
from rightsizer.agent.scheduler_documents import (
    gres_of_node,
    labels_of_node,
    resource_topology_of_node,
    timed_feature_file,
)
from rightsizer.agent.settings import Settings
from rightsizer.cli.scenario_flag import scenario_settings
from rightsizer.io.clock import FastClock
from rightsizer.model.errors import RightsizerError
from simulated_driver import hour
from sysfs_trees import write

SCHEMA: Final = Path(__file__).parents[1] / "deploy" / "schemas" / "node_resource_topology.json"


@contextmanager
def node(tmp_path: Path) -> Iterator[Settings]:
    """Seven whole GPUs, some held and one faulty, and one partitioned GPU."""
    settings = replace(Settings(), sources=replace(Settings().sources, nvml=patient_settings()))
    with scenario_settings(settings, str(scenario_file(tmp_path))) as chosen:
        yield chosen


def clock() -> FastClock:
    """Noon of the scenario's day."""
    return FastClock(hour(12))


def test_gres_has_a_line_for_each_gpu_and_names_what_it_cannot_give(tmp_path: Path) -> None:
    """A simulated node has no capability files, so its instances cannot be opened."""
    with node(tmp_path) as settings:
        lines = gres_of_node(settings, clock(), "gpu-1").splitlines()

    assert [line.split()[2] for line in lines[1:8]] == [f"File=/dev/nvidia{at}" for at in range(7)]
    assert [line.partition(" MIG")[0][:2] for line in lines[8:11]] == ["# "] * 3
    assert lines[-1].endswith("NodeName=gpu-1 Gres=gpu:nvidia_h100_80gb_hbm3:7")


def test_gres_has_instances_by_the_files_that_the_driver_tells(tmp_path: Path) -> None:
    """Each uses the GPU's file and two capabilities."""
    with node(tmp_path) as settings:
        procfs = tmp_path / "proc"
        for number in range(16):
            for place in (f"gi{number}", f"gi{number}/ci0"):
                folder = procfs / "driver/nvidia/capabilities/gpu7/mig" / place
                write(folder / "access", f"DeviceFileMinor: {100 + number}")
        path = replace(settings.path, procfs=str(procfs))
        text = gres_of_node(replace(settings, path=path), clock(), "gpu-1")

    assert text.count("MultipleFiles=/dev/nvidia7,/dev/nvidia-caps/nvidia-cap1") == 3
    assert text.endswith(
        "Gres=gpu:nvidia_h100_80gb_hbm3:7,gpu:nvidia_h100_80gb_hbm3_3g.40gb:1,"
        "gpu:nvidia_h100_80gb_hbm3_1g.10gb:2"
    )


def test_the_object_for_kubernetes_is_as_its_schema_says(tmp_path: Path) -> None:
    """A held GPU is not available."""
    with node(tmp_path) as settings:
        document = resource_topology_of_node(settings, clock(), "gpu-1")

    assert faults(json.loads(SCHEMA.read_text()), document) == []
    assert count(document, "nvidia.com/gpu", "capacity") == 7
    assert count(document, "nvidia.com/gpu", "available") == 5
    assert count(document, "nvidia.com/mig-1g.10gb", "capacity") == 2
    assert count(document, "nvidia.com/mig-3g.40gb", "available") == 1


def count(document: dict[str, Any], name: str, key: str) -> int:
    """The total of a resource over all zones."""
    return sum(
        int(each[key])
        for zone in document["zones"]
        for each in zone["resources"]
        if each["name"] == name
    )


def test_labels_tell_what_is_healthy_now(tmp_path: Path) -> None:
    """One of eight GPUs has a fatal error."""
    with node(tmp_path) as settings:
        found = labels_of_node(settings, clock())

    assert found["rightsizer.gpu-count"] == "8"
    assert found["rightsizer.gpu-healthy-count"] == "7"
    assert found["rightsizer.mig-1g.10gb"] == "2"


def test_the_file_says_until_when_its_labels_hold() -> None:
    """With the agent's own time to live."""
    text = timed_feature_file({"rightsizer.gpu-count": "8"}, Settings(), clock())

    first, second = text.splitlines()
    assert first.startswith("# +expiry-time=")
    assert first.endswith("T13:00:00Z")
    assert second == "feature.node.kubernetes.io/rightsizer.gpu-count=8"


@pytest.mark.parametrize("printed", [gres_of_node, resource_topology_of_node])
def test_a_node_without_a_driver_is_an_error_with_its_remedy(printed: Any) -> None:
    """A file without GPUs would take them from the scheduler."""
    driver = FakeDriver()
    driver.is_loaded = False
    with installed(driver), pytest.raises(RightsizerError, match="modprobe nvidia"):
        printed(Settings(), clock(), "gpu-1")
