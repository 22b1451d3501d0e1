"""Selectors and queries, each with the matchers that the dashboard's variables ask for."""

from typing import Any, Final, TypeAlias

from rightsizer.domain.metric import METRICS, MetricKind

__all__ = ["DATASOURCE", "Json", "instant", "over_time", "per_second", "query", "select", "share"]

Json: TypeAlias = dict[str, Any]

DATASOURCE: Final[Json] = {"type": "prometheus", "uid": "${datasource}"}
_TARGET: Final = ('job=~"$job"', 'instance=~"$instance"')
_DEVICE: Final = 'uuid=~"$uuid"'
_FOREIGN: Final = frozenset({"process_resident_memory_bytes", "process_cpu_seconds_total"})
"""prometheus_client's own, which the table of metrics does not list."""


def select(name: str, *matchers: str) -> str:
    """A metric of the chosen agents, and of the chosen devices where it has devices.

    Raises:
        KeyError: the agent exports no such metric.
    """
    if name in _FOREIGN:
        return f"{name}{{{', '.join((*_TARGET, *matchers))}}}"
    metric = METRICS[name.removesuffix("_bucket")]
    if name.endswith("_bucket") is not (metric.kind is MetricKind.HISTOGRAM):
        raise KeyError(name)
    device = (_DEVICE,) if "uuid" in metric.labels else ()
    return f"{name}{{{', '.join((*_TARGET, *device, *matchers))}}}"


def over_time(name: str, *matchers: str, span: str = "$__rate_interval") -> str:
    """What a counter grew by over each step, or over another span."""
    return f"increase({select(name, *matchers)}[{span}])"


def per_second(name: str, *matchers: str) -> str:
    """How fast a counter grows."""
    return f"rate({select(name, *matchers)}[$__rate_interval])"


def share(name: str, label: str, whole: str, *matchers: str) -> str:
    """A counter's parts by one label, as shares of what another counter grew by in all."""
    part = f"sum by (job, instance, uuid, {label}) ({over_time(name, *matchers)})"
    all_of_it = f"sum by (job, instance, uuid) ({over_time(whole, *matchers)})"
    return f"{part} / on (job, instance, uuid) group_left () ({all_of_it} > 0)"


def query(expression: str, legend: str = "", *, letter: str = "A", shape: str = "") -> Json:
    """A query over the dashboard's time range."""
    return {
        "datasource": DATASOURCE,
        "expr": expression,
        "legendFormat": legend or "__auto",
        "range": True,
        "instant": False,
        "refId": letter,
        "format": shape or "time_series",
    }


def instant(expression: str, legend: str = "", *, letter: str = "A", shape: str = "") -> Json:
    """A query at the end of the dashboard's time range."""
    moment = {"range": False, "instant": True}
    return query(expression, legend, letter=letter, shape=shape) | moment
