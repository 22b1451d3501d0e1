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
    growth,
    kilowatt_hours,
    named,
    now,
    over,
    per_second,
    select,
    whole_gpus,
)
from grafana.scales import USED
from grafana.sections.energy import energy_by_cause
from grafana.tables import Column, rows, sorted_by
from grafana.variables import price

__all__ = ["waste"]

_SPAN: Final = "$__range"
_USED: Final = whole_gpus(growth("rightsizer_used_seconds_total", span=_SPAN))
_WASTED: Final = whole_gpus(growth("rightsizer_waste_seconds_total", span=_SPAN))
_WASTED_ENERGY: Final = kilowatt_hours(growth("rightsizer_waste_joules_total", span=_SPAN))
_PRICE: Final = "$dollars_per_gpu_hour"
_NO_PRICE: Final = "Give a price above"
_NODE: Final = "cluster, job, instance"


def waste() -> Dashboard:
    """All panels in their places."""
    return board(
        Board.WASTE,
        "Waste and cost",
        "Wasted GPU time and energy by cause, workload, node and GPU.",
        (
            Section("Total", _numbers()),
            Section("By cause", (_over_time(), energy_by_cause(), *_totals())),
            Section("By workload", (_by_workload(),)),
            Section("By node and GPU", (_by_node(), _by_device())),
        ),
        extras=(price(),),
    )


def _numbers() -> list[Panel]:
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
            now(f"sum({_WASTED_ENERGY})"),
        ),
        number(
            "Wasted now",
            "GPUs wasted now.",
            "short",
            over(f"sum({whole_gpus(per_second('rightsizer_waste_seconds_total'))})"),
        ).decimals(1),
        number(
            "Money wasted",
            "Wasted GPU-hours at the price given above; nothing without a price.",
            "currencyUSD",
            now(_priced(f"sum({_WASTED})")),
        ).no_value(_NO_PRICE),
        number(
            "Money wasted a month",
            "Present waste at the price above, for 730 hours.",
            "currencyUSD",
            over(
                _priced(
                    f"sum({whole_gpus(per_second('rightsizer_waste_seconds_total'))}) * 730 * 3600"
                )
            ),
        ).no_value(_NO_PRICE),
    ]


def _priced(seconds: str) -> str:
    """Dollars for seconds of GPUs; no answer while no price is given."""
    return f"{seconds} / 3600 * {_PRICE} > 0"


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
                now(f"sum by (cause) ({_WASTED}) / 3600", "{{cause}}"),
            ),
            CAUSE_COLORS,
        ),
        fixed(
            bars(
                "Energy by cause",
                "Energy over the time range in proportion to the waste.",
                KILOWATT_HOURS,
                now(f"sum by (cause) ({_WASTED_ENERGY})", "{{cause}}"),
            ),
            CAUSE_COLORS,
        ),
        fixed(
            bars(
                "Money by cause",
                "Wasted GPU-hours over the time range at the price given above.",
                "currencyUSD",
                now(_priced(f"sum by (cause) ({_WASTED})"), "{{cause}}"),
            ),
            CAUSE_COLORS,
        ).no_value(_NO_PRICE),
    ]


def _of_workload(name: str) -> str:
    """What workloads wasted: each step by what they held then."""
    parts = select("rightsizer_workload_share_ratio")
    grown = f"sum by ({BY_DEVICE}) ({growth(name)})"
    if name.endswith("_seconds_total"):
        grown = whole_gpus(grown)
    product = f"{parts} * on ({BY_DEVICE}) group_left () ({grown})"
    return f"sum by (workload) (sum_over_time(({product})[$__range:$__rate_interval]))"


def _by_workload() -> Panel:
    used = _of_workload("rightsizer_used_seconds_total")
    wasted = _of_workload("rightsizer_waste_seconds_total")
    panel = rows(
        "Workloads",
        "Held and not used over the time range; most wasted first.",
        (
            Column("workload", link=of_row(Board.WORKLOAD, workload="workload")),
            Column("A", "GPU-hours wasted", GPU_HOURS, 1),
            Column("B", "used", "percentunit", 0, USED),
            Column("C", "energy wasted", KILOWATT_HOURS, 1),
            Column("D", "money wasted", "currencyUSD", 2),
        ),
        cells(f"{wasted} / 3600"),
        cells(f"{used} / ({used} + {wasted} > 0)", letter="B"),
        cells(kilowatt_hours(_of_workload("rightsizer_waste_joules_total")), letter="C"),
        cells(_priced(wasted), letter="D"),
    )
    return sorted_by(panel, "GPU-hours wasted").no_value("No workload is known")


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
            Column("C", "energy wasted", KILOWATT_HOURS, 1),
            Column("D", "money wasted", "currencyUSD", 2),
        ),
        cells(f"{wasted} / 3600"),
        cells(f"{used} / ({used} + {wasted} > 0)", letter="B"),
        cells(f"sum by ({_NODE}) ({_WASTED_ENERGY})", letter="C"),
        cells(_priced(wasted), letter="D"),
    )
    return sorted_by(panel, "GPU-hours wasted").span(12)


def _by_device() -> Panel:
    wasted = f"sum by ({BY_DEVICE}) ({_WASTED})"
    energy = f"sum by ({BY_DEVICE}) ({_WASTED_ENERGY})"
    panel = rows(
        "GPUs",
        "Waste over the time range; most wasted first.",
        (
            Column("instance", "node", link=of_row(Board.NODE, instance="node")),
            Column("gpu"),
            Column("model"),
            Column("A", "GPU-hours wasted", GPU_HOURS, 1),
            Column("B", "energy wasted", KILOWATT_HOURS, 1),
            Column("uuid", link=of_row(Board.GPU, uuid="uuid")),
        ),
        cells(f"{named(wasted, 'gpu', 'model')} / 3600"),
        cells(named(energy, "gpu", "model"), letter="B"),
    )
    return sorted_by(panel, "GPU-hours wasted").span(12)
