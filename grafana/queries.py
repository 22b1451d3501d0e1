"""PromQL, with the matchers that the dashboards' variables ask for."""

from typing import Final

from grafana_foundation_sdk.builders.prometheus import Dataquery
from grafana_foundation_sdk.models.common import DataSourceRef
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

from rightsizer.model.metric import METRICS
from rightsizer.model.metric_family import MetricKind
from rightsizer.model.state import State

__all__ = [
    "BY_ADVICE",
    "BY_DEVICE",
    "DATASOURCE",
    "STATE_CODES",
    "advice",
    "by_number",
    "cells",
    "chosen",
    "grown_by_device",
    "growth",
    "held",
    "kilowatt_hours",
    "main_state",
    "named",
    "none_named",
    "now",
    "of_service",
    "over",
    "per_second",
    "recorded",
    "recorded_or",
    "select",
    "served",
    "share",
    "whole_gpus",
]

DATASOURCE: Final = DataSourceRef("prometheus", "${datasource}")
_TARGET: Final = ('cluster=~"$cluster"', 'job=~"$job"', 'instance=~"$instance"')
_BY_LABEL: Final = {"uuid": 'uuid=~"$uuid"', "workload": 'workload=~"$workload"'}
_FOREIGN: Final = frozenset({"process_resident_memory_bytes", "process_cpu_seconds_total"})
"""prometheus_client's own, which the table of metrics does not list."""

BY_DEVICE: Final = "cluster, job, instance, uuid"
"""What tells devices apart; `cluster` is empty, and does no harm, where no one sets it."""
BY_ADVICE: Final = "cluster, job, instance, id"
STATE_CODES: Final = {state: code for code, state in enumerate(State)}
"""A state timeline draws numbers; these stand for the states."""
_STATES: Final = "rightsizer_state_seconds_total"
_RATE_INTERVAL: Final = "$__rate_interval"
_MINIMUM_STEP: Final = "1m"
"""Grafana takes it for the scrape interval, of which `$__rate_interval` is four: then rates have
samples at scrapes of up to two minutes, whatever the data source is told."""


def select(name: str, *matchers: str) -> str:
    """A metric of the chosen agents, and of the chosen devices and workloads where it has them.

    Raises:
        KeyError: the agent exports no such metric.
    """
    return f"{name}{{{', '.join((*chosen(name), *matchers))}}}"


def chosen(name: str) -> tuple[str, ...]:
    """The matchers that the variables ask for of a metric.

    Raises:
        KeyError: the agent exports no such metric.
    """
    if name in _FOREIGN:
        return _TARGET
    metric = METRICS[name.removesuffix("_bucket")]
    if name.endswith("_bucket") is not (metric.kind is MetricKind.HISTOGRAM):
        raise KeyError(name)
    return (*_TARGET, *(text for label, text in _BY_LABEL.items() if label in metric.labels))


def served(name: str, *matchers: str) -> str:
    """A metric of `rightsizer fleet --serve`, whose job and instance are none of the nodes'.

    Raises:
        KeyError: no one exports such a metric.
    """
    if name not in _FOREIGN:
        METRICS[name]
    return f"{name}{{{', '.join((_TARGET[0], *matchers))}}}"


def of_service(expression: str) -> str:
    """What agents export too, of the service alone."""
    service = served("rightsizer_build_info", 'source="fleet"')
    by = "(cluster, job, instance)"
    return f"{expression} * on {by} group_left () max by {by} ({service})"


def recorded(rule: str) -> str:
    """A recording rule of config/prometheus/rules.yaml, of what is chosen."""
    labels = rule.partition(":")[0].split("_")
    matchers = (text for label, text in _BY_LABEL.items() if label in labels)
    return f"{rule}{{{', '.join((*_TARGET, *matchers))}}}"


def recorded_or(rule: str, raw: str, by: str) -> str:
    """The sum over the time range of what a rule records each five minutes, else a raw query."""
    summed = f"sum_over_time({recorded(rule)}[$__range:5m])"
    return f"(sum by ({by}) ({summed}) or sum by ({by}) ({raw}))"


def grown_by_device(name: str, *labels: str) -> str:
    """What a counter of devices grew by over the time range, by device and further labels."""
    rule = f"{'_'.join(('uuid', *labels))}:{name.removesuffix('_total')}:increase5m"
    return recorded_or(rule, growth(name, span="$__range"), ", ".join((BY_DEVICE, *labels)))


def none_named(expression: str, label: str) -> str:
    """A label with a word where it is empty: Grafana would call such a series Value."""
    return f'label_replace({expression}, "{label}", "(none)", "{label}", "")'


def by_number(expression: str) -> str:
    """A device's numbers under a label `device`, such as `GPU 3`, in place of its uuid."""
    return f'label_replace({named(expression)}, "device", "GPU $1", "gpu", "(.+)")'


def growth(name: str, *matchers: str, span: str = _RATE_INTERVAL) -> str:
    """What a counter grew by over each step, or over another span."""
    return f"increase({select(name, *matchers)}[{span}])"


def kilowatt_hours(joules: str) -> str:
    """Energy as it is billed."""
    return f"{joules} / 3.6e6"


def per_second(name: str, *matchers: str) -> str:
    """How fast a counter grows."""
    return f"rate({select(name, *matchers)}[$__rate_interval])"


def share(name: str, label: str, *matchers: str, span: str = _RATE_INTERVAL) -> str:
    """A counter's parts by one label, as shares of the device's time in all."""
    part = f"sum by ({BY_DEVICE}, {label}) ({growth(name, *matchers, span=span)})"
    whole = f"sum by ({BY_DEVICE}) ({growth(_STATES, span=span)})"
    return f"{part} / on ({BY_DEVICE}) group_left () ({whole} > 0)"


def whole_gpus(expression: str) -> str:
    """A device's numbers by its part of a GPU, so that MIG instances add up to one."""
    capacity = select("rightsizer_device_capacity_ratio")
    return f"{expression} * on ({BY_DEVICE}) group_left () {capacity}"


def held(expression: str) -> str:
    """A device's numbers by the part of it that the chosen workloads held at the time."""
    parts = f"sum by ({BY_DEVICE}) ({select('rightsizer_workload_share_ratio')})"
    return f"{expression} * on ({BY_DEVICE}) group_left () {parts}"


def named(expression: str, *labels: str) -> str:
    """A device's numbers with its index, or with other labels of its identity."""
    told = ", ".join(labels or ("gpu", "mig_profile"))
    return f"{expression} * on ({BY_DEVICE}) group_left ({told}) {select('rightsizer_device_info')}"


def advice(name: str) -> str:
    """A number of advice with the words that say which."""
    told = select("rightsizer_advice_info")
    return f"{select(name)} * on ({BY_ADVICE}) group_right () {told}"


def main_state(*, of_workload: bool = False) -> str:
    """The state that took most of each step, as a number of `STATE_CODES`."""
    grown = growth(_STATES)
    most = f"topk by ({BY_DEVICE}) (1, {held(grown) if of_workload else grown} > 0)"
    codes = " or ".join(
        f'label_replace(vector({code}), "state", "{state}", "", "")'
        for state, code in STATE_CODES.items()
    )
    return f"sum by ({BY_DEVICE}) ({most} * 0 + on (state) group_left () ({codes}))"


def over(expression: str, legend: str = "", *, letter: str = "A") -> Dataquery:
    """A query over the dashboard's time range."""
    return _query(expression, legend, letter).range()


def now(expression: str, legend: str = "", *, letter: str = "A") -> Dataquery:
    """A query at the end of the dashboard's time range."""
    return _query(expression, legend, letter).instant()


def cells(expression: str, *, letter: str = "A") -> Dataquery:
    """A query at the end of the time range, one row for each series."""
    return now(expression, letter=letter).format(PromQueryFormat.TABLE)


def _query(expression: str, legend: str, letter: str) -> Dataquery:
    query = Dataquery()
    if _RATE_INTERVAL in expression:
        query.interval(_MINIMUM_STEP)
    return (
        query.datasource(DATASOURCE)
        .expr(expression)
        .legend_format(legend or "__auto")
        .format(PromQueryFormat.TIME_SERIES)
        .ref_id(letter)
    )
