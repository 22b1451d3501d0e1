"""Pods that wait for GPUs."""

import re
from collections.abc import Mapping, Sequence
from typing import Final

from rightsizer.domain.units import NANOSECONDS_PER_SECOND, Nanoseconds, seconds
from rightsizer.fleet.estate import Waiting
from rightsizer.fleet.sources.kubernetes_owners import KubernetesOwners, workload_of
from rightsizer.fleet.sources.kubernetes_series import NAMESPACE_LABELS, POD_LABELS, Pod, Span
from rightsizer.fleet.sources.labels import first_label
from rightsizer.fleet.store import Store

__all__ = ["waiting_pods"]

_POD: Final = ", ".join((*POD_LABELS, *NAMESPACE_LABELS))
_REQUESTED: Final = (
    f"max by ({_POD}, container, exported_container, resource)"
    ' (kube_pod_container_resource_requests{resource=~"nvidia_com_(gpu.*|mig_.+)"})'
)
# A pod is pending too while its images are pulled, on a node whose GPUs it holds already.
_PENDING: Final = (
    f'max by ({_POD}) (kube_pod_status_phase{{phase="Pending"}}) == 1 unless on ({_POD})'
    f' (max by ({_POD}) (kube_pod_status_scheduled{{condition="true"}}) == 1)'
)
_SLICE: Final = re.compile(r"nvidia_com_mig_(\d)g")
_SLICES: Final = 7
"""Of a whole GPU, on the boards that have MIG."""
_HOUR: Final[Nanoseconds] = 3600 * NANOSECONDS_PER_SECOND


def waiting_pods(
    store: Store, owners: KubernetesOwners, selectors: Sequence[str], now: Nanoseconds
) -> tuple[Waiting, ...]:
    """What waits now, by workload: pending pods that have no node yet.

    Args:
        store: Whom to ask.
        owners: Who made the pods.
        selectors: Labels of `kube_pod_nodeselectors` that name a pool, the first that is there.
        now: Wall time.
    """
    found = store.instant(f"{_REQUESTED} and on ({_POD}) ({_PENDING})", now)
    gpus: dict[Pod, float] = {}
    for series in found:
        pod = Pod.of(series.labels)
        count = series.values[0] * _part_of_a_gpu(series.labels.get("resource", ""))
        gpus[pod] = gpus.get(pod, 0.0) + count
    if not gpus:
        return ()
    since = _created(store, now)
    made_by = owners.of(store, gpus, Span(now, _HOUR))
    pools = _selected(store, selectors, now)
    pods: dict[str, list[Pod]] = {}
    for pod in sorted(gpus):
        pods.setdefault(workload_of(pod, made_by[pod]).key, []).append(pod)
    return tuple(
        Waiting(
            key=key,
            pool=next((pools[pod] for pod in some if pod in pools), ""),
            gpus=sum(gpus[pod] for pod in some),
            since_seconds=max(
                (seconds(now) - since[pod] for pod in some if pod in since), default=None
            ),
            gpus_each=max(gpus[pod] for pod in some),
            namespace=some[0].namespace,
        )
        for key, some in sorted(pods.items())
    )


def _selected(store: Store, selectors: Sequence[str], now: Nanoseconds) -> Mapping[Pod, str]:
    """The pools that pods ask for by name, where kube-state-metrics is told to tell."""
    if not selectors:
        return {}
    by = ", ".join((_POD, *selectors))
    query = f"group by ({by}) (kube_pod_nodeselectors) and on ({_POD}) ({_PENDING})"
    found = store.instant(query, now)
    named = {Pod.of(each.labels): first_label(each.labels, selectors) for each in found}
    return {pod: pool for pod, pool in named.items() if pool}


def _created(store: Store, now: Nanoseconds) -> Mapping[Pod, float]:
    query = f"max by ({_POD}) (kube_pod_created) and on ({_POD}) ({_PENDING})"
    return {Pod.of(series.labels): series.values[0] for series in store.instant(query, now)}


def _part_of_a_gpu(resource: str) -> float:
    found = _SLICE.match(resource)
    return int(found[1]) / _SLICES if found else 1.0
