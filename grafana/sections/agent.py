"""The agent itself: is it sampling, does it fail, what does it cost."""

from grafana.panels import Panel, lines
from grafana.queries import growth, over, per_second, select

__all__ = ["agent_health"]


def agent_health() -> list[Panel]:
    """Sampling first, then jobs and costs."""
    return [panel.span(8).height(7) for panel in (*_sampling(), *_jobs(), *_costs())]


def _sampling() -> list[Panel]:
    sampled = select("rightsizer_device_last_sample_timestamp_seconds")
    newest = f"max by (instance) ({sampled})"
    return [
        lines(
            "Age of the newest sample",
            "Grows when sampling stalls; clock differences show here too.",
            "s",
            over(f"time() - {newest}", "{{instance}}"),
        ),
        lines(
            "Samples",
            "Samples a second, and late ones.",
            "cps",
            over(per_second("rightsizer_samples_total"), "{{instance}} taken"),
            over(per_second("rightsizer_samples_late_total"), "{{instance}} late", letter="B"),
        ),
        lines(
            "Collectors",
            "How long each collector's pass over the devices takes.",
            "s",
            over(select("rightsizer_collector_duration_seconds"), "{{instance}} {{collector}}"),
        ),
    ]


def _jobs() -> list[Panel]:
    return [
        lines(
            "Failures",
            "Failing collectors; failed jobs, annotations and history writes.",
            "short",
            over(f"{select('rightsizer_collector_success')} == bool 0", "{{collector}}"),
            over(growth("rightsizer_job_failures_total"), "job {{name}}", letter="B"),
            over(growth("rightsizer_annotation_failures_total"), "annotation", letter="C"),
            over(growth("rightsizer_history_write_failures_total"), "history", letter="D"),
        ),
        lines(
            "Jobs",
            "How long the last run of each job took.",
            "s",
            over(select("rightsizer_job_last_duration_seconds"), "{{instance}} {{name}}"),
        ),
        lines(
            "Annotations pending",
            "Annotations not yet accepted by Grafana.",
            "short",
            over(select("rightsizer_annotations_pending"), "{{instance}}"),
        ).no_value("No Grafana is configured (grafana.url)"),
    ]


def _costs() -> list[Panel]:
    return [
        lines(
            "Memory of the agent",
            "Resident memory of the agent, and the size of its history on disk.",
            "bytes",
            over(select("process_resident_memory_bytes"), "{{instance}} resident"),
            over(select("rightsizer_history_size_bytes"), "{{instance}} history", letter="B"),
        ),
        lines(
            "CPU of the agent",
            "Share of one core that the agent takes.",
            "percentunit",
            over(per_second("process_cpu_seconds_total"), "{{instance}}"),
        ),
        lines(
            "Log messages",
            "Messages a second, by level.",
            "cps",
            over(
                f"sum by (instance, level) ({per_second('rightsizer_log_messages_total')})",
                "{{instance}} {{level}}",
            ),
        ),
    ]
