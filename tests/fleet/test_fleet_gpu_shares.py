"""GPUs that several pods may share: what each requested is held, and the rest is room."""

from collections.abc import Iterator, Mapping
from typing import Final

import pytest

from dcgm_estate import NOW, YESTERDAY, EstatePast, Phase, gpu, stored
from rightsizer.fleet.cache.grid import DAY
from rightsizer.fleet.model import FleetDay, FleetInventory
from rightsizer.fleet.prometheus.client import PrometheusStore
from rightsizer.fleet.sources.dcgm_exporter.source import DcgmExporterSource
from rightsizer.fleet.sources.kubernetes import KubernetesState

pytestmark = pytest.mark.prometheus

SLOTS: Final = {"T4": 12, "A100": 10}
"""Of one GPU each: time slices (gpu-operator#684) and HAMi's virtual GPUs (opencost#3828)."""
REQUESTS: Final[Mapping[str, tuple[str, Mapping[str, int]]]] = {
    "slice-0": ("T4", {"gpu": 1}),
    "slice-waits": ("", {"gpu": 1}),
    "quarter-0": ("A100", {"gpu": 1, "gpucores": 25, "gpumem_percentage": 25}),
    "half-0": ("A100", {"gpu": 1, "gpucores": 10, "gpumem_percentage": 50}),
    "quarter-waits": ("", {"gpu": 1, "gpucores": 25, "gpumem_percentage": 25}),
}
NAMES: Final = {"T4": "Tesla T4", "A100": "NVIDIA A100-SXM4-80GB"}
VALUES: Final = {"DCGM_FI_DEV_GPU_UTIL": 40, "DCGM_FI_DEV_FB_USED": 4000}


@pytest.fixture(scope="module")
def store() -> Iterator[PrometheusStore]:
    """Two nodes of one GPU, three running pods, and two that wait."""
    past = EstatePast(interval_seconds=120)
    for number, node in enumerate(SLOTS):
        labels = {"UUID": gpu(number), "Hostname": node, "modelName": NAMES[node]}
        for pod, (of_node, _) in REQUESTS.items():
            if of_node == node:
                phase = Phase(0, 24, VALUES, {"pod": pod, "namespace": "ml"})
                past.device([phase], **labels)
    for node, count in SLOTS.items():
        labels = {"node": node, "resource": "nvidia_com_gpu"}
        past.series("kube_node_status_allocatable", labels, count)
    for pod, (node, resources) in REQUESTS.items():
        name = {"namespace": "ml", "pod": pod}
        is_waiting = not node
        past.series("kube_pod_status_phase", {**name, "phase": "Pending"}, int(is_waiting))
        for resource, count in resources.items():
            labels = {**name, "container": "main", "resource": f"nvidia_com_{resource}"}
            past.series("kube_pod_container_resource_requests", {**labels, "node": node}, count)
    with stored(past) as found:
        yield found


@pytest.fixture(scope="module")
def enriched(store: PrometheusStore) -> FleetInventory:
    """The fleet with what its nodes offer."""
    source = DcgmExporterSource()
    report = source.probe(store, NOW, DAY)
    return KubernetesState().enrich(store, source.inventory(store, report, NOW, DAY), NOW, DAY)


@pytest.fixture(scope="module")
def day(store: PrometheusStore, enriched: FleetInventory) -> FleetDay:
    """A day of both GPUs."""
    source = DcgmExporterSource()
    report = source.probe(store, NOW, DAY)
    return source.day(store, report, list(enriched.devices.values()), YESTERDAY)


@pytest.mark.parametrize(
    ("number", "shares"),
    [(0, {"slice-0": 1 / 12}), (1, {"quarter-0": 0.25, "half-0": 0.5})],
    ids=["slots", "fractions"],
)
def test_a_pod_holds_the_part_that_it_requested(
    day: FleetDay, number: int, shares: Mapping[str, float]
) -> None:
    """All day long; the rest of the GPU is nobody's."""
    held = day.holdings[gpu(number)]
    found = {each.workload.pod: each.share_ratio for each in held}
    assert found == pytest.approx(shares, abs=0.002)
    assert {(each.first, each.last) for each in held} == {(0, YESTERDAY.count - 1)}


def test_waiting_pods_ask_for_the_same_parts(enriched: FleetInventory) -> None:
    """A slice of the larger offer, and the fraction that is stated."""
    assert {each.key.rpartition("/")[2]: each.gpus for each in enriched.waiting} == pytest.approx(
        {"slice-waits": 1 / 10, "quarter-waits": 0.25}
    )
