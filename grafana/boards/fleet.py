"""The whole estate: how many GPUs, how much of them is used, where the rest goes.

Over weeks only the recording rules of config/prometheus/rules.yaml are cheap enough; where they
are not loaded, the raw metrics after `or` answer.
"""

from typing import Final

from grafana_foundation_sdk.builders.dashboard import Dashboard

from grafana.board import Section, board
from grafana.colors import CAUSE_COLORS, STATE_COLORS
from grafana.links import Board, of_row, of_series
from grafana.panels import GPU_HOURS, Panel, bars, fixed, number, stack
from grafana.queries import (
    BY_DEVICE,
    cells,
    grown_by_device,
    growth,
    named,
    none_named,
    now,
    over,
    per_second,
    recorded_or,
    select,
    whole_gpus,
)
from grafana.scales import (
    ATTENTION,
    OVERPROVISIONED,
    TOO_LARGE,
    TOO_SMALL,
    UNDERPROVISIONED,
    UP,
    USED,
)
from grafana.sections.overview import explanation
from grafana.sections.to_do import to_do
from grafana.tables import Column, rows, sorted_by

__all__ = ["fleet"]

_SPAN: Final = "$__range"
_WORKLOAD: Final = "cluster, job, instance, workload"
_NODE: Final = "cluster, job, instance"
_CURRENT: Final = 'window="current"'
_KIND: Final = ("model", "mig_profile")
_MODEL: Final = ", ".join(_KIND)
_IDLE: Final = 'state=~"idle_empty|idle_held"'


def fleet() -> Dashboard:
    """All panels in their places."""
    return board(
        Board.FLEET,
        "Fleet",
        "All nodes: GPUs, used share, waste.",
        (
            Section("What to do", to_do()),
            Section("At a glance", _numbers()),
            Section("Where the time goes", (_states(), _causes())),
            Section("Nodes", (_nodes(),)),
            Section("Models and namespaces", (_models(), _wasted_by_namespace(), _held_by())),
            Section("Too large and too small", (*_extremes(), explanation().span(8))),
        ),
    )


def _total(rule: str, metric: str, by: str) -> str:
    """Seconds of whole GPUs over the time range, by labels of a node."""
    return recorded_or(rule, whole_gpus(growth(metric, span=_SPAN)), by)


def _used(by: str = "") -> str:
    metric = "rightsizer_used_seconds_total"
    return _total("instance:rightsizer_used_seconds:increase5m", metric, by)


def _wasted(by: str = "") -> str:
    metric = "rightsizer_waste_seconds_total"
    return _total("instance_cause:rightsizer_waste_seconds:increase5m", metric, by)


def _used_share(by: str = "") -> str:
    return f"({_used(by)}) / (({_used(by)}) + ({_wasted(by)}) > 0)"


def _idle_gpus(by: str = "") -> str:
    metric = "rightsizer_state_seconds_total"
    return f"sum by ({by}) ({whole_gpus(per_second(metric, _IDLE))})"


def _gpus(by: str) -> str:
    boards = select("rightsizer_device_info", 'parent_uuid=""')
    return f"count by ({by}) ({boards})"


def _numbers() -> list[Panel]:
    up = select("rightsizer_device_up")
    too_large = select("rightsizer_device_overprovisioned_ratio", _CURRENT)
    too_small = select("rightsizer_device_underprovisioned_ratio", _CURRENT)
    return [
        number(
            "Nodes",
            "Agents that Prometheus scrapes.",
            "short",
            over(f"count(count by ({_NODE}) ({up}))"),
        ),
        number(
            "GPUs",
            "Whole boards, without MIG instances.",
            "short",
            over(_gpus("")),
        ),
        number(
            "Responding",
            "Share of GPUs and MIG instances that respond.",
            "percentunit",
            over(f"sum({up}) / count({up})"),
            UP,
        ).decimals(1),
        number(
            "Used",
            "Effective utilization of the known GPU time, over the time range.",
            "percentunit",
            now(_used_share()),
            USED,
        ).decimals(0),
        number("Idle", "GPUs that are idle, held or not.", "short", over(_idle_gpus())).decimals(1),
        number(
            "Open recommendations",
            "Open recommendations.",
            "short",
            over(f"sum({select('rightsizer_advice_open')})"),
            ATTENTION,
        ),
        number(
            "Too large",
            "Devices whose largest need leaves so much free that smaller ones are recommended.",
            "short",
            over(f"count({too_large} >= {TOO_LARGE:g}) or vector(0)"),
            ATTENTION,
        ).span(8),
        number(
            "Too small",
            "Devices that were short for so long that larger ones are recommended.",
            "short",
            over(f"count({too_small} >= {TOO_SMALL:g}) or vector(0)"),
            ATTENTION,
        ).span(8),
        number(
            "Wasted",
            "Wasted GPU-hours over the time range.",
            GPU_HOURS,
            now(f"({_wasted()}) / 3600"),
        )
        .decimals(0)
        .span(8),
    ]


def _states() -> Panel:
    states = whole_gpus(per_second("rightsizer_state_seconds_total"))
    return fixed(
        stack(
            "GPUs by state",
            "Whole GPUs by state.",
            "short",
            over(f"sum by (state) ({states})", "{{state}}"),
        ),
        STATE_COLORS,
    )


def _causes() -> Panel:
    return fixed(
        bars(
            "Wasted by cause",
            "Wasted GPU-hours over the time range, by cause.",
            GPU_HOURS,
            now(f"sort_desc(({_wasted('cause')}) / 3600)", "{{cause}}"),
        ),
        CAUSE_COLORS,
    ).span(12)


def _nodes() -> Panel:
    panel = rows(
        "By node",
        "Over the time range; most wasted first.",
        (
            Column("cluster"),
            Column("instance", "node", link=of_row(Board.NODE, instance="node")),
            Column("A", "GPUs", "short", 0),
            Column("B", "used", "percentunit", 0, USED),
            Column("C", "GPU-hours wasted", GPU_HOURS, 1),
            Column("D", "GPUs idle now", "short", 1),
            Column("E", "open recommendations", "short", 0),
        ),
        cells(_gpus(_NODE)),
        cells(_used_share(_NODE), letter="B"),
        cells(f"({_wasted(_NODE)}) / 3600", letter="C"),
        cells(_idle_gpus(_NODE), letter="D"),
        cells(f"sum by ({_NODE}) ({select('rightsizer_advice_open')})", letter="E"),
        hidden=(),
    )
    return sorted_by(panel, "GPU-hours wasted")


def _models() -> Panel:
    used = _by_model(grown_by_device("rightsizer_used_seconds_total"))
    wasted = _by_model(
        f"sum by ({BY_DEVICE}) {grown_by_device('rightsizer_waste_seconds_total', 'cause')}"
    )
    idle = f"sum by ({BY_DEVICE}) ({per_second('rightsizer_state_seconds_total', _IDLE)})"
    return rows(
        "By model",
        "Over the time range; MIG instances by profile.",
        (
            Column("model", width=190),
            Column("mig_profile", "MIG profile", width=90),
            Column("A", "devices", "short", 0, width=70),
            Column("B", "used", "percentunit", 0, USED, width=60),
            Column("C", "wasted", GPU_HOURS, 1, width=95),
            Column("D", "idle now", "short", 1, width=75),
        ),
        cells(f"count by ({_MODEL}) ({select('rightsizer_device_info')})"),
        cells(f"{used} / ({used} + {wasted} > 0)", letter="B"),
        cells(f"{wasted} / 3600", letter="C"),
        cells(_by_model(idle), letter="D"),
    ).span(12)


def _by_model(by_device: str) -> str:
    return f"sum by ({_MODEL}) ({named(whole_gpus(by_device), *_KIND)})"


def _by_namespace(expression: str, known: str) -> str:
    """Sums over the workloads of a namespace; Slurm jobs and the like have none."""
    summed = f"sum by (namespace) ({expression} * on ({_WORKLOAD}) group_left (namespace) {known})"
    return none_named(summed, "namespace")


def _wasted_by_namespace() -> Panel:
    parts = select("rightsizer_workload_share_ratio")
    wasted = f"sum by ({BY_DEVICE}) ({whole_gpus(growth('rightsizer_waste_seconds_total'))})"
    product = f"({parts} * on ({BY_DEVICE}) group_left () {wasted})"
    raw = f"sum_over_time({product}[$__range:$__rate_interval])"
    rule = "workload:rightsizer_waste_seconds:increase5m"
    summed = recorded_or(rule, raw, _WORKLOAD)
    # Those that have ended since, too.
    known = f"last_over_time({select('rightsizer_workload_info')}[$__range])"
    known = f"max by ({_WORKLOAD}, namespace) ({known})"
    return (
        bars(
            "Wasted by namespace",
            "GPU-hours that workloads held and did not use over the time range.",
            GPU_HOURS,
            now(f"sort_desc({_by_namespace(summed, known)} / 3600)", "{{namespace}}"),
        )
        .span(12)
        .no_value("No workload is known")
    )


def _held_by() -> Panel:
    parts = whole_gpus(select("rightsizer_workload_share_ratio"))
    return (
        stack(
            "GPUs held by namespace",
            "Whole GPUs held by workloads.",
            "short",
            over(_by_namespace(f"({parts})", select("rightsizer_workload_info")), "{{namespace}}"),
        )
        .span(24)
        .no_value("No workload is known")
    )


def _extremes() -> list[Panel]:
    too_large = select("rightsizer_device_overprovisioned_ratio", _CURRENT)
    too_small = select("rightsizer_device_underprovisioned_ratio", _CURRENT)
    legend = "{{instance}} GPU {{gpu}} {{mig_profile}}"
    return [
        bars(
            "Most over-provisioned",
            "Top ten by free part after the largest need.",
            "percentunit",
            now(f"topk(10, {named(too_large)})", legend),
            OVERPROVISIONED,
        ).data_links([of_series(Board.GPU, "instance", "uuid")]),
        bars(
            "Most under-provisioned",
            "Top ten by time under pressure.",
            "percentunit",
            now(f"topk(10, {named(too_small)})", legend),
            UNDERPROVISIONED,
        ).data_links([of_series(Board.GPU, "instance", "uuid")]),
    ]
