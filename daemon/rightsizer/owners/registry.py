"""Registry of owners: one row each, with its source of workload names."""

from collections.abc import Callable
from typing import Final

from msgspec import Struct

from rightsizer.model.values import WorkloadKind
from rightsizer.owners.collector import NodeCollector, OwnerHost
from rightsizer.owners.containers import ContainerCollector, ContainerOwner
from rightsizer.owners.kubernetes import KubernetesCollector, KubernetesOwner, SimulatedOwner
from rightsizer.owners.owner import Owner, Scheduler
from rightsizer.owners.slurm import SlurmCollector, SlurmOwner
from rightsizer.owners.systemd import SystemdCollector, SystemdOwner
from rightsizer.owners.users import UserCollector, UserOwner


class OwnerSource(Struct, frozen=True):
    """Source of workload names, with the owner of its workloads."""

    name: str
    """In `owners.sources`."""
    meaning: str
    owner: Owner
    collector: Callable[[OwnerHost], NodeCollector]
    is_default: bool = True


SOURCES: Final = (
    OwnerSource(
        "slurm",
        "jobs",
        SlurmOwner(),
        SlurmCollector,
    ),
    OwnerSource(
        "kubernetes",
        "pods",
        KubernetesOwner(),
        KubernetesCollector,
    ),
    OwnerSource(
        "container",
        "of Docker, containerd, Podman",
        ContainerOwner(),
        ContainerCollector,
    ),
    OwnerSource(
        "user",
        "of a process outside of a unit",
        UserOwner(),
        UserCollector,
        is_default=False,
    ),
    OwnerSource(
        "session",
        "systemd units, programs by process tree",
        SystemdOwner(),
        SystemdCollector,
    ),
)
"""In order of precedence: the first that knows a process names its workload.

Slurm's nodes may be pods, whose jobs are as many workloads.
"""
_OWNERS: Final[dict[str, Owner]] = {
    kind: owner
    for owner in (*(source.owner for source in SOURCES), SimulatedOwner())
    for kind in owner.kinds
}
_UNKNOWN: Final = Owner()
KINDS: Final = tuple(dict.fromkeys((*_OWNERS, *WorkloadKind)))
"""Of workloads, with those of no owner."""
_SCHEDULERS: Final = tuple(
    sorted(
        (source.owner for source in SOURCES if isinstance(source.owner, Scheduler)),
        key=lambda scheduler: not scheduler.has_pods,
    )
)
"""Kubernetes first: a node with pods of which nothing else is known is one of its."""

SCHEDULER_KINDS: Final = tuple(kind for scheduler in _SCHEDULERS for kind in scheduler.kinds)


def owner_of(kind: str | None) -> Owner:
    """Owner by kind of workload; one without commands if unknown."""
    return _OWNERS.get(kind or "", _UNKNOWN)


def schedulers_of(kind: str | None) -> tuple[Scheduler, ...]:
    """Scheduler by kind of workload; all schedulers if unknown."""
    return tuple(scheduler for scheduler in _SCHEDULERS if kind in scheduler.kinds) or _SCHEDULERS


def scheduler_of(kind: str | None) -> Scheduler:
    """Scheduler by kind of workload; Kubernetes if unknown."""
    return schedulers_of(kind)[0]
