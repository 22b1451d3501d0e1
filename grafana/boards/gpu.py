"""One GPU or MIG instance: its states, what it is capable of, what is asked of it, by whom."""

from grafana_foundation_sdk.builders.dashboard import Dashboard
from grafana_foundation_sdk.builders.prometheus import Dataquery

from grafana.board import Section, board
from grafana.links import Board, of_row, of_series
from grafana.panels import Panel, bars, lines, number, stack
from grafana.queries import (
    BY_DEVICE,
    cells,
    growth,
    now,
    over,
    select,
)
from grafana.scales import CAPACITY, COVERAGE, HEAT, OVERPROVISIONED, UNDERPROVISIONED, USED
from grafana.sections.energy import energy_by_cause, power
from grafana.sections.readings import conditions, throttle_reasons
from grafana.sections.sizing import distributions
from grafana.sections.time_spent import states_over_time, strip
from grafana.sections.to_do import advice_table
from grafana.tables import Column, rows
from grafana.variables import window
from rightsizer.model.metric import DISTRIBUTION_SIGNALS

__all__ = ["gpu"]

_WINDOW = 'window="$window"'


def gpu() -> Dashboard:
    """All panels in their places; one device is chosen at a time."""
    return board(
        Board.GPU,
        "GPU",
        "One GPU or MIG instance: states, need and capacity.",
        (
            Section("Identity", (_identity(), *_numbers())),
            Section("States", (strip().height(4), states_over_time(), conditions())),
            Section("Demand, need, capacity", _sizes()),
            Section("Signals", _signals()),
            Section("Energy and heat", (power(), energy_by_cause(), *_heat())),
            Section("Links", _links()),
            Section("Holders", _workloads()),
            Section("Recommendations", (advice_table(),)),
            Section("Distributions", distributions(), is_folded=True),
        ),
        extras=(window(),),
    )


def _identity() -> Panel:
    return rows(
        "Device",
        "Board, PCIe address, NUMA node and telemetry.",
        (
            Column("uuid", width=330),
            Column("instance", "node", link=of_row(Board.NODE, instance="node")),
            Column("gpu", "GPU"),
            Column("model", width=190),
            Column("mig_profile", "MIG profile"),
            Column("pci_bus_id", "PCI address"),
            Column("numa_node", "NUMA node"),
            Column("tier"),
            Column("source"),
            Column("A", "part of a GPU", "percentunit", 0),
        ),
        cells(
            f"{select('rightsizer_device_capacity_ratio')} * on ({BY_DEVICE}) group_left "
            f"(gpu, model, mig_profile, pci_bus_id, numa_node) {select('rightsizer_device_info')} "
            f"* on ({BY_DEVICE}) group_left (tier, source) "
            f"{select('rightsizer_device_telemetry_info')}"
        ),
    ).height(4)


def _numbers() -> list[Panel]:
    used = f"sum({growth('rightsizer_used_seconds_total', span='$__range')})"
    wasted = f"sum({growth('rightsizer_waste_seconds_total', span='$__range')})"
    too_large = select("rightsizer_device_overprovisioned_ratio", _WINDOW)
    too_small = select("rightsizer_device_underprovisioned_ratio", _WINDOW)
    # The current window fades and has no length; the last day stands for it.
    windows = (select("rightsizer_coverage_ratio", each) for each in (_WINDOW, 'window="24h"'))
    known = " or ".join(f"min({each})" for each in windows)
    return [
        number(
            "Used",
            "Effective utilization of the known time, over the time range.",
            "percentunit",
            now(f"{used} / ({used} + {wasted} > 0)"),
            USED,
        ).decimals(0),
        number(
            "Over-provisioned",
            "Free part after the largest need of the window.",
            "percentunit",
            over(f"max({too_large})"),
            OVERPROVISIONED,
        ).decimals(0),
        number(
            "Under-provisioned",
            "Share of the window's time under pressure.",
            "percentunit",
            over(f"max({too_small})"),
            UNDERPROVISIONED,
        ).decimals(1),
        number(
            "Known of the window",
            "Known time over the window's length; for `current`, of the last day.",
            "percentunit",
            over(known),
            COVERAGE,
        ).decimals(0),
        number(
            "Temperature",
            "Of the GPU.",
            "celsius",
            over(f"max({select('rightsizer_temperature_celsius')})"),
            HEAT,
        ),
        number(
            "Power",
            "Draw of the board.",
            "watt",
            over(f"sum({select('rightsizer_power_watts')})"),
        ),
    ]


def _sizes() -> list[Panel]:
    need = select("rightsizer_need_ratio", _WINDOW)
    at_limit = select("rightsizer_saturated_ratio", _WINDOW)
    short = select("rightsizer_underprovisioned_ratio", _WINDOW)
    demands = [
        over(
            f"histogram_quantile(0.99, sum by (le) ({growth(f'{name}_bucket', span='1h')}))",
            signal.value,
            letter=letter,
        )
        for letter, signal in zip("ABCDEF", DISTRIBUTION_SIGNALS, strict=True)
        if (name := signal.distribution_metric_name)
    ]
    return [
        bars(
            "Need of capacity",
            "Demand of the window plus margin, of the device's capacity.",
            "percentunit",
            now(need, "{{resource}}"),
            CAPACITY,
        ),
        bars(
            "Time at the limit",
            "Share of the window's time at each resource's limit.",
            "percentunit",
            now(at_limit, "{{resource}}"),
        ),
        bars(
            "Time under pressure",
            "Share of the window's time that each resource was short.",
            "percentunit",
            now(short, "{{resource}}"),
            UNDERPROVISIONED,
        ),
        lines(
            "Demand",
            "P99 of the hour before, without margin.",
            "percentunit",
            *demands,
        ).max(1),
        lines(
            "Need against capacity",
            "Demand plus margin; above the line it does not fit.",
            "percentunit",
            over(need, "{{resource}}"),
            scale=CAPACITY,
        ),
    ]


def _signals() -> list[Panel]:
    compute = ("gpu_busy", "sm_active", "sm_work", "tensor_active")
    engines = ("encoder", "decoder", "memory_controller_busy")
    return [
        lines(
            "Compute",
            "Kernel resident, SMs and tensor pipes active, as ratios.",
            "percentunit",
            *_ratios(*compute),
        ).max(1),
        lines(
            "Memory",
            "Memory in use, and bandwidth used.",
            "percentunit",
            *_ratios("memory_used", "dram_active"),
        ).max(1),
        lines(
            "Memory in use",
            "Bytes in use, and total.",
            "bytes",
            over(select("rightsizer_memory_used_bytes"), "used"),
            over(select("rightsizer_memory_total_bytes"), "in all", letter="B"),
        ),
        lines(
            "Engines",
            "Media engines, and the memory controller where bandwidth is not measured.",
            "percentunit",
            *_ratios(*engines),
        ).max(1),
    ]


def _ratios(*signals: str) -> list[Dataquery]:
    return [
        over(select(f"rightsizer_{signal}_ratio"), signal, letter=letter)
        for letter, signal in zip("ABCD", signals, strict=False)
    ]


def _heat() -> list[Panel]:
    return [
        lines(
            "Temperatures",
            "Of the GPU and of its memory.",
            "celsius",
            over(select("rightsizer_temperature_celsius"), "GPU"),
            over(select("rightsizer_memory_temperature_celsius"), "memory", letter="B"),
            scale=HEAT,
        ).span(8),
        lines(
            "Clocks",
            "Of the SMs and of the memory.",
            "hertz",
            over(select("rightsizer_sm_clock_hertz"), "SM"),
            over(select("rightsizer_memory_clock_hertz"), "memory", letter="B"),
        ).span(8),
        throttle_reasons().span(8),
    ]


def _links() -> list[Panel]:
    return [
        lines(
            "PCIe traffic",
            "Received and sent.",
            "Bps",
            over(select("rightsizer_pcie_receive_bytes_per_second"), "received"),
            over(select("rightsizer_pcie_transmit_bytes_per_second"), "sent", letter="B"),
        ).span(8),
        lines(
            "NVLink traffic",
            "Received and sent over all links.",
            "Bps",
            over(select("rightsizer_nvlink_receive_bytes_per_second"), "received"),
            over(select("rightsizer_nvlink_transmit_bytes_per_second"), "sent", letter="B"),
        )
        .span(8)
        .no_value("No NVLink"),
        lines(
            "PCIe link",
            "Negotiated generation and lanes; the generation falls while the bus is idle.",
            "short",
            over(select("rightsizer_pcie_link_generation"), "generation"),
            over(select("rightsizer_pcie_link_width"), "lanes", letter="B"),
        ).span(8),
    ]


def _workloads() -> list[Panel]:
    parts = select("rightsizer_workload_share_ratio")
    known = select("rightsizer_workload_info")
    identity = "cluster, job, instance, workload"
    return [
        rows(
            "Workloads now",
            "Holders of the device, and their parts.",
            (
                Column("workload", link=of_row(Board.WORKLOAD, workload="workload")),
                Column("kind"),
                Column("class"),
                Column("namespace"),
                Column("A", "part", "percentunit", 0),
            ),
            cells(f"{parts} * on ({identity}) group_left (kind, class, namespace) {known}"),
            hidden=("uuid", "instance"),
        )
        .span(12)
        .no_value("Not held"),
        stack(
            "Workloads over time",
            "Part of the device by workload.",
            "percentunit",
            over(f"sum by (workload) ({parts})", "{{workload}}"),
        )
        .max(1)
        .data_links([of_series(Board.WORKLOAD, "workload")])
        .no_value("Not held"),
    ]
