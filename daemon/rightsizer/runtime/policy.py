"""What an operator knows of a workload and telemetry cannot see: its class, its allocator."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase

from rightsizer.domain.settings import setting
from rightsizer.domain.snapshot import Snapshot
from rightsizer.domain.workload import Allocator, Holding, Workload, WorkloadClass

__all__ = ["Match", "Policy", "apply"]


@dataclass(frozen=True, slots=True)
class Match:
    """Which workloads a policy is about; every pattern given must fit."""

    owner: str = setting("*", help="Shell pattern of the workload's name.")
    namespace: str = setting("*", help="Shell pattern of its namespace.")
    gpu: str = setting("*", help="Shell pattern of the uuid of a GPU that it holds.")


@dataclass(frozen=True, slots=True)
class Policy:
    """What holds for the workloads that match."""

    match: Match = field(default_factory=Match)
    class_: WorkloadClass = setting(
        WorkloadClass.UNKNOWN, help="What kind of service the workload gives."
    )
    allocator: Allocator = setting(
        Allocator.UNKNOWN, help="How the workload's framework takes memory."
    )


def apply(snapshot: Snapshot, policies: Sequence[Policy]) -> Snapshot:
    """The snapshot with what the first matching policy says of each holder."""
    if not policies or not snapshot.holdings:
        return snapshot
    return replace(
        snapshot,
        holdings={
            uuid: tuple(
                Holding(_told(held.workload, uuid, policies), held.share_ratio) for held in holdings
            )
            for uuid, holdings in snapshot.holdings.items()
        },
    )


def _told(workload: Workload, uuid: str, policies: Sequence[Policy]) -> Workload:
    for policy in policies:
        if (
            fnmatchcase(workload.name, policy.match.owner)
            and fnmatchcase(workload.namespace, policy.match.namespace)
            and fnmatchcase(uuid, policy.match.gpu)
        ):
            return replace(
                workload,
                workload_class=workload.workload_class
                if policy.class_ is WorkloadClass.UNKNOWN
                else policy.class_,
                allocator=workload.allocator
                if policy.allocator is Allocator.UNKNOWN
                else policy.allocator,
            )
    return workload
