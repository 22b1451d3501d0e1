"""Pods and their owners from kube-state-metrics series, however these were scraped."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from rightsizer.fleet.sources.series import first_label, one_of, selector
from rightsizer.fleet.store import MetricStore
from rightsizer.model.units import NANOSECONDS_PER_SECOND, Nanoseconds
from rightsizer.model.workload import PodOwner, Workload, WorkloadClass, WorkloadKind, owner_of_pod

POD_LABELS: Final = ("exported_pod", "pod")
"""Without honorLabels, `pod` is that of kube-state-metrics itself."""
NAMESPACE_LABELS: Final = ("exported_namespace", "namespace")
NODE_LABELS: Final = ("exported_node", "node")
_AT_ONCE: Final = 200
"""Names in one query, so that none grows too long."""


class Pod(NamedTuple):
    """A pod by name."""

    namespace: str
    name: str

    @classmethod
    def of(cls, labels: Mapping[str, str]) -> "Pod":
        """The pod that a series is about."""
        return cls(namespace_in(labels), first_label(labels, POD_LABELS))


@dataclass(frozen=True, slots=True)
class LookbackSpan:
    """A time in which something was there."""

    end: Nanoseconds
    length: Nanoseconds

    @property
    def range(self) -> str:
        """As PromQL writes it."""
        return f"[{self.length // NANOSECONDS_PER_SECOND}s]"


def namespace_in(labels: Mapping[str, str]) -> str:
    """The namespace of what a series is about."""
    return first_label(labels, NAMESPACE_LABELS)


def told(
    store: MetricStore,
    metric: str,
    names: tuple[Sequence[str], Collection[str]],
    by: Sequence[str],
    span: LookbackSpan,
) -> list[Mapping[str, str]]:
    """The labels of a metric's series, for objects of some names.

    Args:
        store: Whom to ask.
        metric: Its name.
        names: The labels that may hold the name, and the names.
        by: The labels that are wanted beside those and the namespace.
        span: When they were there.
    """
    labels, wanted = names
    chosen = sorted(wanted)
    listed = ", ".join(dict.fromkeys((*NAMESPACE_LABELS, *labels, *by)))
    found: list[Mapping[str, str]] = []
    for first in range(0, len(chosen), _AT_ONCE):
        some = chosen[first : first + _AT_ONCE]
        parts = [
            f"last_over_time({selector(metric, one_of(label, some))}{span.range})"
            for label in labels
        ]
        query = f"group by ({listed}) ({' or '.join(parts)})"
        found += [series.labels for series in store.instant(query, span.end)]
    return found


_CLASSES: Final = {
    "Deployment": WorkloadClass.SERVING,
    "Rollout": WorkloadClass.SERVING,
    "Job": WorkloadClass.BATCH,
    "CronJob": WorkloadClass.BATCH,
    "MPIJob": WorkloadClass.BATCH,
    "PyTorchJob": WorkloadClass.BATCH,
    "TFJob": WorkloadClass.BATCH,
    "Workflow": WorkloadClass.BATCH,
    "Notebook": WorkloadClass.NOTEBOOK,
}
_NAMED_LIKE_ITS_PODS: Final = frozenset({"", "<none>", "Node", "StatefulSet"})
"""A stateful set's pods keep their names, and `llama-2` is no replica of `llama`."""
_OWNER_LABELS: Final = ("owner_kind", "owner_name", "owner_is_controller")


class _Maker(NamedTuple):
    kind: str
    name: str


def workload_of(pod: Pod, owner: PodOwner, container: str = "") -> Workload:
    """The workload that a pod is a part of, by the key that its successors have too."""
    return Workload(
        f"kubernetes:{pod.namespace}/{owner.name}",
        WorkloadKind.KUBERNETES,
        owner.name,
        owner.workload_class,
        namespace=pod.namespace,
        pod=pod.name,
        container=container,
    )


class PodOwners:
    """Asks about each pod once: names of pods come and go, and none comes again."""

    def __init__(self) -> None:
        """Nobody was asked about yet."""
        self._known: dict[Pod, PodOwner] = {}

    def of(
        self, store: MetricStore, pods: Iterable[Pod], span: LookbackSpan
    ) -> Mapping[Pod, PodOwner]:
        """Who made each of the pods that were there in a span of time."""
        wanted = set(pods)
        asked = wanted - self._known.keys()
        if asked:
            self._known |= _found(store, asked, span)
        return {pod: self._known[pod] for pod in wanted}


def _found(store: MetricStore, pods: Collection[Pod], span: LookbackSpan) -> dict[Pod, PodOwner]:
    names = {pod.name for pod in pods}
    series = told(store, "kube_pod_owner", (POD_LABELS, names), _OWNER_LABELS, span)
    # The controller comes last, and so it is what stays.
    series.sort(key=lambda labels: labels.get("owner_is_controller", ""))
    makers = {Pod.of(labels): _maker_in(labels) for labels in series}
    above = _above(store, makers.values(), span)
    return {pod: _named(pod, makers.get(pod), above) for pod in pods}


def _above(
    store: MetricStore, makers: Iterable[_Maker], span: LookbackSpan
) -> Mapping[tuple[str, _Maker], _Maker]:
    """Who made the replica sets and the jobs, by namespace and what they are."""
    made = set(makers)
    found: dict[tuple[str, _Maker], _Maker] = {}
    for kind, metric, label in (
        ("ReplicaSet", "kube_replicaset_owner", "replicaset"),
        ("Job", "kube_job_owner", "job_name"),
    ):
        names = {maker.name for maker in made if maker.kind == kind}
        for labels in told(store, metric, ((label,), names), _OWNER_LABELS, span):
            key = namespace_in(labels), _Maker(kind, labels.get(label, ""))
            found[key] = _maker_in(labels)
    return found


def _named(pod: Pod, maker: _Maker | None, above: Mapping[tuple[str, _Maker], _Maker]) -> PodOwner:
    guessed = owner_of_pod(pod.name)
    if maker is None:
        return guessed
    if maker.kind in _NAMED_LIKE_ITS_PODS:
        return PodOwner(pod.name, guessed.workload_class)
    top = above.get((pod.namespace, maker))
    if top is not None and top.kind not in _NAMED_LIKE_ITS_PODS:
        maker = top
    elif maker.kind == "ReplicaSet":
        return guessed
    return PodOwner(maker.name, _CLASSES.get(maker.kind, guessed.workload_class))


def _maker_in(labels: Mapping[str, str]) -> _Maker:
    return _Maker(labels.get("owner_kind", ""), labels.get("owner_name", ""))
