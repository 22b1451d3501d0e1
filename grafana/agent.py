"""The agent itself: is it sampling, does it fail, what does it cost."""

from grafana.panels import Sized, time_series
from grafana.queries import Json, over_time, per_second, query, select

__all__ = ["agent_health"]


def agent_health() -> list[Sized]:
    """Sampling first, then jobs and costs."""
    return [(panel, 6, 6) for panel in (*_sampling(), *_jobs(), *_costs())]


def _sampling() -> list[Json]:
    newest = f"max by (instance) ({select('rightsizer_device_last_sample_timestamp_seconds')})"
    return [
        time_series(
            "Age of the newest sample",
            "Grows when sampling stands still; clocks that differ show here too.",
            [query(f"time() - {newest}", "{{instance}}")],
            "s",
        ),
        time_series(
            "Samples",
            "Samples taken, and those taken late, in each second.",
            [
                query(per_second("rightsizer_samples_total"), "{{instance}} taken"),
                query(per_second("rightsizer_samples_late_total"), "{{instance}} late", letter="B"),
            ],
            "cps",
        ),
        time_series(
            "Collectors",
            "How long each collector's pass over the devices takes.",
            [query(select("rightsizer_collector_duration_seconds"), "{{instance}} {{collector}}")],
            "s",
        ),
    ]


def _jobs() -> list[Json]:
    return [
        time_series(
            "Failures",
            "Collectors that fail now; jobs, annotations and history writes that failed.",
            [
                query(f"{select('rightsizer_collector_success')} == bool 0", "{{collector}}"),
                query(over_time("rightsizer_job_failures_total"), "job {{name}}", letter="B"),
                query(over_time("rightsizer_annotation_failures_total"), "annotation", letter="C"),
                query(over_time("rightsizer_history_write_failures_total"), "history", letter="D"),
            ],
            "none",
        ),
        time_series(
            "Jobs",
            "How long the last run of each job took.",
            [query(select("rightsizer_job_last_duration_seconds"), "{{instance}} {{name}}")],
            "s",
        ),
        time_series(
            "Annotations waiting",
            "Changes of advice that Grafana has not taken yet.",
            [query(select("rightsizer_annotations_pending"), "{{instance}}")],
            "none",
        ),
    ]


def _costs() -> list[Json]:
    return [
        time_series(
            "Memory",
            "Resident memory of the agent, and the size of its history on disk.",
            [
                query(select("process_resident_memory_bytes"), "{{instance}} resident"),
                query(select("rightsizer_history_size_bytes"), "{{instance}} history", letter="B"),
            ],
            "bytes",
        ),
        time_series(
            "CPU",
            "Share of one core that the agent takes.",
            [query(per_second("process_cpu_seconds_total"), "{{instance}}")],
            "percentunit",
        ),
    ]
