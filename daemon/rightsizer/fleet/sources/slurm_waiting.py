"""Jobs that wait in Slurm's queues, as far as each exporter tells where and why.

Names: src/plugins/metrics/openmetrics/openmetrics.c and src/slurmctld/statistics.c of
SchedMD/slurm (25.11, and 26.05, which tells GPUs too); docs/metrics.md of SckyzO/slurm_exporter
(1.9); queue.go and partitions.go of vpenso/prometheus-slurm-exporter; exporter/jobs.go of
rivosinc/prometheus-slurm-exporter; docs/slurm-exporter.md of nebius/soperator.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from rightsizer.domain.units import Nanoseconds
from rightsizer.fleet.estate import Waiting
from rightsizer.fleet.store import Store

__all__ = ["PENDING_NAMES", "partitions_in", "tells_of_pending_jobs", "waiting_jobs"]

_BLOCKED: Final = (
    "(?i)Dependency.*|JobHeld.*|BeginTime|QOS.*|Assoc.*|Licenses|Reservation"
    "|Partition(Down|Inactive|TimeLimit|NodeLimit)"
)
"""Reasons of squeue's for which no free GPU would start a job: its own date or order, a limit of
its account, or a partition that is closed."""
_LISTED: Final = 'slurm_job_info{job_state=~"(?i)pending"'


class _Queue(NamedTuple):
    pending: str
    label: str
    blocked: tuple[str, ...] = ()
    """Of the pending ones; exporters that tell it in several ways tell of the same jobs."""


_BY_REASON: Final = f'slurm_queue_pending{{partition!="",reason=~"{_BLOCKED}"}}'
_QUEUES: Final = (
    _Queue(
        'slurm_partition_jobs_pending{partition!=""}',
        "partition",
        # Slurm's own counts what is held among what is pending.
        ('slurm_partition_jobs_hold{partition!=""}', _BY_REASON),
    ),
    _Queue('slurm_partition_job_state_total{partition!="",state=~"(?i)pending"}', "partition"),
    _Queue('slurm_queue_pending{partition!=""}', "partition", (_BY_REASON,)),
    _Queue(
        f'{_LISTED},slurm_partition!=""}}',
        "slurm_partition",
        (f'{_LISTED},slurm_partition!="",job_state_reason=~"{_BLOCKED}"}}',),
    ),
)
"""In the order in which they are believed; users and reasons are summed over."""
PENDING_NAMES: Final = (
    "slurm_partition_jobs_pending",
    "slurm_partition_job_state_total",
    "slurm_queue_pending",
)
_GPUS: Final = (
    '{__name__=~"slurm_partition_gpus|slurm_partition_gpus_idle|slurm_partition_gpus_allocated",'
    'partition!=""}'
)
_WHOLE_QUEUE: Final = "slurm_queue_pending"
_DEPENDENT: Final = "slurm_queue_pending_dependency"


def tells_of_pending_jobs(store: Store, now: Nanoseconds) -> bool:
    """Whether the jobs that an exporter lists have states, those that wait among them."""
    return bool(store.instant('count(slurm_job_info{job_state!="",slurm_partition!=""})', now))


def partitions_in(label: str) -> Iterator[str]:
    """The partitions that a label names: several of a job, with a star the default one of sinfo."""
    return filter(None, (each.strip().removesuffix("*") for each in label.split(",")))


def waiting_jobs(
    store: Store,
    nodes: Mapping[str, frozenset[str]],
    pools: Mapping[str, str],
    now: Nanoseconds,
) -> tuple[Waiting, ...]:
    """What waits now, by partition; what waits for CPUs alone is left out.

    Args:
        store: Whom to ask.
        nodes: The nodes of each partition, as far as an exporter tells them.
        pools: The pool of each node that has GPUs.
        now: Wall time.
    """
    for queue in _QUEUES:
        pending = _jobs(store, queue.pending, queue.label, now)
        if not pending:
            continue
        blocked: dict[str, float] = {}
        for query in queue.blocked:
            for name, count in _jobs(store, query, queue.label, now).items():
                blocked[name] = max(count, blocked.get(name, 0.0))
        without = _without_gpus(store, nodes, pools.keys(), now)
        waiting: dict[str, float] = {}
        for name, count in pending.items():
            # A job that may run in any of several partitions is queued once.
            here = next((each for each in partitions_in(name) if each not in without), "")
            if here:
                ready = max(0.0, count - blocked.get(name, 0.0))
                waiting[here] = waiting.get(here, 0.0) + ready
        return tuple(
            Waiting(name, _pool(name, nodes, pools), jobs)
            for name, jobs in waiting.items()
            if jobs > 0
        )
    found = _largest(store, _WHOLE_QUEUE, now) - _largest(store, _DEPENDENT, now)
    return (Waiting("slurm", "", found),) if found > 0 else ()


def _jobs(store: Store, query: str, label: str, now: Nanoseconds) -> Mapping[str, float]:
    # Two scrapers of one exporter tell of the same jobs.
    once = f"max without (instance, job, prometheus, prometheus_replica, replica) ({query})"
    found = store.instant(f"sum by ({label}) ({once})", now)
    return {each.labels[label]: each.values[0] for each in found if each.labels.get(label)}


def _largest(store: Store, metric: str, now: Nanoseconds) -> float:
    return max((each.values[0] for each in store.instant(f"max({metric})", now)), default=0.0)


def _pool(partition: str, nodes: Mapping[str, frozenset[str]], pools: Mapping[str, str]) -> str:
    """The partition, unless its nodes are in another one too and counted there."""
    found = {pools[node] for node in nodes.get(partition, ()) if node in pools}
    return partition if partition in found or len(found) != 1 else found.pop()


def _without_gpus(
    store: Store, nodes: Mapping[str, frozenset[str]], known: Iterable[str], now: Nanoseconds
) -> frozenset[str]:
    """Partitions that are said to have none, or whose nodes have none while others' do."""
    told = store.instant(f"sum by (partition) ({_GPUS})", now)
    gpus = {each.labels["partition"]: each.values[0] for each in told}
    bare = {name for name, some in nodes.items() if some.isdisjoint(known)}
    # Neither idle nor allocated are the GPUs of nodes that are drained: jobs wait for them too.
    none = {name for name, count in gpus.items() if not count and name not in nodes.keys() - bare}
    if len(bare) < len(nodes):
        none |= bare - gpus.keys()
    return frozenset(none)
