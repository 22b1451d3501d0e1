"""What was paid for and not used: time, energy, and money where a price is given."""

from typing import Final

from grafana_foundation_sdk.builders.dashboard import Dashboard

from grafana.board import Section, board
from grafana.colors import CAUSE_COLORS, USED_COLOR
from grafana.links import Board, of_row
from grafana.panels import GPU_HOURS, KILOWATT_HOURS, Panel, bars, fixed, number, stack
from grafana.queries import (
    BY_DEVICE,
    cells,
    grown_by_device,
    growth,
    kilowatt_hours,
    named,
    now,
    over,
    per_second,
    recorded_or,
    select,
    whole_gpus,
)
from grafana.scales import USED
from grafana.sections.energy import energy_by_cause
from grafana.sections.to_do import to_do
from grafana.tables import Column, rows, sorted_by

__all__ = ["waste"]

_NO_PRICE: Final = "No price is known (prices)"
_NODE: Final = "cluster, job, instance"
_WORKLOAD: Final = f"{_NODE}, workload"
_PRICE: Final = select("rightsizer_device_dollars_per_hour")
_HOURS_A_MONTH: Final = 730


def waste() -> Dashboard:
    """All panels in their places."""
    return board(
        Board.WASTE,
        "Waste and cost",
        "Wasted GPU time and energy by cause, workload, node and GPU.",
        (
            Section("What to do", to_do()),
            Section("Total", _numbers()),
            Section("By cause", (_over_time(), energy_by_cause(), *_totals())),
            Section("By workload", (_by_workload(), _energy_by_workload())),
            Section(
                "By node and GPU",
                (_by_node(), _by_device(), _energy_by_node(), _energy_by_device()),
            ),
        ),
    )


_USED_SECONDS: Final = grown_by_device("rightsizer_used_seconds_total")
_WASTED_SECONDS: Final = grown_by_device("rightsizer_waste_seconds_total", "cause")
_WASTED_JOULES: Final = grown_by_device("rightsizer_waste_joules_total", "cause")
_USED: Final = whole_gpus(_USED_SECONDS)
_WASTED: Final = whole_gpus(_WASTED_SECONDS)
_MONEY: Final = f"{_WASTED_SECONDS} * on ({BY_DEVICE}) group_left () {_PRICE} / 3600"
"""Dollars, at the price of each device; of none, where none is known."""


def _numbers() -> list[Panel]:
    now_wasted = per_second("rightsizer_waste_seconds_total")
    monthly = f"{now_wasted} * on ({BY_DEVICE}) group_left () {_PRICE}"
    return [
        number(
            "Wasted",
            "Wasted GPU-hours over the time range.",
            GPU_HOURS,
            now(f"sum({_WASTED}) / 3600"),
        ).decimals(1),
        number(
            "Used",
            "Effective utilization of the known GPU time, over the time range.",
            "percentunit",
            now(f"sum({_USED}) / (sum({_USED}) + sum({_WASTED}) > 0)"),
            USED,
        ).decimals(0),
        number(
            "Energy wasted",
            "Energy over the time range without work.",
            KILOWATT_HOURS,
            now(f"sum({kilowatt_hours(_WASTED_JOULES)})"),
        ),
        number(
            "Wasted now",
            "GPUs wasted now.",
            "short",
            over(f"sum({whole_gpus(now_wasted)})"),
        ).decimals(1),
        number(
            "Money wasted",
            "Wasted GPU-hours at the agents' median prices, as on their pages.",
            "currencyUSD",
            now(f"sum({_MONEY})"),
        ).no_value(_NO_PRICE),
        number(
            "Money wasted a month",
            "Present waste at the agents' median prices, for 730 hours.",
            "currencyUSD",
            over(f"sum({monthly}) * {_HOURS_A_MONTH}"),
        ).no_value(_NO_PRICE),
    ]


def _over_time() -> Panel:
    used = whole_gpus(per_second("rightsizer_used_seconds_total"))
    wasted = whole_gpus(per_second("rightsizer_waste_seconds_total"))
    return fixed(
        stack(
            "GPUs by use",
            "Whole GPUs used, and wasted by cause.",
            "short",
            over(f"sum({used})", "used"),
            over(f"sum by (cause) ({wasted})", "{{cause}}", letter="B"),
        ),
        {"used": USED_COLOR, **CAUSE_COLORS},
    )


def _totals() -> list[Panel]:
    return [
        fixed(
            bars(
                "Hours by cause",
                "Wasted GPU-hours over the time range.",
                GPU_HOURS,
                now(f"sort_desc(sum by (cause) ({_WASTED}) / 3600)", "{{cause}}"),
            ),
            CAUSE_COLORS,
        ),
        fixed(
            bars(
                "Energy by cause",
                "Energy over the time range in proportion to the waste.",
                KILOWATT_HOURS,
                now(
                    f"sort_desc(sum by (cause) ({kilowatt_hours(_WASTED_JOULES)}))",
                    "{{cause}}",
                ),
            ),
            CAUSE_COLORS,
        ),
        fixed(
            bars(
                "Money by cause",
                "Wasted GPU-hours over the time range at the agents' median prices.",
                "currencyUSD",
                now(f"sort_desc(sum by (cause) ({_MONEY}))", "{{cause}}"),
            ),
            CAUSE_COLORS,
        ).no_value(_NO_PRICE),
    ]


def _held(grown: str) -> str:
    """What workloads held of it: each step by what they held then."""
    parts = select("rightsizer_workload_share_ratio")
    product = f"{parts} * on ({BY_DEVICE}) group_left () (sum by ({BY_DEVICE}) ({grown}))"
    return f"sum by ({_WORKLOAD}) (sum_over_time(({product})[$__range:$__rate_interval]))"


def _of_workload(name: str) -> str:
    """GPU-seconds of workloads, as recorded or else by steps."""
    rule = f"workload:{name.removesuffix('_total')}:increase5m"
    raw = _held(whole_gpus(growth(name)))
    return recorded_or(rule, raw, _WORKLOAD)


def _by_workload() -> Panel:
    used = f"sum by (workload) {_of_workload('rightsizer_used_seconds_total')}"
    wasted = f"sum by (workload) {_of_workload('rightsizer_waste_seconds_total')}"
    priced = f"{growth('rightsizer_waste_seconds_total')} * on ({BY_DEVICE}) group_left () {_PRICE}"
    panel = rows(
        "Workloads",
        "Held and not used over the time range; most wasted first.",
        (
            Column("workload", link=of_row(Board.WORKLOAD, workload="workload")),
            Column("A", "GPU-hours wasted", GPU_HOURS, 1),
            Column("B", "used", "percentunit", 0, USED),
            Column("C", "money wasted", "currencyUSD", 2),
        ),
        cells(f"{wasted} / 3600"),
        cells(f"{used} / ({used} + {wasted} > 0)", letter="B"),
        cells(f"sum by (workload) ({_held(priced)}) / 3600", letter="C"),
    )
    return sorted_by(panel, "GPU-hours wasted").no_value("No workload is known")


def _energy_by_workload() -> Panel:
    joules = _held(growth("rightsizer_waste_joules_total"))
    return bars(
        "Energy by workload",
        "Energy held and not used over the time range; top ten.",
        KILOWATT_HOURS,
        now(
            f"sort_desc(topk(10, {kilowatt_hours(f'sum by (workload) ({joules})')}))",
            "{{workload}}",
        ),
    ).no_value("No workload is known")


def _by_node() -> Panel:
    wasted = f"sum by ({_NODE}) ({_WASTED})"
    used = f"sum by ({_NODE}) ({_USED})"
    panel = rows(
        "Nodes",
        "Waste over the time range; most wasted first.",
        (
            Column("instance", "node", link=of_row(Board.NODE, instance="node")),
            Column("A", "GPU-hours wasted", GPU_HOURS, 1),
            Column("B", "used", "percentunit", 0, USED),
            Column("C", "money wasted", "currencyUSD", 2),
        ),
        cells(f"{wasted} / 3600"),
        cells(f"{used} / ({used} + {wasted} > 0)", letter="B"),
        cells(f"sum by ({_NODE}) ({_MONEY})", letter="C"),
    )
    return sorted_by(panel, "GPU-hours wasted").span(12)


def _by_device() -> Panel:
    wasted = f"sum by ({BY_DEVICE}) ({_WASTED})"
    panel = rows(
        "GPUs",
        "Waste over the time range; most wasted first.",
        (
            Column("instance", "node", link=of_row(Board.NODE, instance="node")),
            Column("gpu", "GPU", link=of_row(Board.GPU, uuid="uuid")),
            Column("model", width=190),
            Column("A", "GPU-hours wasted", GPU_HOURS, 1),
            Column("B", "money wasted", "currencyUSD", 2),
            Column("uuid", is_hidden=True),
        ),
        cells(f"{named(wasted, 'gpu', 'model')} / 3600"),
        cells(named(f"sum by ({BY_DEVICE}) ({_MONEY})", "gpu", "model"), letter="B"),
    )
    return sorted_by(panel, "GPU-hours wasted").span(12)


def _energy_by_node() -> Panel:
    energy = f"sum by ({_NODE}) ({kilowatt_hours(_WASTED_JOULES)})"
    return bars(
        "Energy by node",
        "Energy wasted over the time range; top ten.",
        KILOWATT_HOURS,
        now(f"sort_desc(topk(10, {energy}))", "{{instance}}"),
    ).span(12)


def _energy_by_device() -> Panel:
    energy = f"sum by ({BY_DEVICE}) ({kilowatt_hours(_WASTED_JOULES)})"
    return bars(
        "Energy by GPU",
        "Energy wasted over the time range; top ten.",
        KILOWATT_HOURS,
        now(f"sort_desc(topk(10, {named(energy)}))", "{{instance}} GPU {{gpu}} {{mig_profile}}"),
    ).span(12)
