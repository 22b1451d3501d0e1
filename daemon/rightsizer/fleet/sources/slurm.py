"""What Slurm's exporters tell of an estate: whose a job is, and how many jobs wait.

Labels and names differ by exporter: those of Slurm's own (25.11 on), vpenso's and SckyzO's,
rivosinc's, Soperator's, guilbaults' slurm-job-exporter and omnistat are understood, each as far
as it is there.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final, NamedTuple

from rightsizer.domain.units import NANOSECONDS_PER_SECOND, Nanoseconds
from rightsizer.domain.workload import Workload, WorkloadClass, WorkloadKind
from rightsizer.fleet.estate import Estate
from rightsizer.fleet.source import SourceReport
from rightsizer.fleet.sources.labels import first_label, one_of
from rightsizer.fleet.sources.slurm_waiting import (
    PENDING_NAMES,
    partitions_in,
    tells_of_pending_jobs,
    waiting_jobs,
)
from rightsizer.fleet.store import Store

__all__ = ["SlurmState", "workload_of_job"]

_JOBS: Final = (
    "slurm_job_info",
    "slurm_job_alloc_cpus",
    "slurm_job_utilization_gpu",
    "slurm_job_memory_usage_gpu",
    "rmsjob_info",
)
_NODES: Final = (
    "slurm_node_info",
    "slurm_node_cpu_total",
    "slurm_node_cpus_total",
    "slurm_node_partition",
)
# On Kubernetes, `node` may be where the exporter itself runs.
_NODE_LABELS: Final = ("node_name", "node", "nodename", "hostname")
_ID_LABELS: Final = ("jobid", "job_id", "slurmjobid", "slurm_job_id", "hpc_job")
_USER_LABELS: Final = ("user", "username", "user_name")
_ACCOUNT_LABELS: Final = ("account", "slurm_account", "project")
_PARTITION_LABELS: Final = ("partition", "slurm_partition")
_NAME_LABELS: Final = ("job_name", "jobname", "name")
_JOB_LABELS: Final = (
    *_ID_LABELS,
    *_USER_LABELS,
    *_ACCOUNT_LABELS,
    *_PARTITION_LABELS,
    *_NAME_LABELS,
)
_LOOK: Final[Nanoseconds] = 6 * 3600 * NANOSECONDS_PER_SECOND


class _Job(NamedTuple):
    name: str
    user: str
    account: str
    partition: str


def workload_of_job(job: str, name: str = "") -> Workload:
    """A job, by the key that our own agents give it."""
    return Workload(f"slurm:{job}", WorkloadKind.SLURM, name or job, WorkloadClass.BATCH)


class SlurmState:
    """Adds to an estate what Slurm knows of it."""

    name: Final = "slurm"

    def probe(self, store: Store, now: Nanoseconds) -> SourceReport:
        """Which exporters' metrics are there, and what follows."""
        names = one_of("__name__", (*_JOBS, *PENDING_NAMES))
        found = store.instant(f"count by (__name__) ({{{names}}})", now)
        metrics = frozenset(series.labels["__name__"] for series in found)
        if not metrics:
            return SourceReport(self.name)
        has_jobs = not metrics.isdisjoint(_JOBS)
        has_queue = not metrics.isdisjoint(PENDING_NAMES) or tells_of_pending_jobs(store, now)
        told = (
            (
                has_jobs,
                "Jobs are known by name, account and partition.",
                "Jobs are known by their numbers alone: no exporter tells names and accounts.",
            ),
            (
                has_queue,
                "How many jobs wait is known by partition.",
                "Whether jobs wait is not known: no exporter tells of pending jobs.",
            ),
        )
        return SourceReport(
            self.name,
            metrics=metrics,
            can=tuple(can for there, can, _ in told if there),
            cannot=(
                *(cannot for there, _, cannot in told if not there),
                *(
                    ("A waiting job counts as one GPU: no exporter tells how many it asks for.",)
                    if has_queue
                    else ()
                ),
            ),
        )

    def enrich(
        self, store: Store, estate: Estate, now: Nanoseconds, lookback: Nanoseconds
    ) -> Estate:
        """The estate with names and accounts of jobs, and what waits."""
        jobs = self._jobs(store, now, lookback)
        workloads, teams = dict(estate.workloads), dict(estate.teams)
        for key, workload in estate.workloads.items():
            job = jobs.get(key)
            if job is None:
                continue
            workloads[key] = replace(workload, name=job.name or workload.name)
            team = job.account or job.user
            if team:
                teams[key] = team
        nodes = self._nodes(store, now)
        # Of a node in several, the first by name.
        partitions = {node: name for name in sorted(nodes, reverse=True) for node in nodes[name]}
        devices = {
            uuid: replace(device, pool=partitions[device.node], scheduler=WorkloadKind.SLURM)
            if device.node in partitions
            else device
            for uuid, device in estate.devices.items()
        }
        pools = {each.node: each.pool for each in devices.values()}
        return replace(
            estate,
            devices=devices,
            workloads=workloads,
            teams=teams,
            waiting=(*estate.waiting, *waiting_jobs(store, nodes, pools, now)),
        )

    def _nodes(self, store: Store, now: Nanoseconds) -> Mapping[str, frozenset[str]]:
        """The nodes of each partition."""
        nodes = f'{{{one_of("__name__", _NODES)},partition!=""}}'
        found: dict[str, set[str]] = {}
        for each in store.instant(
            f"group by ({', '.join((*_NODE_LABELS, 'partition'))}) ({nodes})", now
        ):
            for name in partitions_in(each.labels["partition"]):
                found.setdefault(name, set()).add(first_label(each.labels, _NODE_LABELS))
        return {name: frozenset(some) for name, some in found.items()}

    def _jobs(self, store: Store, now: Nanoseconds, lookback: Nanoseconds) -> Mapping[str, _Job]:
        query = f"group by ({', '.join(_JOB_LABELS)}) ({{{one_of('__name__', _JOBS)}}})"
        found: dict[str, _Job] = {}
        for series in store.range(query, now - lookback, now, min(_LOOK, lookback)):
            labels = series.labels
            number = first_label(labels, _ID_LABELS)
            if not number:
                continue
            key = workload_of_job(number).key
            seen = _Job(
                first_label(labels, _NAME_LABELS),
                first_label(labels, _USER_LABELS),
                first_label(labels, _ACCOUNT_LABELS),
                first_label(labels, _PARTITION_LABELS),
            )
            # Exporters of different kinds know different things of one job.
            former = found.get(key, _Job("", "", "", ""))
            found[key] = _Job(*(old or new for old, new in zip(former, seen, strict=True)))
        return found
