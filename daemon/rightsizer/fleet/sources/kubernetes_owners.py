"""Who made a pod, by what kube-state-metrics tells; by the pod's name where it tells nothing.

A workload has the key that our own agents give it, who know no more than the pod's name.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Final, NamedTuple

from rightsizer.domain.pod_owner import PodOwner, owner_of_pod
from rightsizer.domain.workload import Workload, WorkloadClass, WorkloadKind
from rightsizer.fleet.sources.kubernetes_series import POD_LABELS, Pod, Span, namespace_in, told
from rightsizer.fleet.store import Store

__all__ = ["KubernetesOwners", "workload_of"]

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


class KubernetesOwners:
    """Asks about each pod once: names of pods come and go, and none comes again."""

    def __init__(self) -> None:
        """Nobody was asked about yet."""
        self._known: dict[Pod, PodOwner] = {}

    def of(self, store: Store, pods: Iterable[Pod], span: Span) -> Mapping[Pod, PodOwner]:
        """Who made each of the pods that were there in a span of time."""
        wanted = set(pods)
        asked = wanted - self._known.keys()
        if asked:
            self._known |= _found(store, asked, span)
        return {pod: self._known[pod] for pod in wanted}


def _found(store: Store, pods: Collection[Pod], span: Span) -> dict[Pod, PodOwner]:
    names = {pod.name for pod in pods}
    series = told(store, "kube_pod_owner", (POD_LABELS, names), _OWNER_LABELS, span)
    # The controller comes last, and so it is what stays.
    series.sort(key=lambda labels: labels.get("owner_is_controller", ""))
    makers = {Pod.of(labels): _maker_in(labels) for labels in series}
    above = _above(store, makers.values(), span)
    return {pod: _named(pod, makers.get(pod), above) for pod in pods}


def _above(
    store: Store, makers: Iterable[_Maker], span: Span
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
