"""Kubernetes in a store with kube-state-metrics: pools, teams and pending pods of a fleet."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from itertools import chain
from typing import Final

from msgspec.structs import replace

from rightsizer.catalogue.prices import built_in_instances
from rightsizer.fleet.cache.grid import COARSE_STEP
from rightsizer.fleet.model import FleetInventory
from rightsizer.fleet.settings import FleetSettings
from rightsizer.fleet.source import MetricStore, SourceReport
from rightsizer.fleet.sources.gpu_requests import PENDING, slots_by_node, units_of, waiting_pods
from rightsizer.fleet.sources.pod_owners import (
    NAMESPACE_LABELS,
    NODE_LABELS,
    POD,
    POD_LABELS,
    LookbackSpan,
    Pod,
    PodOwners,
    namespace_in,
    object_labels,
)
from rightsizer.fleet.sources.series import first_label, names_of, names_of_node
from rightsizer.model.values import Nanoseconds, Workload, WorkloadKind

_NAMES: Final = (
    "kube_pod_owner",
    "kube_replicaset_owner",
    "kube_job_owner",
    "kube_pod_labels",
    "kube_namespace_labels",
    "kube_node_labels",
    "kube_pod_status_phase",
    "kube_pod_container_resource_requests",
)
_MEANINGS: Final = (
    (("kube_pod_owner",), "Pods are counted to the workloads that made them.",
     "Pods are counted to workloads by their names alone"),
    (("kube_node_labels",), "Nodes are grouped into pools by their labels.",
     "Nodes are grouped by board alone"),
    (("kube_pod_status_phase", "kube_pod_container_resource_requests"),
     "Pods that wait for GPUs are known.", "Whether pods wait for GPUs is not known"),
)  # fmt: skip
"""Metrics that are needed together, what they tell, and what is missing without them."""
_CLAIMED: Final = "kube_pod_resourceclaim_info"
_QUEUES: Final = (
    ("kueue_pending_workloads", "Kueue"),
    ("volcano_queue_pod_group_pending_count", "Volcano"),
)
_NO_LABELS: Final = (
    "kube-state-metrics tells none of the labels of {objects} in `fleet.{setting}`: start it with "
    "--metric-labels-allowlist={objects}=[*], or name the label that yours have there."
)
_NODE_LABEL: Final = "label_"


def _cannot(store: MetricStore, metrics: AbstractSet[str], now: Nanoseconds) -> Iterator[str]:
    for names, _, cannot in _MEANINGS:
        if missing := [name for name in names if name not in metrics]:
            yield f"{cannot}: {' and '.join(missing)} {'are' if missing[1:] else 'is'} not there."
    if store.instant(f"count({_CLAIMED} and on ({POD}) ({PENDING}))", now):
        yield f"Pods that wait for a ResourceClaim are not counted: {_CLAIMED} tells no sizes."
    for name, queue in _QUEUES:
        if store.instant(f"count({name} > 0)", now):
            yield f"What {queue} holds back is not counted as waiting: it has no pods ({name})."


class KubernetesState:
    """Pools, teams and pending pods of a fleet, from Kubernetes."""

    name: Final = "kube-state-metrics"
    names: Final = _NAMES

    def __init__(self, settings: FleetSettings | None = None) -> None:
        self._settings = settings or FleetSettings()
        self._owners = PodOwners()

    def probe(self, store: MetricStore, now: Nanoseconds) -> SourceReport:
        """Find which of its metrics are present, and what follows."""
        metrics = names_of(store, _NAMES, now)
        if not metrics:
            return SourceReport(self.name)
        warnings = []
        for objects, metric, setting, labels in (
            ("nodes", "kube_node_labels", "pool_labels", self._settings.pool_labels),
            ("pods", "kube_pod_labels", "team_labels", self._settings.team_labels),
        ):
            some = " or ".join(f'{metric}{{{label}!=""}}' for label in labels)
            if metric in metrics and some and not store.instant(f"count({some})", now):
                warnings.append(_NO_LABELS.format(objects=objects, setting=setting))
        return SourceReport(
            self.name,
            metrics=metrics,
            can=tuple(can for names, can, _ in _MEANINGS if metrics.issuperset(names)),
            cannot=tuple(_cannot(store, metrics, now)),
            warnings=tuple(warnings),
        )

    def enrich(
        self, store: MetricStore, inventory: FleetInventory, now: Nanoseconds, lookback: Nanoseconds
    ) -> FleetInventory:
        """Return the fleet with pools, teams, and waiting work."""
        devices = dict(inventory.devices)
        boards = {
            fleet_device.device.board_uuid: {*names_of_node(fleet_device.node)}
            for fleet_device in devices.values()
        }
        gpus = Counter(chain.from_iterable(boards.values()))
        slots = slots_by_node(store, gpus, now)
        present, pools, providers = self._pools(store, gpus.keys(), LookbackSpan(now, lookback))
        for uuid, device in inventory.devices.items():
            names = names_of_node(device.node)
            pool = next(filter(None, map(pools.get, names)), device.pool)
            # A node that its scheduler has let go is missed by no one.
            is_listed = not present.isdisjoint(names)
            scheduler = WorkloadKind.KUBERNETES if is_listed else device.scheduler
            provider = next(filter(None, map(providers.get, names)), device.provider)
            slot_ratio = min(next(filter(None, map(slots.get, names)), {}).values(), default=1.0)
            devices[uuid] = replace(
                device, pool=pool, scheduler=scheduler, provider=provider, slot_ratio=slot_ratio
            )
        teams = {**self._teams(store, inventory.workloads.values(), now), **inventory.teams}
        # Node selector labels of pods that name a pool, as spelled by kube-state-metrics.
        selectors = tuple(
            f"nodeselector_{label.removeprefix(_NODE_LABEL)}"
            for label in self._settings.pool_labels
            if label.startswith(_NODE_LABEL)
        )
        units = units_of(slots, devices.values())
        waiting = waiting_pods(store, self._owners, selectors, units, now)
        return replace(
            inventory,
            devices=devices,
            workloads=self._with_controllers(store, inventory.workloads, now),
            teams=teams,
            waiting=(*inventory.waiting, *waiting),
        )

    def _with_controllers(
        self, store: MetricStore, workloads: Mapping[str, Workload], now: Nanoseconds
    ) -> Mapping[str, Workload]:
        """Add what makes the pods of workloads that agents named."""
        pods = {
            key: Pod(workload.namespace, workload.pod)
            for key, workload in workloads.items()
            if workload.pod and workload.controller is None
        }
        owners = self._owners.of(store, pods.values(), LookbackSpan(now, COARSE_STEP))
        owned = {
            key: replace(workloads[key], controller=owners[pod].controller)
            for key, pod in pods.items()
        }
        return {**workloads, **owned}

    def _pools(
        self, store: MetricStore, nodes: AbstractSet[str], span: LookbackSpan
    ) -> tuple[frozenset[str], Mapping[str, str], Mapping[str, str]]:
        """Return the present nodes, and pools and clouds by node, of `nodes` also those gone."""
        labels = self._settings.pool_labels
        by = ", ".join(dict.fromkeys((*NODE_LABELS, *labels, *_INSTANCE_TYPES)))
        query = f"group by ({by}) (kube_node_labels)"
        node_series = [series.labels for series in store.instant(query, span.end)]
        names = (names_of_node(first_label(node, NODE_LABELS)) for node in node_series)
        present = frozenset(chain.from_iterable(names))
        gone = NODE_LABELS, nodes - present
        node_series += object_labels(store, "kube_node_labels", gone, labels, span)
        # Of two series of a node, the one with a label comes last, so it wins.
        node_series.sort(key=lambda node: first_label(node, labels))
        pools = {first_label(node, NODE_LABELS): first_label(node, labels) for node in node_series}
        providers = _providers(store, node_series, span.end)
        short = {names_of_node(node)[-1]: pool for node, pool in pools.items()}
        return present, short | pools, providers

    def _teams(
        self, store: MetricStore, workloads: Iterable[Workload], now: Nanoseconds
    ) -> Mapping[str, str]:
        """Return the teams of namespaces, and of workloads whose pods name another."""
        labels = self._settings.team_labels
        by = ", ".join((*NAMESPACE_LABELS, *labels))
        named = store.instant(f"group by ({by}) (kube_namespace_labels)", now)
        teams = {
            namespace_key(namespace_in(series.labels)): team
            for series in named
            if (team := first_label(series.labels, labels))
        }
        return {**teams, **self.teams_of_pods(store, workloads, LookbackSpan(now, COARSE_STEP))}

    def teams_of_pods(
        self, store: MetricStore, workloads: Iterable[Workload], span: LookbackSpan
    ) -> Mapping[str, str]:
        """Return the team of each workload whose pod had a label of one within a span, by key."""
        labels = self._settings.team_labels
        keys = {
            Pod(workload.namespace, workload.pod): workload.key
            for workload in workloads
            if workload.pod
        }
        names = POD_LABELS, {pod.name for pod in keys}
        return {
            keys[pod]: team
            for label in object_labels(store, "kube_pod_labels", names, labels, span)
            if (pod := Pod.of(label)) in keys and (team := first_label(label, labels))
        }


_INSTANCE_TYPES: Final = (
    "label_node_kubernetes_io_instance_type",
    "label_beta_kubernetes_io_instance_type",
)
_PROVIDERS: Final = {"aws": "aws", "azure": "azure", "gce": "gcp", "ocid1.": "oci", "oci": "oci"}
"""Names in the price list, by the start of a node's provider id."""


def _providers(
    store: MetricStore, nodes: Iterable[Mapping[str, str]], now: Nanoseconds
) -> dict[str, str]:
    """Return the clouds that rent out nodes, by their provider ids and instance types."""
    by = ", ".join((*NODE_LABELS, "provider_id"))
    infos = store.instant(f'group by ({by}) (kube_node_info{{provider_id!=""}})', now)
    ids = {
        first_label(info.labels, NODE_LABELS): info.labels.get("provider_id", "") for info in infos
    }
    sellers = {instance.name: instance.provider for instance in built_in_instances()}
    labels = {first_label(node_labels, NODE_LABELS): node_labels for node_labels in nodes}
    providers: dict[str, str] = {}
    for node in ids.keys() | labels.keys():
        start = ids.get(node, "")
        by_id = (name for prefix, name in _PROVIDERS.items() if start.startswith(prefix))
        instance_type = first_label(labels.get(node, {}), _INSTANCE_TYPES)
        provider = next(by_id, "") or sellers.get(instance_type, "")
        if provider:
            providers |= dict.fromkeys(names_of_node(node), provider)
    return providers


def namespace_key(namespace: str) -> str:
    """Return the key for the team of a namespace, beside those of workloads."""
    return f"namespace:{namespace}"
