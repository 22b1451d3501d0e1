"""SlurmState: job owners and pending jobs from Slurm exporters."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from itertools import chain
from typing import Final, NamedTuple

from msgspec.structs import replace

from rightsizer.fleet.cache.grid import COARSE_STEP
from rightsizer.fleet.model import FleetInventory, WaitingWork
from rightsizer.fleet.source import MetricStore, SourceReport
from rightsizer.fleet.sources.series import (
    SCRAPER_LABELS,
    first_label,
    names_of,
    names_of_node,
    number_of,
    one_of,
)
from rightsizer.model.values import Nanoseconds, WorkloadKind

_BLOCKED: Final = (
    "(?i)Dependency.*|JobHeld.*|BeginTime|QOS.*|Assoc.*|Licenses|Reservation"
    "|Partition(Down|Inactive|TimeLimit|NodeLimit)"
)
"""Reasons of squeue for which no free GPU would start a job."""
_LISTED: Final = 'slurm_job_info{job_state=~"(?i)pending"'


class _SlurmQueue(NamedTuple):
    pending: str
    label: str
    blocked: tuple[str, ...] = ()
    """Blocked ones among the pending; several spellings mean the same jobs."""


_BY_REASON: Final = f'slurm_queue_pending{{partition!="",reason=~"{_BLOCKED}"}}'
_QUEUES: Final = (
    _SlurmQueue(
        'slurm_partition_jobs_pending{partition!=""}',
        "partition",
        # Slurm's own exporter counts held jobs as pending.
        ('slurm_partition_jobs_hold{partition!=""}', _BY_REASON),
    ),
    _SlurmQueue('slurm_partition_job_state_total{partition!="",state=~"(?i)pending"}', "partition"),
    _SlurmQueue('slurm_queue_pending{partition!=""}', "partition", (_BY_REASON,)),
    _SlurmQueue(
        f'{_LISTED},slurm_partition!=""}}',
        "slurm_partition",
        (f'{_LISTED},slurm_partition!="",job_state_reason=~"{_BLOCKED}"}}',),
    ),
)
"""In order of preference; users and reasons are summed over."""
_PENDING_NAMES: Final = (
    "slurm_partition_jobs_pending",
    "slurm_partition_job_state_total",
    "slurm_queue_pending",
)
_GPUS: Final = (
    '{__name__=~"slurm_partition_gpus|slurm_partition_gpus_idle|slurm_partition_gpus_allocated",'
    'partition!=""}'
)


def partitions_in(label: str) -> Iterator[str]:
    """Yield the partitions in a label: several of a job, or sinfo's default one with a star."""
    return filter(None, (partition.strip().removesuffix("*") for partition in label.split(",")))


def waiting_jobs(
    store: MetricStore,
    nodes: Mapping[str, AbstractSet[str]],
    pools: Mapping[str, str],
    now: Nanoseconds,
) -> tuple[WaitingWork, ...]:
    """Return the work that waits now, by partition, without jobs that wait only for CPUs.

    `nodes` are those of each partition as far as exported, `pools` those of the nodes with
    GPUs.
    """
    for queue in _QUEUES:
        pending = _jobs(store, queue.pending, queue.label, now)
        if not pending:
            continue
        blocked = [_jobs(store, query, queue.label, now) for query in queue.blocked]
        without = _without_gpus(store, nodes, pools.keys(), now)
        waiting: dict[str, float] = {}
        for name, count in pending.items():
            # A job that may run in any of several partitions is queued once.
            here = next(
                (partition for partition in partitions_in(name) if partition not in without), ""
            )
            if here:
                held = max((counts.get(name, 0.0) for counts in blocked), default=0.0)
                waiting[here] = waiting.get(here, 0.0) + max(0.0, count - held)
        work = []
        for name, jobs in waiting.items():
            pool_names = {pools[node] for node in nodes.get(name, ()) if node in pools}
            # The partition, unless its nodes belong to another pool and are counted there.
            work.append(WaitingWork(name, pool_names.pop() if len(pool_names) == 1 else name, jobs))
        return tuple(waiting_work for waiting_work in work if waiting_work.gpus > 0)
    count = number_of(store, "max(slurm_queue_pending)", now)
    count -= number_of(store, "max(slurm_queue_pending_dependency)", now)
    return (WaitingWork("slurm", "", count),) if count > 0 else ()


def _jobs(store: MetricStore, query: str, label: str, now: Nanoseconds) -> Mapping[str, float]:
    # Two scrapers of one exporter report the same jobs, and so do two exporters.
    once = f"max without ({', '.join((*SCRAPER_LABELS, *_POD_LABELS))}) ({query})"
    series = store.instant(f"sum by ({label}) ({once})", now)
    return {
        sampled_series.labels[label]: sampled_series.value
        for sampled_series in series
        if sampled_series.labels.get(label)
    }


def _without_gpus(
    store: MetricStore,
    nodes: Mapping[str, AbstractSet[str]],
    gpu_nodes: Iterable[str],
    now: Nanoseconds,
) -> frozenset[str]:
    """Return the partitions without GPUs, or with none on their nodes while others have some."""
    answer = store.instant(f"sum by (partition) ({_GPUS})", now)
    gpus = {series.labels["partition"]: series.value for series in answer}
    bare = {name for name, some in nodes.items() if some.isdisjoint(gpu_nodes)}
    # GPUs of drained nodes are neither idle nor allocated, but jobs wait for them too.
    none = {name for name, count in gpus.items() if not count and name not in nodes.keys() - bare}
    if len(bare) < len(nodes):
        none |= bare - gpus.keys()
    return frozenset(none)


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
_POD_LABELS: Final = ("pod", "container", "endpoint", "namespace", "service")
# On Kubernetes, `node` may be the exporter's own.
_NODE_LABELS: Final = ("node_name", "node", "nodename", "hostname")
_ID_LABELS: Final = ("jobid", "job_id", "slurmjobid", "slurm_job_id", "hpc_job")
_FACT_LABELS: Final = {
    "name": ("job_name", "jobname", "name"),
    "user": ("user", "username", "user_name"),
    "account": ("account", "slurm_account", "project"),
}
_JOB_LABELS: Final = (*_ID_LABELS, *chain.from_iterable(_FACT_LABELS.values()))
_LOOK: Final[Nanoseconds] = 6 * COARSE_STEP
_NO_NAMES: Final = "Jobs are known by their numbers alone: no exporter tells names and accounts."
_NO_SIZES: Final = "A waiting job counts as one GPU: no exporter tells how many it asks for."


class SlurmState:
    """Job names, accounts, partitions and pending jobs of a fleet, from Slurm."""

    name: Final = "slurm"
    names: Final = (*_JOBS, *_PENDING_NAMES)

    def probe(self, store: MetricStore, now: Nanoseconds) -> SourceReport:
        """Find which exporters' metrics are present, and what follows."""
        metrics = names_of(store, self.names, now)
        if not metrics:
            return SourceReport(self.name)
        can = []
        cannot = []
        if metrics.isdisjoint(_JOBS):
            cannot.append(_NO_NAMES)
        else:
            can.append("Jobs are known by name, account and partition.")
        listed = 'count(slurm_job_info{job_state!="",slurm_partition!=""})'
        if metrics.isdisjoint(_PENDING_NAMES) and not store.instant(listed, now):
            cannot.append("Whether jobs wait is not known: no exporter tells of pending jobs.")
        else:
            can.append("How many jobs wait is known by partition.")
            cannot.append(_NO_SIZES)
        return SourceReport(self.name, metrics=metrics, can=tuple(can), cannot=tuple(cannot))

    def enrich(
        self, store: MetricStore, inventory: FleetInventory, now: Nanoseconds, lookback: Nanoseconds
    ) -> FleetInventory:
        """Return the fleet with names and accounts of jobs, and waiting work."""
        workloads = dict(inventory.workloads)
        teams = dict(inventory.teams)
        for key, job in self._jobs(store, now, lookback).items():
            if key in workloads:
                workloads[key] = replace(workloads[key], name=job["name"] or workloads[key].name)
            # Ended jobs count too: their hours belong to a team.
            if team := job["account"] or job["user"]:
                teams[key] = team
        by = ", ".join((*_NODE_LABELS, "partition"))
        query = f'group by ({by}) ({{{one_of("__name__", _NODES)},partition!=""}})'
        nodes: defaultdict[str, set[str]] = defaultdict(set)
        for series in store.instant(query, now):
            for name in partitions_in(series.labels["partition"]):
                nodes[name].add(first_label(series.labels, _NODE_LABELS))
        # For a node in several, the first by name.
        partitions = {node: name for name in sorted(nodes, reverse=True) for node in nodes[name]}
        devices = dict(inventory.devices)
        for uuid, device in inventory.devices.items():
            if pool := next(filter(None, map(partitions.get, names_of_node(device.node))), None):
                devices[uuid] = replace(device, pool=pool, scheduler=WorkloadKind.SLURM)
        pools = {
            name: fleet_device.pool
            for fleet_device in devices.values()
            for name in names_of_node(fleet_device.node)
        }
        waiting = (*inventory.waiting, *waiting_jobs(store, dict(nodes), pools, now))
        return replace(
            inventory, devices=devices, workloads=workloads, teams=teams, waiting=waiting
        )

    def _jobs(
        self, store: MetricStore, now: Nanoseconds, lookback: Nanoseconds
    ) -> Mapping[str, Mapping[str, str]]:
        query = f"group by ({', '.join(_JOB_LABELS)}) ({{{one_of('__name__', _JOBS)}}})"
        jobs: dict[str, dict[str, str]] = {}
        for series in store.range(query, now - lookback, now, min(_LOOK, lookback)):
            if number := first_label(series.labels, _ID_LABELS):
                facts = jobs.setdefault(f"slurm:{number}", dict.fromkeys(_FACT_LABELS, ""))
                # Exporters of different kinds report different facts of one job.
                for fact, names in _FACT_LABELS.items():
                    facts[fact] = facts[fact] or first_label(series.labels, names)
        return jobs
