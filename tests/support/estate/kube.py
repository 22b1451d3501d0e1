"""kube-state-metrics of the fleet: owners, teams, nodes, and waiting pods."""

from collections.abc import Iterator
from typing import Final

from msgspec.structs import replace

from estate.identity import ones
from estate.layout import Job, Machine, Owner
from estate.life import Life, Part
from estate.series import Pairs, Run
from estate.waiting import PENDING, Pending

__all__ = ["kube_runs"]

_TARGET: Final = (("instance", "kube-state-metrics:8080"), ("job", "kube-state-metrics"))
_SLURM_POOL: Final = "train"
_LETTERS: Final = "bcdfghjk"


def kube_runs(life: Life, first: int, last: int) -> Iterator[Run]:
    """The samples between two slots; machines of Slurm are unknown here."""
    for machine in life.layout.machines:
        at = max(first, life.came(machine))
        if machine.pool != _SLURM_POOL and at < last:
            labels = (("node", machine.name), ("label_node_pool", machine.pool), *_TARGET)
            yield Run("kube_node_labels", labels, at, ones(last - at))
    owners: dict[str, int] = {}
    for gpu in life.gpus:
        for part in gpu.parts:
            at = max(first, part.first)
            end = min(last, part.last)
            if part.job is not None and part.pod and at < end:
                yield from _pod(part, part.job, gpu.machine, at, end - at)
                yield from _above(part, part.job, at, end, owners)
    for pending in PENDING.get(life.layout.name, ()):
        at = max(first, life.slots - pending.minutes // 5)
        if at < last:
            yield from _pending(pending, life.end - 60 * pending.minutes, at, last - at)


def _pod(part: Part, job: Job, machine: Machine, at: int, count: int) -> Iterator[Run]:
    pod = (("namespace", job.namespace), ("pod", part.pod))
    kind, owner, _ = _owners(job, part.pod)
    labels = (*pod, ("owner_kind", kind), ("owner_name", owner), *_TARGET)
    yield Run("kube_pod_owner", labels, at, ones(count), is_steady=True)
    for name, more in (
        ("kube_pod_labels", ("label_team", job.team)),
        ("kube_pod_info", ("node", machine.name)),
        ("kube_pod_status_phase", ("phase", "Running")),
    ):
        yield Run(name, (*pod, more, *_TARGET), at, ones(count), is_steady=True)
    yield replace(_request(pod, machine.name, 1, at, count), is_steady=True)


def _above(part: Part, job: Job, at: int, end: int, owners: dict[str, int]) -> Iterator[Run]:
    """The owner of the pod's owner, exported once for all of its pods."""
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
    name = "kube_pod_container_resource_requests"
    resource = (("container", "main"), ("node", node), ("resource", "nvidia_com_gpu"))
    labels = (*pod, *resource, ("unit", "integer"), *_TARGET)
    return Run(name, labels, at, [float(gpus)] * count)


def _pending(pending: Pending, created: int, at: int, count: int) -> Iterator[Run]:
    """Unscheduled pods, with a series for each phase."""
    above = (("owner_kind", pending.owner.value), ("owner_name", pending.name))
    is_service = pending.owner is Owner.DEPLOYMENT
    kind = pending.owner.value
    maker = pending.name
    space = ("namespace", pending.namespace)
    labels: Pairs
    if is_service:
        kind = "ReplicaSet"
        maker = f"{pending.name}-6c9f7d5b8"
        labels = (space, ("replicaset", maker), *above, *_TARGET)
        yield Run("kube_replicaset_owner", labels, at, ones(count))
    for number in range(pending.pods):
        pod = (space, ("pod", f"{maker}-wx7k{_LETTERS[number]}"))
        labels = (*pod, ("owner_kind", kind), ("owner_name", maker), *_TARGET)
        yield Run("kube_pod_owner", labels, at, ones(count))
        yield Run("kube_pod_created", (*pod, *_TARGET), at, [float(created)] * count)
        for phase, value in (("Pending", 1.0), ("Running", 0.0)):
            labels = (*pod, ("phase", phase), *_TARGET)
            yield Run("kube_pod_status_phase", labels, at, [value] * count)
        if pending.pool:
            labels = (*pod, ("nodeselector_node_pool", pending.pool), *_TARGET)
            yield Run("kube_pod_nodeselectors", labels, at, ones(count))
        yield _request(pod, "", pending.gpus_each, at, count)
