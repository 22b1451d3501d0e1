"""The two halves of a workload's name: what the kernel knows and what its scheduler knows."""

from collections.abc import Sequence
from dataclasses import replace

from rightsizer.domain.workload import Workload, WorkloadKind

__all__ = ["may_be_one", "tied"]


def tied(
    running: Sequence[Workload | None], given: Sequence[Workload]
) -> tuple[Workload | None, ...]:
    """The running workloads, by the names of those that were given the same device.

    The kernel knows a pod by its uid, the kubelet by its name. Where exactly one of either lacks
    its other half, the two halves are one; where there are more, nobody can tell.

    Args:
        running: The workload of each process; `None` where nobody knows it.
        given: Those that were given the device.
    """
    found = {workload.key: workload for workload in running if workload is not None}
    named = {workload.key: workload for workload in given}
    nameless = [one for key, one in found.items() if key not in named]
    unseen = [one for key, one in named.items() if key not in found]
    ties: dict[str, Workload] = {}
    for workload in unseen:
        halves = [one for one in nameless if may_be_one(one, workload)]
        rivals = [one for one in unseen if halves and may_be_one(halves[0], one)]
        if len(halves) == len(rivals) == 1:
            ties[halves[0].key] = workload
    return tuple(_whole(workload, ties) for workload in running)


def may_be_one(running: Workload, given: Workload) -> bool:
    """Whether a running workload, by its looks, is one that a scheduler names otherwise."""
    if running.kind is not given.kind or running.key == given.key:
        return False
    if given.kind is WorkloadKind.KUBERNETES:
        return bool(given.pod) and not running.pod
    # `12_3` of an array, `12+1` of a heterogeneous job: its own number is told nowhere.
    is_job = given.kind is WorkloadKind.SLURM
    return is_job and running.name.isdecimal() and not given.name.isdecimal()


def _whole(workload: Workload | None, ties: dict[str, Workload]) -> Workload | None:
    other = ties.get(workload.key) if workload is not None else None
    if workload is None or other is None:
        return workload
    return replace(other, step=workload.step)
