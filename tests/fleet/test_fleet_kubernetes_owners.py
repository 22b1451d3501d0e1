"""Owners of pods that operators made, parts of GPUs, and pools of each cloud."""

import re
from collections.abc import Iterator
from typing import Final

import pytest

from dcgm_estate import BUSY, NOW, EstatePast, Phase, gpu, stored
from rightsizer.fleet.cache.grid import DAY
from rightsizer.fleet.prometheus.client import PrometheusStore
from rightsizer.fleet.sources.dcgm_exporter.source import DcgmExporterSource
from rightsizer.fleet.sources.gpu_requests import GpuUnits, slots_by_node, units_of, waiting_pods
from rightsizer.fleet.sources.kubernetes import KubernetesState
from rightsizer.fleet.sources.pod_owners import LookbackSpan, Pod, PodOwners
from rightsizer.model.workload import WorkloadClass

pytestmark = pytest.mark.prometheus

PODS: Final = {
    "jax-workers-0-0-x5k2m": ("Job", "jax-workers-0"),
    "tune-launcher": ("TrainJob", "tune"),
    "etl-4f5f1b8e2c1d-exec-1": ("Pod", "etl-4f5f1b8e2c1d-driver"),
    "etl-4f5f1b8e2c1d-driver": ("SparkApplication", "etl"),
    "shell-4f5f1b8e2c1d-exec-1": ("Pod", "shell-driver"),
    "shell-driver": ("<none>", "<none>"),
    "web-3-x5k2m": ("ReplicationController", "web-3"),
    "nightly-29384720-x5k2m": ("Job", "nightly-29384720"),
    "manual-29384720-x5k2m": ("Job", "manual-29384720"),
    "chat-00007-deployment-6b7f7c9c8d-x5k2m": ("ReplicaSet", "chat-00007-deployment-6b7f7c9c8d"),
    "api-7e0b9c6f5d-a1b2c": ("ReplicaSet", "api-7e0b9c6f5d"),
    "llm-raycluster-7w4x2-gpu-worker-x5k2m": ("RayCluster", "llm-raycluster-7w4x2"),
    "r1-0": ("StatefulSet", "r1"),
    "r1-0-1": ("StatefulSet", "r1-0"),
    "alone-0-1": ("StatefulSet", "alone-0"),
}
"""Controllers by pod."""
ABOVE: Final = (
    (
        "kube_replicaset_owner",
        {"replicaset": "chat-00007-deployment-6b7f7c9c8d"},
        ("Deployment", "chat-00007-deployment"),
    ),
    ("kube_job_owner", {"job_name": "jax-workers-0"}, ("JobSet", "jax")),
    ("kube_job_owner", {"job_name": "manual-29384720"}, ("<none>", "<none>")),
    (
        "kube_replicationcontroller_owner",
        {"replicationcontroller": "web-3"},
        ("DeploymentConfig", "web"),
    ),
)


@pytest.fixture(scope="module", params=["", "exported_"])
def store(request: pytest.FixtureRequest) -> Iterator[PrometheusStore]:
    """A cluster scraped with and without honored labels, without the job of `nightly`."""
    past = EstatePast(interval_seconds=120)
    exported = request.param
    own = {"pod": "kube-state-metrics-0", "namespace": "monitoring"} if exported else {}

    def owned(metric: str, labels: dict[str, str], owner: tuple[str, str]) -> None:
        kind, name = owner
        owners = {"owner_kind": kind, "owner_name": name, "owner_is_controller": "true"}
        past.series(metric, {**own, f"{exported}namespace": "ml", **labels, **owners}, 1)

    for pod, owner in PODS.items():
        owned("kube_pod_owner", {f"{exported}pod": pod}, owner)
    for metric, labels, owner in ABOVE:
        owned(metric, labels, owner)
    waiting = {**own, f"{exported}namespace": "ml", f"{exported}pod": "wait-x5k2m"}
    past.series("kube_pod_status_phase", {**waiting, "phase": "Pending"}, 1)
    for resource, count in (("gpu", 1), ("gpumem", 8000), ("gpucores", 30)):
        requested = {**waiting, "container": "main", "resource": f"nvidia_com_{resource}"}
        past.series("kube_pod_container_resource_requests", requested, count)
    with stored(past) as found:
        yield found


@pytest.mark.parametrize(
    ("pod", "name", "workload_class"),
    [
        ("jax-workers-0-0-x5k2m", "jax", WorkloadClass.BATCH),
        ("tune-launcher", "tune", WorkloadClass.BATCH),
        ("etl-4f5f1b8e2c1d-exec-1", "etl", WorkloadClass.BATCH),
        ("etl-4f5f1b8e2c1d-driver", "etl", WorkloadClass.BATCH),
        ("shell-4f5f1b8e2c1d-exec-1", "shell-driver", WorkloadClass.UNKNOWN),
        ("shell-driver", "shell-driver", WorkloadClass.UNKNOWN),
        ("web-3-x5k2m", "web", WorkloadClass.SERVING),
        ("nightly-29384720-x5k2m", "nightly", WorkloadClass.BATCH),
        ("manual-29384720-x5k2m", "manual-29384720", WorkloadClass.BATCH),
        ("chat-00007-deployment-6b7f7c9c8d-x5k2m", "chat", WorkloadClass.SERVING),
        ("api-7e0b9c6f5d-a1b2c", "api", WorkloadClass.SERVING),
        ("llm-raycluster-7w4x2-gpu-worker-x5k2m", "llm", WorkloadClass.UNKNOWN),
        ("r1-0", "r1-0", WorkloadClass.UNKNOWN),
        ("r1-0-1", "r1-0", WorkloadClass.UNKNOWN),
        ("alone-0-1", "alone-0-1", WorkloadClass.UNKNOWN),
    ],
)
def test_pod_belongs_to_what_outlives_its_controller(
    store: PrometheusStore, pod: str, name: str, workload_class: WorkloadClass
) -> None:
    """Sets of jobs, drivers, rollouts and leaders' workers are resolved; jobs are batch."""
    key = Pod("ml", pod)
    owner = PodOwners().of(store, [key], LookbackSpan(NOW, DAY))[key]
    assert (owner.name, owner.workload_class) == (name, workload_class)


@pytest.mark.parametrize(
    ("memory_bytes", "gpus"), [(None, 0.3), (80e9, 0.3), (16 * 2**30, 8000 / 16384)]
)
def test_a_part_of_a_gpu_is_its_scarcer_resource(
    store: PrometheusStore, memory_bytes: float | None, gpus: float
) -> None:
    """HAMi requests mebibytes and percent of each GPU by resources of their own."""
    units = GpuUnits(memory_bytes=memory_bytes)
    (waiting,) = waiting_pods(store, PodOwners(), (), units, NOW)
    assert (waiting.gpus, waiting.gpus_each) == (pytest.approx(gpus), pytest.approx(gpus))


@pytest.mark.parametrize(
    ("resource", "capacities", "gpus"),
    [
        ("gpu_shared", {"a": 32}, 0.5),
        ("gpu", {"a": 32}, 0.5),
        ("gpu", {"a": 56}, 2 / 7),
        ("gpu", {"a": 32, "b": 4}, 2.0),
        ("gpu", {"a": 7}, 2.0),
        ("gpu", {"a": 9}, 2.0),
        ("gpu", {"a": 35}, 0.5),
        ("gpu", {"other": 32}, 2.0),
        ("mig_1g_10gb", {"a": 56}, 2 / 7),
    ],
    ids=[
        "renamed",
        "sliced",
        "of MIG alone",
        "of nodes that differ",
        "one broken",
        "one silent",
        "one silent of slices",
        "none",
        "MIG",
    ],
)
def test_requests_are_parts_of_a_gpu_where_nodes_offer_several_of_each(
    resource: str, capacities: dict[str, int], gpus: float
) -> None:
    """Two of a resource; `a` has eight GPUs, `b` four."""
    past = EstatePast(interval_seconds=120)
    waits = {"namespace": "ml", "pod": "wait-x5k2m"}
    past.series("kube_pod_status_phase", {**waits, "phase": "Pending"}, 1, 23)
    name = {"resource": f"nvidia_com_{resource}"}
    past.series("kube_pod_container_resource_requests", {**waits, **name}, 2, 23)
    for node, capacity in capacities.items():
        past.series("kube_node_status_capacity", {"node": node, **name}, capacity, 23)
    with stored(past) as store:
        units = units_of(slots_by_node(store, {"a": 8, "b": 4}, NOW))
        (waiting,) = waiting_pods(store, PodOwners(), (), units, NOW)

    assert (waiting.gpus, waiting.gpus_each) == (pytest.approx(gpus), pytest.approx(gpus))


@pytest.mark.parametrize(
    ("resources", "gpus"),
    [
        ({"gpu": 1, "gpucores": 0}, 0.25),
        ({"gpu": 1, "gpucores": 30}, 1.0),
        ({"gpu": 2, "gpucores": 30, "gpumem_percentage": 40}, 0.8),
        ({"gpu": 1, "gpumem": 8192}, 0.5),
        ({"gpucores": 30}, 0.0),
        ({"mig_3g_20gb": 2}, 6 / 7),
    ],
    ids=["no limit", "all of the memory", "of two", "memory", "no GPU", "MIG"],
)
def test_what_a_container_requests_is_its_part_of_a_gpu(
    resources: dict[str, float], gpus: float
) -> None:
    """Of a GPU of 16 GiB that is offered four times."""
    container = {f"nvidia_com_{name}": count for name, count in resources.items()}
    units = GpuUnits(0.25, memory_bytes=2.0**34)
    assert units.gpus_of([container]) == pytest.approx(gpus)


def test_waiting_work_that_cannot_be_told_is_named() -> None:
    """Managed kube-state-metrics lack requests; a queue creates pods once it admits work."""
    past = EstatePast(interval_seconds=120)
    for pod, phase in (("llm-0", "Running"), ("llm-1", "Pending")):
        past.series("kube_pod_status_phase", {"pod": pod, "phase": phase}, 1, 22)
        past.series("kube_pod_resourceclaim_info", {"pod": pod, "claim_name": "gpu"}, 1, 22)
    for queue, count in (("research", 3), ("production", 0)):
        past.series("kueue_pending_workloads", {"cluster_queue": queue}, count, 22)
        past.series("volcano_queue_pod_group_pending_count", {"queue_name": queue}, 0, 22)
    with stored(past) as store:
        report = KubernetesState().probe(store, NOW)

    assert report.can == ()
    requests, claims, queue = report.cannot[2:]
    assert requests.endswith("not known: kube_pod_container_resource_requests is not there.")
    assert claims.startswith("Pods that wait for a ResourceClaim are not counted: kube_pod_")
    assert queue.startswith("What Kueue holds back is not counted as waiting: it has no pods")


CLOUDS: Final = (
    "alibabacloud.com/nodepool-id",
    "alpha.eksctl.io/nodegroup-name",
    "compute.coreweave.com/node-pool",
    "doks.digitalocean.com/node-pool",
    "ibm-cloud.kubernetes.io/worker-pool-name",
    "k8s.scaleway.com/pool-name",
    "kops.k8s.io/instancegroup",
    "kubernetes.azure.com/agentpool",
    "lke.linode.com/pool-id",
)
"""Labels by which clouds and installers tell node pools apart."""


def test_pools_are_those_of_each_cloud() -> None:
    """kube-state-metrics replaces what a label of Prometheus may not have."""
    past = EstatePast(interval_seconds=120)
    source = DcgmExporterSource()
    for number, label in enumerate(CLOUDS):
        name = re.sub(r"\W", "_", label)
        past.series("kube_node_labels", {"node": f"node-{number}", f"label_{name}": label}, 1, 22)
        device = {"UUID": gpu(number), "Hostname": f"node-{number}", "gpu": "0"}
        past.device([Phase(22, 24, BUSY)], **device, modelName="NVIDIA H100 80GB HBM3")
    with stored(past) as store:
        report = source.probe(store, NOW, DAY)
        inventory = source.inventory(store, report, NOW, DAY)
        found = KubernetesState().enrich(store, inventory, NOW, DAY).devices.values()

    assert [each.pool for each in found] == [*CLOUDS]


def test_nodes_tell_their_cloud() -> None:
    """By provider id and labels, else by an instance type that one cloud alone has."""
    past = EstatePast(interval_seconds=120)
    source = DcgmExporterSource()
    providers = {"a": "aws", "b": "azure", "c": "aws", "d": ""}
    for number, node in enumerate(providers):
        device = {"UUID": gpu(number), "Hostname": node, "gpu": "0"}
        past.device([Phase(22, 24, BUSY)], **device, modelName="NVIDIA H100 80GB HBM3")
    ids = {"a": "aws:///us-east-1a/i-0", "b": "azure:///subscriptions/x", "d": "kind://x"}
    for node, provider_id in ids.items():
        past.series("kube_node_info", {"node": node, "provider_id": provider_id}, 1, 22)
    kind = "label_node_kubernetes_io_instance_type"
    past.series("kube_node_labels", {"node": "a", kind: "p5.48xlarge"}, 1, 22)
    past.series("kube_node_labels", {"node": "c", kind: "g5.xlarge"}, 1, 22)
    with stored(past) as store:
        report = source.probe(store, NOW, DAY)
        inventory = source.inventory(store, report, NOW, DAY)
        found = KubernetesState().enrich(store, inventory, NOW, DAY).devices.values()

    assert {each.node: each.provider for each in found} == providers
