"""Registry of owners by the kind of workload."""

from typing import Final

from rightsizer.model.workload import WorkloadKind
from rightsizer.owners.containers import ContainerOwner
from rightsizer.owners.kubernetes import KubernetesOwner, SimulatedOwner
from rightsizer.owners.owner import Owner, Scheduler
from rightsizer.owners.slurm import SlurmOwner
from rightsizer.owners.systemd import SystemdOwner
from rightsizer.owners.users import UserOwner

_SCHEDULERS: Final[tuple[Scheduler, ...]] = (KubernetesOwner(), SlurmOwner())
_OTHERS: Final = (ContainerOwner(), SystemdOwner(), UserOwner(), SimulatedOwner())
_OWNERS: Final[dict[WorkloadKind | None, Owner]] = {
    kind: owner for owner in (*_SCHEDULERS, *_OTHERS) for kind in owner.kinds
}
_UNKNOWN: Final = Owner()

SCHEDULER_KINDS: Final = tuple(kind for each in _SCHEDULERS for kind in each.kinds)


def owner_of(kind: WorkloadKind | None) -> Owner:
    """Owner by kind of workload; one without commands if unknown."""
    return _OWNERS.get(kind, _UNKNOWN)


def schedulers_of(kind: WorkloadKind | None) -> tuple[Scheduler, ...]:
    """Scheduler by kind of workload; all schedulers if unknown."""
    return tuple(each for each in _SCHEDULERS if kind in each.kinds) or _SCHEDULERS


def scheduler_of(kind: WorkloadKind | None) -> Scheduler:
    """Scheduler by kind of workload; Kubernetes if unknown."""
    return schedulers_of(kind)[0]
