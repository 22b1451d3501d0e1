"""Kubernetes objects in a store with kube-state-metrics: pods, nodes and owners."""

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from itertools import chain
from typing import Final, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from rightsizer.catalogue.prices import built_in_instances
from rightsizer.fleet.cache.grid import COARSE_STEP
from rightsizer.fleet.model import CloudPlace, FleetInventory, WaitingWork
from rightsizer.fleet.prometheus.selector import selector
from rightsizer.fleet.settings import FleetSettings
from rightsizer.fleet.source import MetricStore, SourceReport
from rightsizer.fleet.sources.series import first_label, names_of, names_of_node, shares_of
from rightsizer.model.errors import StoreLimitError
from rightsizer.model.units import NANOSECONDS_PER_SECOND, Nanoseconds, seconds
from rightsizer.model.workload import (
    PodController,
    PodOwner,
    Workload,
    WorkloadClass,
    WorkloadKind,
    cron_run_of,
    lasting_name,
    owner_of_pod,
)
from rightsizer.owners.pod_controllers import CONTROLLER_KINDS

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


_BATCH: Final = re.compile(r".*Job")
"""Each training operator has a kind of job of its own."""
_NAMED_LIKE_ITS_PODS: Final = frozenset({"", "<none>", "Node", "StatefulSet"})
"""Pods of a stateful set keep their names, and `llama-2` is no replica of `llama`."""
_NO_OWNER: Final = frozenset({"", "<none>"})
_OWNER: Final = ("owner_kind", "owner_name", "owner_is_controller")
_NAME_LABELS: Final[Mapping[str, tuple[str, Sequence[str]]]] = {
    "Job": ("kube_job_owner", ("job_name",)),
    "Pod": ("kube_pod_owner", POD_LABELS),
    # Of a LeaderWorkerSet, the set of a group's workers is named like their leader's pod.
    "StatefulSet": ("kube_pod_owner", POD_LABELS),
}
"""Metric of the owner, and labels of the name, by kind where they do not follow from the kind."""
_LONGEST_CHAIN: Final = 6
"""Pod, ReplicaSet, Deployment, and revision, configuration and service of Knative."""

ObjectName = tuple[str, str]
"""Kind and name within a namespace."""


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
            chains = _chains(store, unknown, span)
            labeled = _labeled(store, (pod for pod in unknown if not chains[pod].is_whole), span)
            for pod, chain in chains.items():
                self._known[pod] = _owner(pod, chain, labeled.get(pod))
        return {pod: self._known[pod] for pod in wanted}


class _OwnerChain(NamedTuple):
    """Objects above a pod, nearest first."""

    objects: tuple[ObjectName, ...]
    is_whole: bool
    """Whether nothing is above the last, or the pod without any."""


def _chains(
    store: MetricStore, pods: AbstractSet[Pod], span: LookbackSpan
) -> dict[Pod, _OwnerChain]:
    """Follow the owners of pods as far as the store tells them."""
    owners: dict[tuple[str, ObjectName], ObjectName] = {}
    due = {(pod.namespace, ("Pod", pod.name)) for pod in pods}
    asked = set[tuple[str, ObjectName]]()
    for _ in range(_LONGEST_CHAIN):
        asked |= due
        names: defaultdict[str, set[str]] = defaultdict(set)
        for _, (kind, name) in due:
            names[kind].add(name)
        for kind, some in sorted(names.items()):
            owners |= _owners_of(store, kind, some, span)
        above = {(one[0], owners[one]) for one in due if one in owners}
        due = {one for one in above - asked if one[1][0] not in _NO_OWNER}
        if not due:
            break
    return {pod: _chain(pod, owners) for pod in pods}


def _owners_of(
    store: MetricStore, kind: str, names: Collection[str], span: LookbackSpan
) -> dict[tuple[str, ObjectName], ObjectName]:
    """Return what owns some objects of a kind, by namespace and object."""
    if not kind.isidentifier():
        return {}
    usual = f"kube_{kind.lower()}_owner", (kind.lower(),)
    metric, by = _NAME_LABELS.get(kind, usual)
    series = object_labels(store, metric, (by, names), _OWNER, span)
    # The controller comes last, so it wins.
    series.sort(key=lambda labels: labels.get("owner_is_controller", ""))
    return {
        (namespace_in(labels), (kind, first_label(labels, by))): (
            labels.get("owner_kind", ""),
            labels.get("owner_name", ""),
        )
        for labels in series
    }


def _chain(pod: Pod, owners: Mapping[tuple[str, ObjectName], ObjectName]) -> _OwnerChain:
    objects: list[ObjectName] = []
    last: ObjectName = ("Pod", pod.name)
    while len(objects) < _LONGEST_CHAIN:
        above = owners.get((pod.namespace, last))
        if above is None:
            return _OwnerChain(tuple(objects), is_whole=False)
        if above[0] in _NO_OWNER:
            # That no pod has a set's name does not tell what owns the set.
            return _OwnerChain(tuple(objects), is_whole=last[0] != "StatefulSet")
        objects.append(above)
        last = above
    return _OwnerChain(tuple(objects), is_whole=False)


_LABELS_BY_KIND: Final = {
    kind: [f"label_{re.sub(r'[^a-zA-Z0-9]', '_', label)}" for label in row.labels]
    for kind, row in CONTROLLER_KINDS.items()
    if row.labels
}


def _labeled(
    store: MetricStore, pods: Iterable[Pod], span: LookbackSpan
) -> dict[Pod, PodController]:
    """Return what made pods by the labels that operators give them, the topmost object."""
    wanted = {*pods}
    names = POD_LABELS, {pod.name for pod in wanted}
    by = sorted(set(chain.from_iterable(_LABELS_BY_KIND.values())))
    found: dict[Pod, PodController] = {}
    for labels in object_labels(store, "kube_pod_labels", names, by, span):
        pod = Pod.of(labels)
        for kind, (name_label, *kind_labels) in _LABELS_BY_KIND.items():
            name = labels.get(name_label)
            if name and pod in wanted and all(labels.get(label) == kind for label in kind_labels):
                is_last = not CONTROLLER_KINDS[kind].may_be_owned
                found.setdefault(pod, PodController(kind, name, is_last))
    return found


def _owner(pod: Pod, above: _OwnerChain, labeled: PodController | None) -> PodOwner:
    """Return the owner of a pod: a name that its successors share, and what to change."""
    guessed = owner_of_pod(pod.name)
    controller = labeled or _controller(pod, above)
    name, workload_class = _lasting(pod, above, guessed)
    of_labels = CONTROLLER_KINDS[labeled.kind].workload_class if labeled else None
    return PodOwner(name, of_labels or workload_class, controller)


def _controller(pod: Pod, above: _OwnerChain) -> PodController | None:
    """Return the last object of a chain; `None` if nothing is told."""
    if not above.objects:
        return PodController("Pod", pod.name) if above.is_whole else None
    kind, name = above.objects[-1]
    row = CONTROLLER_KINDS.get(kind)
    is_last = above.is_whole or (row is not None and not row.may_be_owned)
    return PodController(kind, name, is_last)


def _lasting(pod: Pod, above: _OwnerChain, guessed: PodOwner) -> tuple[str, WorkloadClass]:
    """Return the name that a pod shares with its successors, and its class."""
    if not above.objects:
        name = pod.name if above.is_whole else guessed.name
        return name, guessed.workload_class
    controller, *higher = above.objects
    top = higher[0] if higher else None
    if controller[0] in _NAMED_LIKE_ITS_PODS:
        return controller[1] if top else pod.name, guessed.workload_class
    has_owner = top is not None and top[0] not in _NAMED_LIKE_ITS_PODS
    if not has_owner and controller[0] == "ReplicaSet" and not above.is_whole:
        # Without kube_replicaset_owner, its name has the Deployment's and a hash.
        deployment = lasting_name(controller[1].rpartition("-")[0])
        if deployment:
            return deployment, WorkloadClass.SERVING
        return guessed.name, guessed.workload_class
    if top is None and not above.is_whole and cron_run_of(pod.name):
        # Without kube_job_owner, each run would be a workload of its own.
        return guessed.name, guessed.workload_class
    kind, name = top if top is not None and has_owner else controller
    known = _class_of(kind) or _class_of(controller[0])
    return lasting_name(name), known or guessed.workload_class


def _class_of(kind: str) -> WorkloadClass | None:
    row = CONTROLLER_KINDS.get(kind)
    if row is not None:
        return row.workload_class
    return WorkloadClass.BATCH if _BATCH.fullmatch(kind) else None


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
        present, pools, clouds = self._pools(store, gpus.keys(), LookbackSpan(now, lookback))
        for uuid, device in inventory.devices.items():
            names = names_of_node(device.node)
            pool = next(filter(None, map(pools.get, names)), device.pool)
            # A node that its scheduler has let go is missed by no one.
            is_listed = not present.isdisjoint(names)
            scheduler = WorkloadKind.KUBERNETES if is_listed else device.scheduler
            cloud = next((clouds[name] for name in names if name in clouds), device.cloud)
            devices[uuid] = replace(device, pool=pool, scheduler=scheduler, cloud=cloud)
        teams = {**self._teams(store, inventory.workloads.values(), now), **inventory.teams}
        # Node selector labels of pods that name a pool, as spelled by kube-state-metrics.
        selectors = tuple(
            f"nodeselector_{label.removeprefix(_NODE_LABEL)}"
            for label in self._settings.pool_labels
            if label.startswith(_NODE_LABEL)
        )
        waiting = waiting_pods(store, self._owners, selectors, gpus, now)
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
            key: Pod(each.namespace, each.pod)
            for key, each in workloads.items()
            if each.pod and each.controller is None
        }
        owners = self._owners.of(store, pods.values(), LookbackSpan(now, COARSE_STEP))
        found = {
            key: replace(workloads[key], controller=owners[pod].controller)
            for key, pod in pods.items()
        }
        return {**workloads, **found}

    def _pools(
        self, store: MetricStore, nodes: AbstractSet[str], span: LookbackSpan
    ) -> tuple[frozenset[str], Mapping[str, str], Mapping[str, CloudPlace]]:
        """Return the present nodes, and pools and clouds by node, of `nodes` also those gone."""
        labels = self._settings.pool_labels
        by = ", ".join(dict.fromkeys((*NODE_LABELS, *labels, *_REGIONS, *_INSTANCE_TYPES)))
        query = f"group by ({by}) (kube_node_labels)"
        found = [series.labels for series in store.instant(query, span.end)]
        names = (names_of_node(first_label(each, NODE_LABELS)) for each in found)
        present = frozenset(chain.from_iterable(names))
        gone = NODE_LABELS, nodes - present
        found += object_labels(store, "kube_node_labels", gone, labels, span)
        # Of two series of a node, the one with a label comes last, so it wins.
        found.sort(key=lambda each: first_label(each, labels))
        pools = {first_label(each, NODE_LABELS): first_label(each, labels) for each in found}
        clouds = _clouds(store, found, span.end)
        short = {names_of_node(node)[-1]: pool for node, pool in pools.items()}
        return present, short | pools, clouds

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


_REGIONS: Final = (
    "label_topology_kubernetes_io_region",
    "label_failure_domain_beta_kubernetes_io_region",
)
_INSTANCE_TYPES: Final = (
    "label_node_kubernetes_io_instance_type",
    "label_beta_kubernetes_io_instance_type",
)
_PROVIDERS: Final = {"aws": "aws", "azure": "azure", "gce": "gcp", "ocid1.": "oci", "oci": "oci"}
"""Names in the price list, by the start of a node's provider id."""


def _clouds(
    store: MetricStore, nodes: Iterable[Mapping[str, str]], now: Nanoseconds
) -> dict[str, CloudPlace]:
    """Return where nodes are rented, by their labels, their provider ids and instance types."""
    by = ", ".join((*NODE_LABELS, "provider_id"))
    infos = store.instant(f'group by ({by}) (kube_node_info{{provider_id!=""}})', now)
    ids = {
        first_label(each.labels, NODE_LABELS): each.labels.get("provider_id", "") for each in infos
    }
    sellers = {each.name: each.provider for each in built_in_instances()}
    labels = {first_label(each, NODE_LABELS): each for each in nodes}
    found: dict[str, CloudPlace] = {}
    for node in ids.keys() | labels.keys():
        start = ids.get(node, "")
        by_id = (name for prefix, name in _PROVIDERS.items() if start.startswith(prefix))
        instance_type = first_label(labels.get(node, {}), _INSTANCE_TYPES)
        provider = next(by_id, "") or sellers.get(instance_type, "")
        region = first_label(labels.get(node, {}), _REGIONS)
        place = CloudPlace(provider, region, instance_type)
        if place != CloudPlace():
            found |= dict.fromkeys(names_of_node(node), place)
    return found


def namespace_key(namespace: str) -> str:
    """Return the key for the team of a namespace, beside those of workloads."""
    return f"namespace:{namespace}"
