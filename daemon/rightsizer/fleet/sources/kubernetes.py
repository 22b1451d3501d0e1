"""Kubernetes objects in a store with kube-state-metrics: pods, nodes and owners."""

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from itertools import chain
from typing import Final, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from rightsizer.fleet.cache.grid import COARSE_STEP
from rightsizer.fleet.model import FleetInventory, WaitingWork
from rightsizer.fleet.prometheus.selector import selector
from rightsizer.fleet.settings import FleetSettings
from rightsizer.fleet.source import MetricStore, SourceReport
from rightsizer.fleet.sources.series import first_label, names_of, names_of_node, shares_of
from rightsizer.model.errors import StoreLimitError
from rightsizer.model.units import NANOSECONDS_PER_SECOND, Nanoseconds, seconds
from rightsizer.model.workload import (
    PodOwner,
    Workload,
    WorkloadClass,
    WorkloadKind,
    cron_run_of,
    lasting_name,
    owner_of_pod,
)

POD_LABELS: Final = ("exported_pod", "pod")
"""Without honorLabels, `pod` is that of kube-state-metrics itself."""
NAMESPACE_LABELS: Final = ("exported_namespace", "namespace")
NODE_LABELS: Final = ("exported_node", "node")


class Pod(NamedTuple):
    """A pod by name."""

    namespace: str
    name: str

    @classmethod
    def of(cls, labels: Mapping[str, str]) -> "Pod":
        """Return the pod of a series."""
        return cls(namespace_in(labels), first_label(labels, POD_LABELS))


class LookbackSpan(Struct, frozen=True):
    """Span in which something was present."""

    end: Nanoseconds
    length: Nanoseconds


def namespace_in(labels: Mapping[str, str]) -> str:
    """Return the namespace of a series' object."""
    return first_label(labels, NAMESPACE_LABELS)


def object_labels(
    store: MetricStore,
    metric: str,
    names: tuple[Sequence[str], Collection[str]],
    by: Sequence[str],
    span: LookbackSpan,
) -> list[Mapping[str, str]]:
    """Return the labels of a metric's series over a span, for objects with some names.

    `names` has the labels that may contain the name, and the names; `by` the labels to return
    beside those and the namespace.
    """
    labels, wanted = names
    listed = ", ".join(dict.fromkeys((*NAMESPACE_LABELS, *labels, *by)))
    found: list[Mapping[str, str]] = []
    for some in shares_of(sorted(wanted)):
        values = [selector(metric, {label: some}) for label in labels]
        found += _labels_over(store, listed, values, span)
    return found


_SHORTEST: Final[Nanoseconds] = COARSE_STEP // 4


def _labels_over(
    store: MetricStore, listed: str, values: Sequence[str], span: LookbackSpan
) -> list[Mapping[str, str]]:
    """Query some selectors; halves the span if a store limits it."""
    past = f"[{span.length // NANOSECONDS_PER_SECOND}s]"
    parts = " or ".join(f"last_over_time({value}{past})" for value in values)
    try:
        found = store.instant(f"group by ({listed}) ({parts})", span.end)
    except StoreLimitError:
        if (half := span.length // 2) < _SHORTEST:
            raise
        halves = LookbackSpan(span.end - half, span.length - half), LookbackSpan(span.end, half)
        return [each for part in halves for each in _labels_over(store, listed, values, part)]
    return [series.labels for series in found]


_BATCH: Final = re.compile(r".*Job|JobSet|SparkApplication|TaskRun|Workflow")
"""Each training operator has a kind of job of its own."""
_SERVING: Final = ("CloneSet", "Deployment", "DeploymentConfig", "Rollout")
_CLASSES: Final = {
    **dict.fromkeys(_SERVING, WorkloadClass.SERVING),
    "Notebook": WorkloadClass.NOTEBOOK,
}
_NAMED_LIKE_ITS_PODS: Final = frozenset({"", "<none>", "Node", "StatefulSet"})
"""Pods of a stateful set keep their names, and `llama-2` is no replica of `llama`."""
_OWNER: Final = ("owner_kind", "owner_name", "owner_is_controller")
_MADE: Final = (
    ("ReplicaSet", "kube_replicaset_owner", ("replicaset",)),
    ("ReplicationController", "kube_replicationcontroller_owner", ("replicationcontroller",)),
    ("Job", "kube_job_owner", ("job_name",)),
    ("Pod", "kube_pod_owner", POD_LABELS),
    # Of a LeaderWorkerSet, the set of a group's workers is named like their leader's pod.
    ("StatefulSet", "kube_pod_owner", POD_LABELS),
)
"""Owners that are owned themselves, as Spark's driver is: kind, metric, and labels of the name."""


def workload_key(pod: Pod, owner: PodOwner) -> str:
    """Return the key of a pod's workload, which its successors share."""
    return f"kubernetes:{pod.namespace}/{owner.name}"


class PodOwners:
    """Owners of pods, each read once: pod names are unique over time."""

    def __init__(self) -> None:
        self._known: dict[Pod, PodOwner] = {}

    def of(
        self, store: MetricStore, pods: Iterable[Pod], span: LookbackSpan
    ) -> Mapping[Pod, PodOwner]:
        """Return the owners of the pods that were present in a span."""
        wanted = set(pods)
        if unknown := wanted - self._known.keys():
            names = {pod.name for pod in unknown}
            series = object_labels(store, "kube_pod_owner", (POD_LABELS, names), _OWNER, span)
            # The controller comes last, so it wins.
            series.sort(key=lambda labels: labels.get("owner_is_controller", ""))
            controllers = {Pod.of(labels): _controller_in(labels) for labels in series}
            above: dict[tuple[str, tuple[str, str]], tuple[str, str]] = {}
            for kind, metric, by in _MADE:
                made = {name for of_kind, name in controllers.values() if of_kind == kind}
                for labels in object_labels(store, metric, (by, made), _OWNER, span):
                    key = namespace_in(labels), (kind, first_label(labels, by))
                    above[key] = _controller_in(labels)
            for pod in unknown:
                controller = controllers.get(pod)
                top = above.get((pod.namespace, controller)) if controller else None
                self._known[pod] = _owner(pod, controller, top)
        return {pod: self._known[pod] for pod in wanted}


def _controller_in(labels: Mapping[str, str]) -> tuple[str, str]:
    return labels.get("owner_kind", ""), labels.get("owner_name", "")


def _owner(pod: Pod, controller: tuple[str, str] | None, top: tuple[str, str] | None) -> PodOwner:
    guessed = owner_of_pod(pod.name)
    if controller is None:
        return guessed
    if controller[0] in _NAMED_LIKE_ITS_PODS:
        return PodOwner(controller[1] if top else pod.name, guessed.workload_class)
    has_owner = top is not None and top[0] not in _NAMED_LIKE_ITS_PODS
    if not has_owner and controller[0] == "ReplicaSet":
        # Without kube_replicaset_owner, its name has the Deployment's and a hash.
        deployment = "" if top else lasting_name(controller[1].rpartition("-")[0])
        return PodOwner(deployment, WorkloadClass.SERVING) if deployment else guessed
    if top is None and cron_run_of(pod.name):
        return guessed  # Without kube_job_owner, each run would be a workload of its own.
    kind, name = top if top is not None and has_owner else controller
    known = _class_of(kind) or _class_of(controller[0])
    return PodOwner(lasting_name(name), known or guessed.workload_class)


def _class_of(kind: str) -> WorkloadClass | None:
    return WorkloadClass.BATCH if _BATCH.fullmatch(kind) else _CLASSES.get(kind)


_POD: Final = ", ".join((*POD_LABELS, *NAMESPACE_LABELS))
_REQUESTED: Final = (
    f"max by ({_POD}, container, exported_container, resource)"
    ' (kube_pod_container_resource_requests{resource=~"nvidia_com_(gpu(_.+)?|mig_.+)"})'
)
"""Not HAMi's `nvidia.com/gpumem` and `nvidia.com/gpucores`: parts of the GPUs beside them."""
# Pods are also pending while images are pulled, on a node whose GPUs they already hold.
_PENDING: Final = (
    f'max by ({_POD}) (kube_pod_status_phase{{phase="Pending"}}) == 1 unless on ({_POD})'
    f' (max by ({_POD}) (kube_pod_status_scheduled{{condition="true"}}) == 1)'
)
_SLICE: Final = re.compile(r"nvidia_com_mig_(\d)g")
_SLICES: Final = 7
"""Per whole GPU, on boards with MIG."""


_CAPACITY: Final = (
    f"max by ({', '.join(NODE_LABELS)}, resource)"
    ' (kube_node_status_capacity{resource=~"nvidia_com_gpu(_.+)?"}) > 0'
)


def gpus_of_resources(
    store: MetricStore, boards: Mapping[str, int], now: Nanoseconds
) -> Mapping[str, float]:
    """Return how many GPUs one of each resource is: time slicing and MIG give several of a GPU.

    `boards` counts the GPUs by node. Where nodes differ, the largest part counts.
    """
    found: dict[str, float] = {}
    for series in store.instant(_CAPACITY, now):
        node = first_label(series.labels, NODE_LABELS)
        if count := max(boards.get(name, 0) for name in names_of_node(node)):
            part = min(1.0, count / series.value)
            resource = series.labels.get("resource", "")
            found[resource] = max(part, found.get(resource, 0.0))
    return found


def waiting_pods(
    store: MetricStore,
    owners: PodOwners,
    selectors: Sequence[str],
    boards: Mapping[str, int],
    now: Nanoseconds,
) -> tuple[WaitingWork, ...]:
    """Return the work that waits now, by workload: pending pods without a node.

    `selectors` are labels of `kube_pod_nodeselectors` that name a pool, in order of preference.
    """
    requested = store.instant(f"{_REQUESTED} and on ({_POD}) ({_PENDING})", now)
    if not requested:
        return ()
    gpus: defaultdict[Pod, float] = defaultdict(float)
    parts = gpus_of_resources(store, boards, now)
    for series in requested:
        resource = series.labels.get("resource", "")
        mig = _SLICE.match(resource)
        part = int(mig[1]) / _SLICES if mig else parts.get(resource, 1.0)
        gpus[Pod.of(series.labels)] += series.value * part
    created = f"max by ({_POD}) (kube_pod_created) and on ({_POD}) ({_PENDING})"
    since = {Pod.of(series.labels): series.value for series in store.instant(created, now)}
    pools: dict[Pod, str] = {}
    if selectors:
        by = ", ".join((_POD, *selectors))
        query = f"group by ({by}) (kube_pod_nodeselectors) and on ({_POD}) ({_PENDING})"
        for series in store.instant(query, now):
            pools[Pod.of(series.labels)] = first_label(series.labels, selectors)
    owner_by_pod = owners.of(store, gpus, LookbackSpan(now, COARSE_STEP))
    pods: defaultdict[str, list[Pod]] = defaultdict(list)
    for pod in sorted(gpus):
        pods[workload_key(pod, owner_by_pod[pod])].append(pod)
    return tuple(
        WaitingWork(
            key=key,
            pool=next((pools[pod] for pod in some if pools.get(pod)), ""),
            gpus=sum(gpus[pod] for pod in some),
            since_seconds=max(
                (seconds(now) - since[pod] for pod in some if pod in since), default=None
            ),
            gpus_each=max(gpus[pod] for pod in some),
            namespace=some[0].namespace,
        )
        for key, some in sorted(pods.items())
    )


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
    "kube-state-metrics tells none of the labels of {objects} that are looked for ({labels}): "
    "start it with --metric-labels-allowlist={objects}=[*]."
)
_NODE_LABEL: Final = "label_"


def _cannot(store: MetricStore, metrics: AbstractSet[str], now: Nanoseconds) -> Iterator[str]:
    for names, _, cannot in _MEANINGS:
        if missing := [name for name in names if name not in metrics]:
            yield f"{cannot}: {' and '.join(missing)} {'are' if missing[1:] else 'is'} not there."
    if store.instant(f"count({_CLAIMED} and on ({_POD}) ({_PENDING}))", now):
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
        for objects, metric, labels in (
            ("nodes", "kube_node_labels", self._settings.pool_labels),
            ("pods", "kube_pod_labels", self._settings.team_labels),
        ):
            some = " or ".join(f'{metric}{{{label}!=""}}' for label in labels)
            if metric in metrics and some and not store.instant(f"count({some})", now):
                warnings.append(_NO_LABELS.format(objects=objects, labels=", ".join(labels)))
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
        boards = {each.device.board_uuid: {*names_of_node(each.node)} for each in devices.values()}
        gpus = Counter(chain.from_iterable(boards.values()))
        present, pools = self._pools(store, gpus.keys(), LookbackSpan(now, lookback))
        for uuid, device in inventory.devices.items():
            names = names_of_node(device.node)
            pool = next(filter(None, map(pools.get, names)), device.pool)
            # A node that its scheduler has let go is missed by no one.
            is_listed = not present.isdisjoint(names)
            scheduler = WorkloadKind.KUBERNETES if is_listed else device.scheduler
            devices[uuid] = replace(device, pool=pool, scheduler=scheduler)
        teams = {**self._teams(store, inventory.workloads.values(), now), **inventory.teams}
        # Node selector labels of pods that name a pool, as spelled by kube-state-metrics.
        selectors = tuple(
            f"nodeselector_{label.removeprefix(_NODE_LABEL)}"
            for label in self._settings.pool_labels
            if label.startswith(_NODE_LABEL)
        )
        waiting = waiting_pods(store, self._owners, selectors, gpus, now)
        return replace(
            inventory, devices=devices, teams=teams, waiting=(*inventory.waiting, *waiting)
        )

    def _pools(
        self, store: MetricStore, nodes: AbstractSet[str], span: LookbackSpan
    ) -> tuple[frozenset[str], Mapping[str, str]]:
        """Return the present nodes, and pools by node, of `nodes` also those that are gone."""
        labels = self._settings.pool_labels
        by = ", ".join((*NODE_LABELS, *labels))
        query = f"group by ({by}) (kube_node_labels)"
        found = [series.labels for series in store.instant(query, span.end)]
        names = (names_of_node(first_label(each, NODE_LABELS)) for each in found)
        present = frozenset(chain.from_iterable(names))
        gone = NODE_LABELS, nodes - present
        found += object_labels(store, "kube_node_labels", gone, labels, span)
        # Of two series of a node, the one with a label comes last, so it wins.
        found.sort(key=lambda each: first_label(each, labels))
        pools = {first_label(each, NODE_LABELS): first_label(each, labels) for each in found}
        return present, {names_of_node(node)[-1]: pool for node, pool in pools.items()} | pools

    def _teams(
        self, store: MetricStore, workloads: Iterable[Workload], now: Nanoseconds
    ) -> Mapping[str, str]:
        """Return the teams of namespaces, and of workloads whose pods name another."""
        labels = self._settings.team_labels
        by = ", ".join((*NAMESPACE_LABELS, *labels))
        named = store.instant(f"group by ({by}) (kube_namespace_labels)", now)
        teams = {
            namespace_key(namespace_in(each.labels)): team
            for each in named
            if (team := first_label(each.labels, labels))
        }
        return {**teams, **self.teams_of_pods(store, workloads, LookbackSpan(now, COARSE_STEP))}

    def teams_of_pods(
        self, store: MetricStore, workloads: Iterable[Workload], span: LookbackSpan
    ) -> Mapping[str, str]:
        """Return the team of each workload whose pod had a label of one within a span, by key."""
        labels = self._settings.team_labels
        keys = {Pod(each.namespace, each.pod): each.key for each in workloads if each.pod}
        names = POD_LABELS, {pod.name for pod in keys}
        return {
            keys[pod]: team
            for found in object_labels(store, "kube_pod_labels", names, labels, span)
            if (pod := Pod.of(found)) in keys and (team := first_label(found, labels))
        }


def namespace_key(namespace: str) -> str:
    """Return the key for the team of a namespace, beside those of workloads."""
    return f"namespace:{namespace}"
