"""Owners, pools, teams and pending pods, with and without kube-state-metrics."""

from collections.abc import Iterator
from typing import Final

import pytest

from dcgm_estate import BUSY, HOUR, NOW, EstatePast, Phase, gpu, stored
from rightsizer.fleet.cache.grid import DAY
from rightsizer.fleet.model import FleetInventory
from rightsizer.fleet.prometheus.client import PrometheusStore
from rightsizer.fleet.sources.dcgm_exporter.source import DcgmExporterSource
from rightsizer.fleet.sources.kubernetes import KubernetesState, namespace_key
from rightsizer.fleet.sources.pod_owners import LookbackSpan, Pod, PodOwners, workload_key
from rightsizer.model.units import NANOSECONDS_PER_SECOND
from rightsizer.model.workload import WorkloadClass, WorkloadKind, owner_of_pod

pytestmark = pytest.mark.prometheus

SPAN: Final = LookbackSpan(NOW, DAY)
OWNED: Final = {
    # Pod, its owner series in kube-state-metrics, the workload's name, and its class.
    "llm-7d4b9cf5f6-b2x4z": ("ReplicaSet", "llm-7d4b9cf5f6", "llm", WorkloadClass.SERVING),
    "nightly-29384720-x5k2m": ("Job", "nightly-29384720", "nightly", WorkloadClass.BATCH),
    "tune-x5k2m": ("Job", "tune", "tune", WorkloadClass.BATCH),
    "gpt-worker-0": ("PyTorchJob", "gpt", "gpt", WorkloadClass.BATCH),
    "llama-2": ("StatefulSet", "llama", "llama-2", WorkloadClass.UNKNOWN),
    "lonely": ("<none>", "<none>", "lonely", WorkloadClass.UNKNOWN),
    "probe-b2x4z": ("DaemonSet", "probe", "probe", WorkloadClass.UNKNOWN),
}


def add_metrics(past: EstatePast, pod: str, exported: str = "") -> None:
    """Series of kube-state-metrics about a pod's owner."""
    kind, name = OWNED[pod][:2]
    names = {f"{exported}namespace": "chat", f"{exported}pod": pod}
    if exported:
        names |= {"namespace": "monitoring", "pod": "kube-state-metrics-0"}
    past.series(
        "kube_pod_owner",
        {**names, "owner_kind": kind, "owner_name": name, "owner_is_controller": "true"},
        1,
    )


@pytest.fixture(scope="module")
def store() -> Iterator[PrometheusStore]:
    """A cluster with a pod of each kind of owner, and two pending pods."""
    past = EstatePast(interval_seconds=120)
    for number, pod in enumerate(OWNED):
        add_metrics(past, pod, "exported_" if number % 2 else "")
        labels = {"UUID": gpu(number), "Hostname": f"node-{number % 2}.example.org"}
        past.device(
            [Phase(20, 24, BUSY, {"pod": pod, "namespace": "chat", "container": "main"})],
            modelName="NVIDIA H100 80GB HBM3",
            **labels,
        )
    chat = {"namespace": "chat", "owner_is_controller": "true"}
    past.series(
        "kube_replicaset_owner",
        {**chat, "replicaset": "llm-7d4b9cf5f6", "owner_kind": "Deployment", "owner_name": "llm"},
        1,
    )
    past.series(
        "kube_job_owner",
        {**chat, "job_name": "nightly-29384720", "owner_kind": "CronJob", "owner_name": "nightly"},
        1,
    )
    past.series("kube_node_labels", {"node": "node-0", "label_node_pool": "large"}, 1)
    past.series("kube_pod_labels", {"namespace": "chat", "pod": "llama-2", "label_team": "apes"}, 1)
    past.series("kube_namespace_labels", {"namespace": "chat", "label_team": "talkers"}, 1)
    waits(past)
    with stored(past) as found:
        yield found


def waits(past: EstatePast) -> None:
    """Pending pods of a deployment, for two GPUs and a MIG slice; a running and a starting one.

    docs/metrics/workload/pod-metrics.md of kubernetes/kube-state-metrics: the phase is Pending
    until images are pulled, and `kube_pod_status_scheduled` says whether there is a node.
    """
    created = NOW // NANOSECONDS_PER_SECOND - HOUR
    for pod, phase, resource, count in (
        ("wait-7d4b9cf5f6-b2x4z", "Pending", "nvidia_com_gpu", 2),
        ("wait-7d4b9cf5f6-c2x4z", "Pending", "nvidia_com_mig_1g_10gb", 1),
        ("llama-2", "Running", "nvidia_com_gpu", 1),
        ("starts-7d4b9cf5f6-d2x4z", "Pending", "nvidia_com_gpu", 8),
    ):
        name = {"namespace": "chat", "pod": pod}
        past.series("kube_pod_status_phase", {**name, "phase": phase}, 1, 22)
        past.series("kube_pod_created", name, created, 22)
        has_node = not pod.startswith("wait-")
        for condition in ("true", "false", "unknown"):
            is_so = condition == str(has_node).lower()
            labels = {**name, "condition": condition}
            past.series("kube_pod_status_scheduled", labels, int(is_so), 22)
        if phase == "Pending":
            past.series(
                "kube_pod_nodeselectors", {**name, "nodeselector_node_pool": "large"}, 1, 22
            )
        for replica in ("a", "b"):
            requested = {**name, "container": "main", "resource": resource, "replica": replica}
            past.series("kube_pod_container_resource_requests", requested, count, 22)


@pytest.fixture(scope="module")
def enriched(store: PrometheusStore) -> FleetInventory:
    """The fleet enriched with Kubernetes' data."""
    source = DcgmExporterSource()
    report = source.probe(store, NOW, DAY)
    return KubernetesState().enrich(store, source.inventory(store, report, NOW, DAY), NOW, DAY)


@pytest.mark.parametrize("pod", OWNED)
def test_pods_belong_to_who_made_them(store: PrometheusStore, pod: str) -> None:
    """They resolve through replica sets and jobs, for any scrape labels."""
    name = Pod("chat", pod)
    owner = PodOwners().of(store, [name], SPAN)[name]
    assert (owner.name, owner.workload_class) == OWNED[pod][2:]


@pytest.mark.parametrize("pod", OWNED)
def test_keys_are_those_of_an_agent(store: PrometheusStore, pod: str) -> None:
    """The workload is the same when only the pod's name is known."""
    name = Pod("chat", pod)
    known = PodOwners().of(store, [name], SPAN)[name]
    assert workload_key(name, known) == workload_key(name, owner_of_pod(pod))


def test_unknown_pod_is_identified_by_its_name(store: PrometheusStore) -> None:
    """The pod is missing in kube-state-metrics."""
    name = Pod("other", "mistral-7d4b9cf5f6-b2x4z")
    assert PodOwners().of(store, [name], SPAN)[name].name == "mistral"


def test_nodes_are_in_pools(enriched: FleetInventory) -> None:
    """A node's label names it, with or without a domain; other nodes are grouped by board."""
    pools = {device.node: device.pool for device in enriched.devices.values()}
    assert pools == {"node-0.example.org": "large", "node-1.example.org": "H100-SXM5-80GB"}


@pytest.mark.parametrize("region", ["", "cn-hangzhou."])
def test_nodes_named_by_their_addresses_are_not_taken_for_each_other(region: str) -> None:
    """Their names have no domain; of GPUs offered in four parts each, two parts are half a one."""
    past = EstatePast(interval_seconds=120)
    gpu_of = {"resource": "nvidia_com_gpu"}
    for number in range(4):
        host = {"UUID": gpu(number), "Hostname": f"{region}10.0.0.{number}"}
        past.device([Phase(20, 24, BUSY)], modelName="NVIDIA H100 80GB HBM3", **host)
        node = {"node": host["Hostname"]}
        pool = {"label_node_pool": "large"} if number else {}
        past.series("kube_node_labels", node | pool, 1)
        past.series("kube_node_status_capacity", node | gpu_of, 4)
    pod = {"namespace": "chat", "pod": "wait-x5k2m"}
    past.series("kube_pod_status_phase", {**pod, "phase": "Pending"}, 1, 23)
    past.series("kube_pod_container_resource_requests", pod | gpu_of, 2, 23)
    with stored(past) as store:
        source = DcgmExporterSource()
        inventory = source.inventory(store, source.probe(store, NOW, DAY), NOW, DAY)
        found = KubernetesState().enrich(store, inventory, NOW, DAY)

    pools = {device.node: device.pool for device in found.devices.values()}
    assert pools[f"{region}10.0.0.0"] == "H100-SXM5-80GB"
    assert pools[f"{region}10.0.0.1"] == "large"
    assert [each.gpus for each in found.waiting] == [0.5]


def test_its_nodes_are_its_own(enriched: FleetInventory) -> None:
    """The scheduler of a Kubernetes node is its workload's, or unknown where it has none."""
    schedulers = {device.node: device.scheduler for device in enriched.devices.values()}
    assert schedulers == {
        "node-0.example.org": WorkloadKind.KUBERNETES,
        "node-1.example.org": None,
    }


def test_teams_answer_for_workloads(enriched: FleetInventory) -> None:
    """The pod's own label takes precedence over its namespace's."""
    assert enriched.teams["kubernetes:chat/llama-2"] == "apes"
    assert enriched.teams[namespace_key("chat")] == "talkers"


def test_pods_that_wait_are_counted_once(enriched: FleetInventory) -> None:
    """Two pods of one workload are scraped by two replicas; a MIG instance is part of a GPU."""
    (waiting,) = enriched.waiting
    assert waiting.key == "kubernetes:chat/wait"
    assert waiting.gpus == pytest.approx(2 + 1 / 7)
    assert waiting.since_seconds == pytest.approx(HOUR)
    assert (waiting.gpus_each, waiting.namespace, waiting.pool) == (2.0, "chat", "large")


def test_the_probe_says_what_kubernetes_tells(store: PrometheusStore) -> None:
    """Without Kubernetes' metrics the report has no such statement."""
    report = KubernetesState().probe(store, NOW)
    assert len(report.can) == 3
    assert not report.warnings
    assert KubernetesState().probe(store, NOW - 3 * DAY).metrics == frozenset()
