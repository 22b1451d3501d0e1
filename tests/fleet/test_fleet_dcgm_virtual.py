"""GPUs shared by pods, as dcgm-exporter exports them with `--kubernetes-virtual-gpus`."""

from collections.abc import Iterator, Mapping
from typing import Final

import pytest

from dcgm_estate import NOW, YESTERDAY, EstatePast, Phase, gpu, stored
from rightsizer.fleet.cache.day_frame import ColumnKind
from rightsizer.fleet.cache.grid import DAY
from rightsizer.fleet.model import FleetDay
from rightsizer.fleet.prometheus.client import PrometheusStore
from rightsizer.fleet.sources.dcgm_exporter.source import DcgmExporterSource
from rightsizer.model.block import Measure

pytestmark = pytest.mark.prometheus

WHOLE: Final = {"DCGM_FI_DEV_GPU_UTIL": 90, "DCGM_FI_DEV_FB_USED": 60_000}
"""Series of the device; those that follow are the pods' parts of it."""
PARTS: Final = (
    {"DCGM_FI_DEV_GPU_UTIL": 60, "DCGM_FI_DEV_FB_USED": 40_000},
    {"DCGM_FI_DEV_GPU_UTIL": 30, "DCGM_FI_DEV_FB_USED": 20_000},
    {"DCGM_FI_DEV_GPU_UTIL": 0, "DCGM_FI_DEV_FB_USED": 0},
)
UNDIVIDED: Final = {"DCGM_FI_DEV_FB_FREE": 21_000, "DCGM_FI_DEV_POWER_USAGE": 500}
HONORED: Final = ("pod", "namespace", {})
EXPORTED: Final = (
    "exported_pod",
    "exported_namespace",
    {"pod": "nvidia-dcgm-exporter-x2v4b", "namespace": "gpu-operator", "job": "operator"},
)


def pod(number: int, names: tuple[str, str, Mapping[str, str]]) -> dict[str, str]:
    """The labels of a pod's series."""
    name, namespace, beside = names
    labels = {name: f"engine-{number}", namespace: "chat", "vgpu": str(number)}
    return {**beside, **labels, "pod_uid": f"a9c80282-{number}"}


@pytest.fixture(scope="module")
def store() -> Iterator[PrometheusStore]:
    """Four GPUs: shared by three, held by one, shared under another scrape, and shared before 4.6.

    internal/pkg/transformation/kubernetes_test.go of NVIDIA/dcgm-exporter 4.6.0-4.8.3 (#594): for
    utilization and memory, a GPU in use has a series of its own without a pod, and one for each pod
    with that pod's part, 0 for an idle one. For all other metrics each pod has a copy, as all
    metrics had before.
    """
    past = EstatePast(interval_seconds=120)
    for number, (names, parts) in enumerate(
        [(HONORED, PARTS), (HONORED, (WHOLE,)), (EXPORTED, PARTS)]
    ):
        labels = {"UUID": gpu(number), "Hostname": "node-a", "modelName": "NVIDIA H100 80GB HBM3"}
        past.device([Phase(0, 24, WHOLE, names[2])], **labels)
        for at, part in enumerate(parts):
            past.device([Phase(0, 24, {**UNDIVIDED, **part}, pod(at, names))], **labels)
    labels = {"UUID": gpu(3), "Hostname": "node-b", "modelName": "NVIDIA H100 80GB HBM3"}
    for at in range(2):
        past.device([Phase(0, 24, {**UNDIVIDED, **WHOLE}, pod(at, HONORED))], **labels)
    with stored(past) as found:
        yield found


@pytest.fixture(scope="module")
def day(store: PrometheusStore) -> FleetDay:
    """Day of the source."""
    source = DcgmExporterSource()
    report = source.probe(store, NOW, DAY)
    devices = list(source.inventory(store, report, NOW, DAY).devices.values())
    return source.day(store, report, devices, YESTERDAY)


@pytest.mark.parametrize("number", range(4))
def test_a_shared_gpu_has_the_load_of_all(day: FleetDay, number: int) -> None:
    """It is not the mean over its pods' parts."""
    columns = day.frames[gpu(number)].columns
    used = columns[ColumnKind.MEAN.column(Measure.MEMORY_BYTES)]
    busy = columns[ColumnKind.MEAN.column(Measure.BUSY)]
    assert {round(value / 2**20) for value in used} == {WHOLE["DCGM_FI_DEV_FB_USED"]}
    assert {round(100 * value) for value in busy} == {WHOLE["DCGM_FI_DEV_GPU_UTIL"]}


@pytest.mark.parametrize(("number", "holders"), [(0, 3), (1, 1), (2, 3), (3, 2)])
def test_its_pods_hold_all_of_it(day: FleetDay, number: int, holders: int) -> None:
    """The GPU's own series adds no share while a pod holds it."""
    shares = [held.share_ratio for held in day.holdings[gpu(number)]]
    assert shares == [pytest.approx(1 / holders, abs=0.01)] * holders
