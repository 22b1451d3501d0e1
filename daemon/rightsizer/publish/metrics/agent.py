"""The metrics of the agent itself."""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from rightsizer.domain.metric import METRICS, MetricKind, Origin
from rightsizer.domain.report import AgentReport, DeviceReport, JobReport
from rightsizer.domain.units import Nanoseconds, seconds
from rightsizer.publish.metrics.families import Families

__all__ = ["add_agent", "add_workloads"]

_RECOMMENDERS: Final = frozenset({"recommend", "fleet"})
"""The jobs that make advice; they have metrics of their own, being what all is for."""
_LABEL: Final = re.compile(r'(\w+)="([^"]*)"')
_PLAIN_COUNTERS: Final = tuple(
    metric.name
    for metric in METRICS.values()
    if metric.kind is MetricKind.COUNTER and metric.origin is Origin.AGENT and not metric.labels
)


def add_agent(families: Families, agent: AgentReport) -> None:
    """Add what the agent says of itself; its counters start at 0, its gauges when known."""
    families.add_info("rightsizer_build_info", agent.version, agent.source)
    families.add("rightsizer_sampling_interval_seconds", agent.interval_seconds)
    for name, outcome in agent.collectors.items():
        families.add("rightsizer_collector_success", float(outcome.success), name)
        families.add("rightsizer_collector_duration_seconds", outcome.duration_seconds, name)
    for job in agent.jobs:
        _add_job(families, job)
    values = dict.fromkeys(_PLAIN_COUNTERS, 0.0) | _recommender(agent.jobs)
    for name, labels, value in _series(values | dict(agent.counters) | dict(agent.gauges)):
        families.add(name, value, *labels)


def add_workloads(families: Families, devices: Iterable[DeviceReport]) -> None:
    """Add each workload once, however many devices it holds."""
    workloads = {
        holding.workload.key: holding.workload for device in devices for holding in device.holdings
    }
    for workload in workloads.values():
        families.add_info(
            "rightsizer_workload_info",
            workload.key,
            workload.kind.value,
            workload.workload_class.value,
            workload.namespace,
            workload.name,
            workload.pod,
            workload.container,
            workload.allocator.value,
        )


def _add_job(families: Families, job: JobReport) -> None:
    families.add("rightsizer_job_runs_total", float(job.runs), job.name)
    families.add("rightsizer_job_skipped_total", float(job.skipped), job.name)
    families.add("rightsizer_job_failures_total", float(job.failures), job.name)
    for name, value in (
        ("rightsizer_job_last_start_timestamp_seconds", _time(job.last_start)),
        ("rightsizer_job_last_success_timestamp_seconds", _time(job.last_success)),
        ("rightsizer_job_last_duration_seconds", job.last_duration_seconds),
    ):
        families.add(name, value, job.name)


def _recommender(jobs: Iterable[JobReport]) -> dict[str, float]:
    """The recommender's own metrics, from the job that it is; what is not known is left out."""
    job = next((job for job in jobs if job.name in _RECOMMENDERS), None)
    if job is None:
        return {}
    found = {
        "runs_total": float(job.runs),
        "failures_total": float(job.failures),
        "skipped_total": float(job.skipped),
        "duration_seconds": job.last_duration_seconds,
        "last_success_timestamp_seconds": _time(job.last_success),
    }
    return {
        f"rightsizer_recommender_{name}": value
        for name, value in found.items()
        if value is not None
    }


def _series(values: Mapping[str, float]) -> Iterator[tuple[str, tuple[str, ...], float]]:
    """The series that a mapping of the agent report holds; only the table's names are known."""
    for key, value in values.items():
        name, _, inside = key.partition("{")
        if name not in METRICS:
            continue
        given = dict(_LABEL.findall(inside))
        yield name, tuple(given.get(label, "") for label in METRICS[name].labels), value


def _time(time: Nanoseconds | None) -> float | None:
    return None if time is None else seconds(time)
