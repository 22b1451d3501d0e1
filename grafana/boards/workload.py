"""One workload over all its GPUs: is it well served, and does it use what it holds."""

from grafana_foundation_sdk.builders.dashboard import Dashboard

from grafana.board import Section, board
from grafana.colors import CAUSE_COLORS, STATE_COLORS, USED_COLOR
from grafana.links import Board, of_row
from grafana.panels import KILOWATT_HOURS, Panel, bars, fixed, lines, number, stack, timeline
from grafana.queries import (
    BY_DEVICE,
    cells,
    growth,
    held,
    kilowatt_hours,
    main_state,
    named,
    now,
    over,
    per_second,
    select,
)
from grafana.scales import ATTENTION, PLAIN, USED
from grafana.sections.to_do import advice_table
from grafana.tables import Column, rows

__all__ = ["workload"]

_DEVICE = "{{instance}} GPU {{gpu}} {{mig_profile}}"
_MEMORY_USED = (
    f"{select('rightsizer_memory_used_bytes')} / {select('rightsizer_memory_total_bytes')}"
)
_EMPTY = "Choose a workload that held a GPU in this time range"


def workload() -> Dashboard:
    """All panels in their places; a shared GPU counts by the part that the workload holds."""
    return board(
        Board.WORKLOAD,
        "Workload",
        "One workload over all its GPUs: states, waste, GPUs held.",
        (
            Section("At a glance", _numbers()),
            Section("What its GPUs did", (_strip(), _states(), _waste())),
            Section("Energy", (_energy(), _energy_by_cause())),
            Section("What it holds", _holdings()),
            Section("Serving", _serving(), is_folded=True),
            Section("Recommendations", (advice_table(),)),
        ),
    )


def _numbers() -> list[Panel]:
    held_gpus = f"sum({select('rightsizer_workload_share_ratio')})"
    used = f"sum({held(per_second('rightsizer_used_seconds_total'))})"
    wasted = f"sum({held(_any_cause('rightsizer_waste_seconds_total'))})"
    drawn = f"sum({held(select('rightsizer_power_watts'))})"
    return [
        number(
            "GPUs held",
            "Whole GPUs or MIG instances, a shared one by its part.",
            "short",
            over(held_gpus),
        ),
        number(
            "Used",
            "Effective utilization of the GPUs that it holds.",
            "percentunit",
            over(f"{used} / ({used} + {wasted} > 0)"),
            USED,
        ).decimals(0),
        number("Wasted", "GPUs held and not used.", "short", over(wasted)).decimals(2),
        number("Power", "Draw of its part of the GPUs.", "watt", over(drawn)),
        number(
            "Longest in queue",
            "Requests that wait in the serving engine; absent where none is configured.",
            "short",
            over(f"max({held(select('rightsizer_requests_waiting'))})"),
        ).no_value("No serving engine"),
        number(
            "Open recommendations",
            "Recommendations for it.",
            "short",
            now(f"count(count by (id) ({select('rightsizer_advice_info')})) or vector(0)"),
            ATTENTION,
        ),
    ]


def _any_cause(name: str) -> str:
    return f"sum by ({BY_DEVICE}) ({per_second(name)})"


def _strip() -> Panel:
    return timeline(
        "States of its GPUs",
        "Prevailing state of each step, by GPU.",
        over(named(main_state(of_workload=True)), _DEVICE),
    ).no_value(_EMPTY)


def _states() -> Panel:
    states = held(per_second("rightsizer_state_seconds_total"))
    return fixed(
        stack(
            "States",
            "GPUs of the workload by state.",
            "short",
            over(f"sum by (state) ({states})", "{{state}}"),
        ),
        STATE_COLORS,
    ).no_value(_EMPTY)


def _waste() -> Panel:
    return fixed(
        stack(
            "Waste by cause",
            "GPUs held and not used, by cause.",
            "short",
            over(
                f"sum by (cause) ({held(per_second('rightsizer_waste_seconds_total'))})",
                "{{cause}}",
            ),
        ),
        CAUSE_COLORS,
    ).no_value(_EMPTY)


def _energy() -> Panel:
    used = held(per_second("rightsizer_used_joules_total"))
    wasted = held(per_second("rightsizer_waste_joules_total"))
    return fixed(
        stack(
            "Power by use",
            "Draw of its part of the GPUs: used, and wasted by cause.",
            "watt",
            over(f"sum({used})", "used"),
            over(f"sum by (cause) ({wasted})", "{{cause}}", letter="B"),
        ),
        {"used": USED_COLOR, **CAUSE_COLORS},
    ).no_value(_EMPTY)


def _energy_by_cause() -> Panel:
    step = "$__range:$__rate_interval"
    wasted = kilowatt_hours(held(growth("rightsizer_waste_joules_total")))
    return (
        bars(
            "Energy wasted",
            "Energy over the time range by cause, each step by what the workload held then.",
            KILOWATT_HOURS,
            now(f"sum by (cause) (sum_over_time(({wasted})[{step}]))", "{{cause}}"),
            PLAIN,
        )
        .span(12)
        .no_value(_EMPTY)
    )


def _holdings() -> list[Panel]:
    parts = select("rightsizer_workload_share_ratio")
    labels = ("gpu", "model", "mig_profile", "numa_node")
    spare = select("rightsizer_device_overprovisioned_ratio", 'window="24h"')
    free = f"max by ({BY_DEVICE}) ({spare})"
    return [
        rows(
            "Its GPUs now",
            "The part of each that it holds, and what its largest need leaves free.",
            (
                Column("workload", link=of_row(Board.WORKLOAD, workload="workload")),
                Column("instance", "node", link=of_row(Board.NODE, instance="node")),
                Column("gpu", "GPU", link=of_row(Board.GPU, uuid="uuid")),
                Column("model", width=190),
                Column("mig_profile", "MIG profile"),
                Column("numa_node", "NUMA node"),
                Column("A", "part", "percentunit", 0),
                Column("B", "over-provisioned", "percentunit", 0),
                Column("uuid", is_hidden=True),
            ),
            cells(named(parts, *labels)),
            cells(
                f"{named(parts, *labels)} * 0 + on ({BY_DEVICE}) group_left () {free}", letter="B"
            ),
        ).no_value(_EMPTY),
        stack(
            "Parts held over time",
            "The part of each GPU that it held.",
            "short",
            over(named(parts), _DEVICE),
        ).no_value(_EMPTY),
        lines(
            "Memory in use",
            "Framebuffer in use on its GPUs, of their total.",
            "percentunit",
            over(
                named(f"({held(_MEMORY_USED)} > 0)"),
                _DEVICE,
            ),
        )
        .max(1)
        .no_value(_EMPTY),
    ]


def _serving() -> list[Panel]:
    panels = [
        (
            "Requests",
            "Requests running and waiting.",
            "short",
            ("requests_running", "requests_waiting"),
        ),
        (
            "Key-value cache",
            "Share in use.",
            "percentunit",
            ("kv_cache_used_ratio",),
        ),
        (
            "Latency",
            "Mean TTFT, TPOT and request latency of recent requests.",
            "s",
            (
                "time_to_first_token_seconds",
                "time_per_output_token_seconds",
                "request_latency_seconds",
            ),
        ),
    ]
    made = [
        lines(
            title,
            description,
            unit,
            *(
                over(
                    named(f"max by ({BY_DEVICE}) ({held(select(f'rightsizer_{name}'))})"),
                    f"{_DEVICE} {name.replace('_', ' ')}",
                    letter=letter,
                )
                for letter, name in zip("ABC", names, strict=False)
            ),
        )
        for title, description, unit, names in panels
    ]
    preempted = held(per_second("rightsizer_preemptions_total"))
    made.append(
        lines(
            "Preemptions",
            "Preemptions a second, for lack of key-value cache.",
            "cps",
            over(named(f"sum by ({BY_DEVICE}) ({preempted})"), _DEVICE),
        )
    )
    return [panel.no_value("No serving engine is configured (sources.serving)") for panel in made]
