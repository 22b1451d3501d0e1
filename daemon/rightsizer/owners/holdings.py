"""Shares of a device among the workloads that run on it or were allocated it."""

from collections.abc import Callable, Sequence
from types import MappingProxyType
from typing import Final

from msgspec.structs import replace

from rightsizer.model.values import (
    Device,
    Holding,
    Process,
    ProcessGeneration,
    Workload,
    merge_workloads,
)
from rightsizer.owners.collector import SERVER, OwnerCollector
from rightsizer.owners.device_keys import keys_of
from rightsizer.owners.registry import owner_of
from rightsizer.owners.workload_limits import Allocations

_INFERRED: Final = "its name is inferred: it is the only one that its GPU is allocated to"


def match_allocations(
    running: Sequence[Workload | None], given: Sequence[Workload]
) -> tuple[Workload | None, ...]:
    """Merge running workloads with the allocations of the same device.

    The kernel identifies a pod by uid, the kubelet by name. If exactly one of each is unmatched,
    they are the same; with more, the match is unknown.
    """
    workloads = {workload.key: workload for workload in running if workload is not None}
    named = {workload.key: workload for workload in given}
    nameless = [one for key, one in workloads.items() if key not in named]
    unseen = [one for key, one in named.items() if key not in workloads]
    ties: dict[str, Workload] = {}
    for workload in unseen:
        halves = [one for one in nameless if may_match(one, workload)]
        rivals = [one for one in unseen if halves and may_match(halves[0], one)]
        if len(halves) == len(rivals) == 1:
            ties[halves[0].key] = workload
    return tuple(
        replace(ties[workload.key], step=workload.step, unproven=_INFERRED)
        if workload is not None and workload.key in ties
        else workload
        for workload in running
    )


def may_match(running: Workload, given: Workload) -> bool:
    """Whether a running workload may be one that the scheduler identifies differently."""
    if running.kind != given.kind or running.key == given.key:
        return False
    return owner_of(given.kind).may_match(running, given)


_NOTHING_GIVEN: Final[Allocations] = MappingProxyType({})


OwnedProcesses = Sequence[tuple[Process, Workload | None]]
"""Processes with their workloads, if known."""


GenerationOf = Callable[[int], ProcessGeneration | None]
"""Returns the process that has a pid now."""


def _unseen(_: int) -> None:
    """No process is seen."""


def holdings_on(
    device: Device,
    pairs: OwnedProcesses | None,
    allocations: Allocations = _NOTHING_GIVEN,
    generation_of: GenerationOf = _unseen,
) -> tuple[Holding, ...]:
    """Workloads that run on a device, and those it is allocated to without running there.

    A running workload's share is that of its processes' memory; they share equally if the memory
    of one is unknown or none has any. Unknown processes, e.g. outside the agent's pid namespace,
    count for the workload that the device is allocated to, else they keep their share. Otherwise
    a workload without a process has no share of a device in use, and an equal share of a free
    one. `pairs` are those of `workloads_on`, or `None` if the processes are unknown.
    """
    is_known = pairs is not None
    pairs = pairs or ()
    given = tuple(
        dict.fromkeys(workload for key in keys_of(device) for workload in allocations.get(key, ()))
    )
    parts = _parts([process for process, _ in pairs])
    running = match_allocations([workload for _, workload in pairs], given)
    held = _held(running, parts, [generation_of(process.pid) for process, _ in pairs])
    keys = {holding.workload.key for holding in held}
    unseen = merge_workloads(workload for workload in given if workload.key not in keys)
    strangers = [part for workload, part in zip(running, parts, strict=True) if workload is None]
    spare = sum(strangers) if pairs else 1.0
    for workload in unseen:
        may_run = not is_known or bool(strangers)
        may_run = may_run or any(may_match(one.workload, workload) for one in held)
        held.append(Holding(workload, min(1.0, spare / len(unseen)), may_run))
    return tuple(sorted(held, key=lambda holding: holding.workload.key))


def workloads_on(processes: Sequence[Process], owners: OwnerCollector) -> OwnedProcesses:
    """Return each process with its workload, without servers of all GPUs, which hold none."""
    workloads = owners.workloads_of([process.pid for process in processes])
    pairs = zip(processes, workloads, strict=True)
    return [(process, workload) for process, workload in pairs if workload is not SERVER]


def _parts(processes: Sequence[Process]) -> list[float]:
    weights = [process.memory_used_bytes for process in processes]
    total = sum(weight or 0 for weight in weights)
    if not total or None in weights:
        return [1 / len(processes) for _ in processes]
    return [(weight or 0) / total for weight in weights]


def _held(
    running: Sequence[Workload | None],
    parts: Sequence[float],
    generations: Sequence[ProcessGeneration | None],
) -> list[Holding]:
    shares: dict[str, float] = {}
    processes: dict[str, list[ProcessGeneration]] = {}
    for workload, part, generation in zip(running, parts, generations, strict=True):
        if workload is None:
            continue
        shares[workload.key] = shares.get(workload.key, 0.0) + part
        if generation is not None:
            processes.setdefault(workload.key, []).append(generation)
    workloads = merge_workloads(workload for workload in running if workload is not None)
    return [
        Holding(
            workload,
            min(1.0, shares[workload.key]),
            processes=tuple(processes.get(workload.key, ())),
        )
        for workload in workloads
    ]
