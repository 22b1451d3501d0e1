"""What kube-state-metrics tells of an estate: pools of nodes, teams, and pods that wait."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

from rightsizer.domain.units import NANOSECONDS_PER_SECOND, Nanoseconds
from rightsizer.domain.workload import Workload, WorkloadKind
from rightsizer.fleet.estate import Estate, EstateDevice
from rightsizer.fleet.settings import FleetSettings
from rightsizer.fleet.source import SourceReport
from rightsizer.fleet.sources.kubernetes_owners import KubernetesOwners
from rightsizer.fleet.sources.kubernetes_series import (
    NAMESPACE_LABELS,
    NODE_LABELS,
    POD_LABELS,
    Pod,
    Span,
    namespace_in,
    told,
)
from rightsizer.fleet.sources.kubernetes_waiting import waiting_pods
from rightsizer.fleet.sources.labels import first_label, one_of
from rightsizer.fleet.store import Store

__all__ = ["KubernetesState"]

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
    (
        "kube_pod_owner",
        "Pods are counted to the workloads that made them.",
        "Pods are counted to workloads by their names alone: kube_pod_owner is not there.",
    ),
    (
        "kube_node_labels",
        "Nodes are grouped into pools by their labels.",
        "Nodes are grouped by board alone: kube_node_labels is not there.",
    ),
    (
        "kube_pod_status_phase",
        "Pods that wait for GPUs are known.",
        "Whether pods wait for GPUs is not known: kube_pod_status_phase is not there.",
    ),
)
_NO_LABELS: Final = (
    "kube-state-metrics tells none of the labels of {objects} that are looked for ({labels}): "
    "start it with --metric-labels-allowlist={objects}=[*]."
)
_NODE_LABEL: Final = "label_"
_SPAN: Final[Nanoseconds] = 3600 * NANOSECONDS_PER_SECOND


class KubernetesState:
    """Adds to an estate what Kubernetes knows of it."""

    name: Final = "kube-state-metrics"

    def __init__(
        self, settings: FleetSettings | None = None, owners: KubernetesOwners | None = None
    ) -> None:
        """Asks nobody yet."""
        self._settings = settings or FleetSettings()
        self._owners = owners or KubernetesOwners()

    def probe(self, store: Store, now: Nanoseconds) -> SourceReport:
        """Which of its metrics are there, and what follows."""
        found = store.instant(f"count by (__name__) ({{{one_of('__name__', _NAMES)}}})", now)
        metrics = frozenset(series.labels["__name__"] for series in found)
        if not metrics:
            return SourceReport(self.name)
        return SourceReport(
            self.name,
            metrics=metrics,
            can=tuple(can for name, can, _ in _MEANINGS if name in metrics),
            cannot=tuple(cannot for name, _, cannot in _MEANINGS if name not in metrics),
            warnings=tuple(self._warnings(store, metrics, now)),
        )

    def enrich(self, store: Store, estate: Estate, now: Nanoseconds) -> Estate:
        """The estate with pools of nodes, teams, and what waits."""
        pools = self._pools(store, now)
        devices = {
            uuid: _placed(device, pools.get(device.node, pools.get(_host(device.node))))
            for uuid, device in estate.devices.items()
        }
        teams = {**self._teams(store, estate.workloads.values(), now), **estate.teams}
        waiting = waiting_pods(store, self._owners, self._selectors, now)
        return replace(estate, devices=devices, teams=teams, waiting=(*estate.waiting, *waiting))

    @property
    def _selectors(self) -> tuple[str, ...]:
        """What kube-state-metrics calls a pod's wish for a node with the label of a pool."""
        labels = (each for each in self._settings.pool_labels if each.startswith(_NODE_LABEL))
        return tuple(f"nodeselector_{each.removeprefix(_NODE_LABEL)}" for each in labels)

    def _warnings(self, store: Store, metrics: frozenset[str], now: Nanoseconds) -> Iterable[str]:
        for objects, metric, labels in (
            ("nodes", "kube_node_labels", self._settings.pool_labels),
            ("pods", "kube_pod_labels", self._settings.team_labels),
        ):
            if metric not in metrics:
                continue
            some = " or ".join(f'{metric}{{{label}!=""}}' for label in labels)
            if some and not store.instant(f"count({some})", now):
                yield _NO_LABELS.format(objects=objects, labels=", ".join(labels))

    def _pools(self, store: Store, now: Nanoseconds) -> Mapping[str, str]:
        """By the name of each node, with its domain and without; empty where no label tells."""
        labels = self._settings.pool_labels
        by = ", ".join((*NODE_LABELS, *labels))
        found = store.instant(f"group by ({by}) (kube_node_labels)", now)
        # Where two tell of a node, the one with a label comes last, and so it is what stays.
        named = sorted(
            (first_label(each.labels, NODE_LABELS), first_label(each.labels, labels))
            for each in found
        )
        pools = {node: pool for node, pool in named if node}
        return {**{_host(node): pool for node, pool in pools.items()}, **pools}

    def _teams(
        self, store: Store, workloads: Iterable[Workload], now: Nanoseconds
    ) -> Mapping[str, str]:
        """By workload: what its pod says, else its namespace; else the namespace's name."""
        mine = [each for each in workloads if each.kind is WorkloadKind.KUBERNETES]
        if not mine:
            return {}
        labels, span = self._settings.team_labels, Span(now, _SPAN)
        pods = {each.pod for each in mine if each.pod}
        of_pods = {
            Pod.of(found): first_label(found, labels)
            for found in told(store, "kube_pod_labels", (POD_LABELS, pods), labels, span)
        }
        spaces = {each.namespace for each in mine}
        of_spaces = {
            namespace_in(found): first_label(found, labels)
            for found in told(
                store, "kube_namespace_labels", (NAMESPACE_LABELS, spaces), labels, span
            )
        }
        return {
            each.key: of_pods.get(Pod(each.namespace, each.pod))
            or of_spaces.get(each.namespace)
            or each.namespace
            for each in mine
        }


def _placed(device: EstateDevice, pool: str | None) -> EstateDevice:
    """On a node of a pool; `None` for a node that Kubernetes does not know."""
    if pool is None:
        return device
    return replace(device, pool=pool or device.pool, scheduler=WorkloadKind.KUBERNETES)


def _host(node: str) -> str:
    return node.partition(".")[0]
