"""Registry of owners by the kind of workload, and of their collectors by name."""

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

from rightsizer.host.process_table import ProcessTable
from rightsizer.host.trusted_groups import TrustedGroupReader, WriterOf, other_writer
from rightsizer.model.workload import WorkloadKind
from rightsizer.owners.collector import NodeCollector
from rightsizer.owners.containers import ContainerCollector, ContainerOwner
from rightsizer.owners.extension import GuardedCollector, extension_owners
from rightsizer.owners.kubernetes import KubernetesCollector, KubernetesOwner, SimulatedOwner
from rightsizer.owners.owner import Owner, Scheduler
from rightsizer.owners.settings import SOURCE_NAMES, OwnerSettings
from rightsizer.owners.slurm import SlurmCollector, SlurmOwner
from rightsizer.owners.systemd import SystemdCollector, SystemdOwner
from rightsizer.owners.users import UserCollector, UserOwner

_SCHEDULERS: Final[tuple[Scheduler, ...]] = (KubernetesOwner(), SlurmOwner())
_OTHERS: Final = (ContainerOwner(), SystemdOwner(), UserOwner(), SimulatedOwner())
_OWNERS: Final[dict[WorkloadKind | None, Owner]] = {
    kind: owner for owner in (*_SCHEDULERS, *_OTHERS) for kind in owner.kinds
}
_UNKNOWN: Final = Owner()

SCHEDULER_KINDS: Final = tuple(kind for scheduler in _SCHEDULERS for kind in scheduler.kinds)


def owner_of(kind: WorkloadKind | None) -> Owner:
    """Owner by kind of workload; one without commands if unknown."""
    return _OWNERS.get(kind, _UNKNOWN)


def schedulers_of(kind: WorkloadKind | None) -> tuple[Scheduler, ...]:
    """Scheduler by kind of workload; all schedulers if unknown."""
    return tuple(scheduler for scheduler in _SCHEDULERS if kind in scheduler.kinds) or _SCHEDULERS


def scheduler_of(kind: WorkloadKind | None) -> Scheduler:
    """Scheduler by kind of workload; Kubernetes if unknown."""
    return schedulers_of(kind)[0]


def collectors_on(  # noqa: PLR0913 - the outside world comes in as arguments.
    procfs: Path,
    sysfs: Path,
    settings: OwnerSettings,
    now: Callable[[], float] = time.monotonic,
    writer_of: WriterOf = other_writer,
    *,
    processes: ProcessTable | None = None,
) -> list[NodeCollector]:
    """Collectors enabled in the settings, in order of precedence."""
    table = processes or ProcessTable(procfs)
    groups = TrustedGroupReader(procfs, sysfs, writer_of, now, table)
    collectors: dict[str, Callable[[], NodeCollector]] = {
        "kubernetes": lambda: KubernetesCollector(groups, procfs, settings, now),
        "slurm": lambda: SlurmCollector(groups, procfs, sysfs, settings, now, processes=table),
        "container": lambda: ContainerCollector(groups, settings, now),
        "user": lambda: UserCollector(groups, procfs, processes=table),
        "session": lambda: SystemdCollector(groups, procfs, settings, table),
    }
    for owner in extension_owners():
        collectors[owner.name] = partial(GuardedCollector, owner, procfs, settings)
    # A broken one has a name, and no collector.
    names = (name for name in SOURCE_NAMES if name in settings.sources)
    return [collectors[name]() for name in names if name in collectors]
