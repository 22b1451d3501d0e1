"""Pods that wait for GPUs, in a store with kube-state-metrics."""

from collections import defaultdict
from collections.abc import Sequence
from typing import Final

from rightsizer.fleet.cache.grid import COARSE_STEP
from rightsizer.fleet.model import WaitingWork
from rightsizer.fleet.source import MetricStore
from rightsizer.fleet.sources.gpu_requests import REQUESTS, GpuUnits, containers_of
from rightsizer.fleet.sources.pod_owners import (
    POD,
    LookbackSpan,
    Pod,
    PodOwners,
    workload_key,
)
from rightsizer.fleet.sources.series import first_label
from rightsizer.model.units import Nanoseconds, seconds

# Pods are also pending while images are pulled, on a node whose GPUs they already hold.
PENDING: Final = (
    f'max by ({POD}) (kube_pod_status_phase{{phase="Pending"}}) == 1 unless on ({POD})'
    f' (max by ({POD}) (kube_pod_status_scheduled{{condition="true"}}) == 1)'
)


def waiting_pods(
    store: MetricStore,
    owners: PodOwners,
    selectors: Sequence[str],
    units: GpuUnits,
    now: Nanoseconds,
) -> tuple[WaitingWork, ...]:
    """Return the work that waits now, by workload: pending pods without a node.

    `selectors` are labels of `kube_pod_nodeselectors` that name a pool, in order of preference.
    """
    requested = store.instant(f"{REQUESTS} and on ({POD}) ({PENDING})", now)
    if not requested:
        return ()
    asked = {pod: units.gpus_of(some) for pod, some in containers_of(requested).items()}
    gpus = {pod: count for pod, count in asked.items() if count > 0}
    created = f"max by ({POD}) (kube_pod_created) and on ({POD}) ({PENDING})"
    since = {Pod.of(series.labels): series.value for series in store.instant(created, now)}
    pools: dict[Pod, str] = {}
    if selectors:
        by = ", ".join((POD, *selectors))
        query = f"group by ({by}) (kube_pod_nodeselectors) and on ({POD}) ({PENDING})"
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
