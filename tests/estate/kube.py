"""What kube-state-metrics says of the estate: owners, teams, nodes, and pods that wait."""

from collections.abc import Iterator
from typing import Final

from estate.identity import ones
from estate.layout import Job, Machine, Owner
from estate.life import Life, Part
from estate.series import Pairs, Run

__all__ = ["WAITING", "WAITS_FROM_DAYS", "kube_runs"]

WAITING: Final = "big-finetune"
"""A job that no node of its pool has room for, though the pool has."""
_WAITS_IN: Final = "batch"
WAITS_FROM_DAYS: Final = 2
"""How long before the end it was handed in."""
_TARGET: Final = (("instance", "kube-state-metrics:8080"), ("job", "kube-state-metrics"))
_SLURM_POOL: Final = "train"


def kube_runs(life: Life, first: int, last: int) -> Iterator[Run]:
    """The samples from a slot to another; machines of Slurm are not known here."""
    count = last - first
    for machine in life.layout.machines:
        if machine.pool != _SLURM_POOL:
            labels = (("node", machine.name), ("label_node_pool", machine.pool), *_TARGET)
            yield Run("kube_node_labels", labels, first, ones(count))
    owners: dict[str, int] = {}
    for gpu in life.gpus:
        for part in gpu.parts:
            at, end = max(first, part.first), min(last, part.last)
            if part.job is not None and part.pod and at < end:
                yield from _pod(part, part.job, gpu.machine, at, end - at)
                yield from _above(part, part.job, at, end, owners)
    at = max(first, life.slots - WAITS_FROM_DAYS * 288)
    if at < last:
        machines = (each for each in life.layout.machines if each.pool == _WAITS_IN)
        yield from _waiting(sum(each.gpus.count("-") for each in machines), at, last - at)


def _pod(part: Part, job: Job, machine: Machine, at: int, count: int) -> Iterator[Run]:
    pod = (("namespace", job.namespace), ("pod", part.pod))
    kind, owner, _ = _owners(job, part.pod)
    labels = (*pod, ("owner_kind", kind), ("owner_name", owner), *_TARGET)
    yield Run("kube_pod_owner", labels, at, ones(count))
    for name, more in (
        ("kube_pod_labels", ("label_team", job.team)),
        ("kube_pod_info", ("node", machine.name)),
        ("kube_pod_status_phase", ("phase", "Running")),
    ):
        yield Run(name, (*pod, more, *_TARGET), at, ones(count))
    yield _request(pod, machine.name, 1, at, count)


def _above(part: Part, job: Job, at: int, end: int, owners: dict[str, int]) -> Iterator[Run]:
    """Who owns the pod's owner, told once for all of its pods."""
    kind, owner, above = _owners(job, part.pod)
    at = max(at, owners.get(owner, at))
    if above is None or at >= end:
        return
    owners[owner] = end
    is_set = kind == "ReplicaSet"
    name = "kube_replicaset_owner" if is_set else "kube_job_owner"
    label = "replicaset" if is_set else "job_name"
    labels = (("namespace", job.namespace), (label, owner), *above, *_TARGET)
    yield Run(name, labels, at, ones(end - at))


def _owners(job: Job, pod: str) -> tuple[str, str, Pairs | None]:
    above = (("owner_kind", job.owner.value), ("owner_name", job.name))
    if job.owner is Owner.DEPLOYMENT:
        return "ReplicaSet", pod.rpartition("-")[0], above
    if job.owner is Owner.CRON_JOB:
        return "Job", pod.rpartition("-")[0], above
    return job.owner.value, job.name, None


def _request(pod: Pairs, node: str, gpus: int, at: int, count: int) -> Run:
    labels = (("container", "main"), ("node", node), ("resource", "nvidia_com_gpu"))
    name = "kube_pod_container_resource_requests"
    return Run(name, (*pod, *labels, ("unit", "integer"), *_TARGET), at, [float(gpus)] * count)


def _waiting(gpus: int, at: int, count: int) -> Iterator[Run]:
    """A job that wants all that is free in its pool."""
    pod = (("namespace", "research"), ("pod", f"{WAITING}-wx7kz"))
    labels = (*pod, ("owner_kind", "Job"), ("owner_name", WAITING), *_TARGET)
    yield Run("kube_pod_owner", labels, at, ones(count))
    yield Run("kube_pod_status_phase", (*pod, ("phase", "Pending"), *_TARGET), at, ones(count))
    yield _request(pod, "", gpus, at, count)
