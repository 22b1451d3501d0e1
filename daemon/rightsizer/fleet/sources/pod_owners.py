"""Owners of pods in a store with kube-state-metrics: what made them, through any chain."""

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from itertools import chain
from typing import Final, NamedTuple

from msgspec import Struct

from rightsizer.fleet.cache.grid import COARSE_STEP
from rightsizer.fleet.prometheus.selector import selector
from rightsizer.fleet.source import MetricStore
from rightsizer.fleet.sources.series import first_label, shares_of
from rightsizer.model.values import (
    NANOSECONDS_PER_SECOND,
    Nanoseconds,
    PodController,
    PodOwner,
    StoreLimitError,
    WorkloadClass,
    cron_run_of,
    lasting_name,
    owner_of_pod,
)
from rightsizer.owners.pod_controllers import CONTROLLER_KINDS

POD_LABELS: Final = ("exported_pod", "pod")
"""Without honorLabels, `pod` is that of kube-state-metrics itself."""
NAMESPACE_LABELS: Final = ("exported_namespace", "namespace")
NODE_LABELS: Final = ("exported_node", "node")
POD: Final = ", ".join((*POD_LABELS, *NAMESPACE_LABELS))
"""Labels that name a pod."""


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
    label_sets: list[Mapping[str, str]] = []
    for some in shares_of(sorted(wanted)):
        values = [selector(metric, {label: some}) for label in labels]
        label_sets += _labels_over(store, listed, values, span)
    return label_sets


_SHORTEST: Final[Nanoseconds] = COARSE_STEP // 4


def _labels_over(
    store: MetricStore, listed: str, values: Sequence[str], span: LookbackSpan
) -> list[Mapping[str, str]]:
    """Query some selectors; halves the span if a store limits it."""
    past = f"[{span.length // NANOSECONDS_PER_SECOND}s]"
    parts = " or ".join(f"last_over_time({value}{past})" for value in values)
    try:
        sampled_series = store.instant(f"group by ({listed}) ({parts})", span.end)
    except StoreLimitError:
        if (half := span.length // 2) < _SHORTEST:
            raise
        halves = LookbackSpan(span.end - half, span.length - half), LookbackSpan(span.end, half)
        return [labels for part in halves for labels in _labels_over(store, listed, values, part)]
    return [series.labels for series in sampled_series]


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
    controllers: dict[Pod, PodController] = {}
    for labels in object_labels(store, "kube_pod_labels", names, by, span):
        pod = Pod.of(labels)
        for kind, (name_label, *kind_labels) in _LABELS_BY_KIND.items():
            name = labels.get(name_label)
            if name and pod in wanted and all(labels.get(label) == kind for label in kind_labels):
                is_last = not CONTROLLER_KINDS[kind].may_be_owned
                controllers.setdefault(pod, PodController(kind, name, is_last))
    return controllers


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
    workload_class = _class_of(kind) or _class_of(controller[0])
    return lasting_name(name), workload_class or guessed.workload_class


def _class_of(kind: str) -> WorkloadClass | None:
    row = CONTROLLER_KINDS.get(kind)
    if row is not None:
        return row.workload_class
    return WorkloadClass.BATCH if _BATCH.fullmatch(kind) else None
