"""How a device is shared among the workloads whose processes are on it."""

from collections.abc import Sequence

from rightsizer.domain.reading import Process
from rightsizer.domain.workload import Holding, Workload
from rightsizer.telemetry.owners.owner import Owners

__all__ = ["holdings_of"]


def holdings_of(processes: Sequence[Process], owners: Owners) -> tuple[Holding, ...]:
    """Each workload's part of a device, by the memory of its processes.

    Equal parts for all processes where the memory of one of them is unknown or none has any.
    Processes that nobody owns keep their part, so the sum may stay below 1.
    """
    weights = [process.memory_used_bytes for process in processes]
    if any(weight is None for weight in weights) or not sum(weight or 0 for weight in weights):
        weights = [1] * len(processes)
    total = sum(weight or 0 for weight in weights)
    shares: dict[str, float] = {}
    workloads: dict[str, Workload] = {}
    for process, weight in zip(processes, weights, strict=True):
        workload = owners.workload_of(process.pid)
        if workload is not None:
            workloads[workload.key] = workload
            shares[workload.key] = shares.get(workload.key, 0.0) + (weight or 0) / total
    return tuple(Holding(workloads[key], min(1.0, share)) for key, share in sorted(shares.items()))
