"""One GPU history in every dcgm-exporter's spelling: equal states and equal holders."""

from collections.abc import Iterator
from typing import Final

import pytest
from msgspec.structs import replace

from dcgm_estate import BUSY, EMPTY, HELD, NOW, YESTERDAY, EstatePast, Phase, gpu, stored
from rightsizer.fleet.cache.day_frame import ColumnKind
from rightsizer.fleet.cache.grid import DAY
from rightsizer.fleet.model import FleetDay, FleetInventory
from rightsizer.fleet.prometheus.client import PrometheusStore
from rightsizer.fleet.source import SourceReport
from rightsizer.fleet.sources.dcgm_exporter.source import DcgmExporterSource
from rightsizer.model.state import State
from rightsizer.model.units import Nanoseconds
from rightsizer.model.workload import WorkloadClass

pytestmark = pytest.mark.prometheus

PODS: Final = ("llm-7d4b9cf5f6-b2x4z", "llm-7d4b9cf5f6-q9w7t", "llm-68c8f4d7b9-k5m2n")
"""Pods of one deployment; the third is of its next release."""
SPELLINGS: Final = {
    "current": (
        {"UUID": "", "Hostname": "node-a", "modelName": "NVIDIA H100 80GB HBM3"},
        ("pod", "namespace", "container"),
    ),
    "lowercase_host": (
        {"UUID": "", "hostname": "node-a", "modelName": "NVIDIA H100 80GB HBM3"},
        ("pod", "namespace", "container"),
    ),
    "honor_labels_off": (
        {
            "UUID": "",
            "Hostname": "node-a",
            "modelName": "NVIDIA H100 80GB HBM3",
            "pod": "nvidia-dcgm-exporter-x2v4b",
            "namespace": "gpu-operator",
            "container": "nvidia-dcgm-exporter",
            "job": "operator",
        },
        ("exported_pod", "exported_namespace", "exported_container"),
    ),
    "exporter_of_another_name": (
        {
            "UUID": "",
            "Hostname": "gpu-metrics-x2v4b",
            "NodeName": "node-a",
            "modelName": "NVIDIA H100 80GB HBM3",
            "pod": "gpu-metrics-x2v4b",
            "namespace": "ops",
            "container": "metrics",
            "job": "ops",
        },
        ("exported_pod", "exported_namespace", "exported_container"),
    ),
    "former": (
        {"uuid": "", "Hostname": "node-a", "modelName": "NVIDIA H100 80GB HBM3"},
        ("pod_name", "pod_namespace", "container_name"),
    ),
    "former_beside_its_own_pod": (
        {
            "uuid": "",
            "Hostname": "node-a",
            "modelName": "NVIDIA H100 80GB HBM3",
            "pod": "dcgm-exporter-x2v4b",
            "namespace": "monitoring",
            "container": "exporter",
        },
        ("pod_name", "pod_namespace", "container_name"),
    ),
    "target_has_a_namespace_alone": (
        {
            "UUID": "",
            "Hostname": "node-a",
            "modelName": "NVIDIA H100 80GB HBM3",
            "namespace": "monitoring",
        },
        ("pod", "exported_namespace", "container"),
    ),
    "target_has_a_pod_alone": (
        {
            "UUID": "",
            "Hostname": "node-a",
            "modelName": "NVIDIA H100 80GB HBM3",
            "pod": "gpu-metrics-x2v4b",
        },
        ("exported_pod", "namespace", "container"),
    ),
    "all_small": (
        {
            "uuid": "",
            "hostname": "node-a",
            "modelname": "NVIDIA-H100-80GB-HBM3",
            "device": "nvidia4",
        },
        ("pod", "namespace", "container"),
    ),
    "by_a_collector": (
        {"UUID": "", "k8s_node_name": "node-a", "model_name": "nvidia h100 80gb hbm3"},
        ("pod", "namespace", "container"),
    ),
    "renamed_uuid": (
        {"gpuuuid": "", "Hostname": "node-a", "modelName": "NVIDIA H100 80GB HBM3"},
        ("pod", "namespace", "container"),
    ),
    "renamed_uuid_beside_the_first": (
        {
            "UUID": "",
            "gpu_uuid": "copied",
            "Hostname": "node-a",
            "modelName": "NVIDIA H100 80GB HBM3",
        },
        ("pod", "namespace", "container"),
    ),
}


def life(names: tuple[str, str, str]) -> list[Phase]:
    """Busy under three pods in turn, then held idle by the last, then empty."""
    pod, namespace, container = names
    worked = [
        Phase(first, last, BUSY, {pod: name, namespace: "chat", container: "engine"})
        for first, last, name in ((0, 3, PODS[0]), (3, 6, PODS[1]), (6, 8, PODS[2]))
    ]
    rested = Phase(8, 16, HELD, worked[-1].labels)
    return [*worked, rested, Phase(16, 24, EMPTY)]


@pytest.fixture(scope="module")
def store() -> Iterator[PrometheusStore]:
    """A fleet in which each GPU is exported in another spelling."""
    past = EstatePast()
    for number, (spelling, (labels, names)) in enumerate(SPELLINGS.items()):
        label = next(name for name, value in labels.items() if not value)
        phases = life(names)
        if spelling == "all_small":
            phases = [
                replace(phase, values={name.lower(): value for name, value in phase.values.items()})
                for phase in phases
            ]
        past.device(phases, **{"instance": f"10.0.0.{number}:9400", **labels, label: gpu(number)})
    with stored(past) as found:
        yield found


@pytest.fixture(scope="module")
def looked(store: PrometheusStore) -> tuple[SourceReport, FleetInventory, FleetDay]:
    """Result of the source."""
    source = DcgmExporterSource()
    lookback = Nanoseconds(DAY)
    report = source.probe(store, NOW, lookback)
    estate = source.inventory(store, report, NOW, lookback)
    return report, estate, source.day(store, report, list(estate.devices.values()), YESTERDAY)


@pytest.mark.parametrize("number", range(len(SPELLINGS)), ids=SPELLINGS)
def test_each_spelling_gives_the_same_states(
    looked: tuple[SourceReport, FleetInventory, FleetDay], number: int
) -> None:
    """Each has eight busy hours, eight held idle, and eight empty."""
    track = looked[2].frames[gpu(number)]
    hours = {
        state: sum(track.columns[ColumnKind.STATE.column(state)]) / 3600
        for state in State
        if state is not State.UNKNOWN
    }
    at_work = hours.pop(State.COMPUTE_BOUND)
    held = hours.pop(State.IDLE_HELD)
    empty = hours.pop(State.IDLE_EMPTY)
    assert (at_work, held, empty) == pytest.approx((8, 8, 8), abs=0.1)
    assert sum(hours.values()) == pytest.approx(0, abs=0.1)


@pytest.mark.parametrize("number", range(len(SPELLINGS)), ids=SPELLINGS)
def test_pods_of_a_deployment_are_one_workload(
    looked: tuple[SourceReport, FleetInventory, FleetDay], number: int
) -> None:
    """Three successive pods make one uninterrupted history."""
    (run,) = looked[2].holdings[gpu(number)]
    assert run.workload.key == "kubernetes:chat/llm"
    assert run.workload.workload_class is WorkloadClass.SERVING
    assert (run.first, run.last, run.share_ratio) == (0, 191, 1.0)


@pytest.mark.parametrize("number", range(len(SPELLINGS)), ids=SPELLINGS)
def test_each_spelling_gives_the_same_device(
    looked: tuple[SourceReport, FleetInventory, FleetDay], number: int
) -> None:
    """It has its board, node and memory."""
    found = looked[1].devices[gpu(number)]
    assert (found.device.board, found.node) == ("H100-SXM5-80GB", "node-a")
    assert found.device.memory_total_bytes == pytest.approx(81_440 * 2**20)


def test_the_probe_tells_what_is_there(
    looked: tuple[SourceReport, FleetInventory, FleetDay],
) -> None:
    """Devices, age, resolution and tier are reported."""
    report = looked[0]
    assert (report.devices, str(report.tier)) == (len(SPELLINGS), "profiling")
    assert report.resolution_seconds == pytest.approx(60, rel=0.05)
    assert report.oldest is not None
    assert report.oldest - YESTERDAY.start <= 2 * 3600 * 10**9
