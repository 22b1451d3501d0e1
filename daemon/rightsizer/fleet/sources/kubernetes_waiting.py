"""Pods that wait for GPUs."""

import re
from collections.abc import Mapping
from typing import Final

from rightsizer.domain.units import NANOSECONDS_PER_SECOND, Nanoseconds, seconds
from rightsizer.fleet.estate import Waiting
from rightsizer.fleet.sources.kubernetes_owners import KubernetesOwners, workload_of
from rightsizer.fleet.sources.kubernetes_series import NAMESPACE_LABELS, POD_LABELS, Pod, Span
from rightsizer.fleet.store import Store

__all__ = ["waiting_pods"]

_POD: Final = ", ".join((*POD_LABELS, *NAMESPACE_LABELS))
_REQUESTED: Final = (
    f"max by ({_POD}, container, exported_container, resource)"
    ' (kube_pod_container_resource_requests{resource=~"nvidia_com_(gpu.*|mig_.+)"})'
)
_PENDING: Final = f'max by ({_POD}) (kube_pod_status_phase{{phase="Pending"}}) == 1'
_SLICE: Final = re.compile(r"nvidia_com_mig_(\d)g")
_SLICES: Final = 7
"""Of a whole GPU, on the boards that have MIG."""
_HOUR: Final[Nanoseconds] = 3600 * NANOSECONDS_PER_SECOND


def waiting_pods(
    store: Store, owners: KubernetesOwners, pool: str, now: Nanoseconds
) -> tuple[Waiting, ...]:
    """What waits now, by workload.

    Args:
        store: Whom to ask.
        owners: Who made the pods.
        pool: Of the whole estate, where there is but one; a pending pod has no node yet.
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
    counted: dict[str, float] = {}
    oldest: dict[str, float] = {}
    for pod, count in gpus.items():
        key = workload_of(pod, made_by[pod]).key
        counted[key] = counted.get(key, 0.0) + count
        if pod in since:
            oldest[key] = max(oldest.get(key, 0.0), seconds(now) - since[pod])
    return tuple(Waiting(key, pool, counted[key], oldest.get(key)) for key in sorted(counted))


def _created(store: Store, now: Nanoseconds) -> Mapping[Pod, float]:
    query = f"max by ({_POD}) (kube_pod_created) and on ({_POD}) ({_PENDING})"
    return {Pod.of(series.labels): series.values[0] for series in store.instant(query, now)}


def _part_of_a_gpu(resource: str) -> float:
    found = _SLICE.match(resource)
    return int(found[1]) / _SLICES if found else 1.0
