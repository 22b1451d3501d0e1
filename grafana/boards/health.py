"""Is the hardware sound, and is it wired as it should be."""

from typing import Final

from grafana_foundation_sdk.builders.dashboard import Dashboard

from grafana.board import Section, board
from grafana.links import Board, of_row
from grafana.panels import Panel, lines, number
from grafana.queries import (
    BY_DEVICE,
    cells,
    growth,
    named,
    over,
    per_second,
    select,
    share,
)
from grafana.scales import ERRORS, HEAT, MEMORY_HEAT, UP
from grafana.sections.readings import conditions, reading, throttle_reasons
from grafana.tables import Column, rows, sorted_by

__all__ = ["health"]

_DEVICE: Final = "{{instance}} GPU {{gpu}} {{mig_profile}}"
_SOUND: Final = "None"


def health() -> Dashboard:
    """All panels in their places."""
    return board(
        Board.HEALTH,
        "Topology and health",
        "Topology, links, memory errors, temperatures, driver.",
        (
            Section("At a glance", _numbers()),
            Section("Devices", (_devices(), _down(), _drivers())),
            Section("Links", _links()),
            Section("Topology", (_topology(), _numa())),
            Section("Memory errors and Xids", _errors()),
            Section("Heat and throttling", _heat()),
        ),
    )


def _numbers() -> list[Panel]:
    up = select("rightsizer_device_up")

    def any_of(name: str) -> str:
        return f"sum({select(name)} > bool 0)"

    def grown(name: str) -> str:
        return f"sum({growth(name, span='$__range')})"

    return [
        number(
            "Responding",
            "Share of devices that respond.",
            "percentunit",
            over(f"sum({up}) / count({up})"),
            UP,
        ),
        number(
            "Xids",
            "Xids over the time range.",
            "short",
            over(grown("rightsizer_xid_errors_total")),
            ERRORS,
        ).decimals(0),
        number(
            "Uncorrected",
            "Memory errors that could not be corrected, over the time range.",
            "short",
            over(grown("rightsizer_ecc_uncorrected_errors_total")),
            ERRORS,
        )
        .decimals(0)
        .no_value("No ECC"),
        number(
            "Pending row remaps",
            "GPUs whose memory needs a reset.",
            "short",
            over(any_of("rightsizer_remapped_rows_pending")),
            ERRORS,
        ).no_value("Not supported"),
        number(
            "Failed remaps",
            "GPUs to replace: their memory cannot be repaired.",
            "short",
            over(any_of("rightsizer_remapped_rows_failed")),
            ERRORS,
        ).no_value("Not supported"),
        number(
            "Recovery needed",
            "GPUs for which the driver requests a reset, a reboot or more.",
            "short",
            over(any_of("rightsizer_recovery_action")),
            ERRORS,
        ).no_value("Not supported"),
    ]


def _devices() -> Panel:
    identity = ("gpu", "model", "mig_profile", "pci_bus_id", "numa_node")
    panel = rows(
        "Devices",
        "Devices with location and recovery action (0: none).",
        (
            Column("instance", "node", link=of_row(Board.NODE, instance="node")),
            Column("gpu", "GPU", link=of_row(Board.GPU, uuid="uuid")),
            Column("model", width=190),
            Column("mig_profile", "MIG profile"),
            Column("pci_bus_id", "PCI address"),
            Column("numa_node", "NUMA node"),
            Column("A", "up", "short", 0, UP),
            Column("B", "repair", "short", 0, ERRORS),
            Column("uuid", is_hidden=True),
        ),
        cells(named(select("rightsizer_device_up"), *identity)),
        cells(named(select("rightsizer_recovery_action"), *identity), letter="B"),
    )
    return sorted_by(panel, "GPU", is_descending=False)


def _links_of_each() -> Panel:
    return rows(
        "Links of each device",
        "Negotiated PCIe generation and lanes, and NVLinks that are up.",
        (
            Column("instance", "node", link=of_row(Board.NODE, instance="node")),
            Column("gpu", "GPU", link=of_row(Board.GPU, uuid="uuid")),
            Column("A", "PCIe generation", "short", 0),
            Column("B", "PCIe lanes", "short", 0),
            Column("C", "NVLinks up", "short", 0),
            Column("uuid", is_hidden=True),
        ),
        cells(named(select("rightsizer_pcie_link_generation"), "gpu")),
        cells(named(select("rightsizer_pcie_link_width"), "gpu"), letter="B"),
        cells(named(select("rightsizer_nvlink_links_up"), "gpu"), letter="C"),
    ).span(12)


def _down() -> Panel:
    return (
        rows(
            "Devices that are down",
            "Reason of each.",
            (
                Column("instance", "node", link=of_row(Board.NODE, instance="node")),
                Column("gpu", "GPU", link=of_row(Board.GPU, uuid="uuid")),
                Column("reason"),
                Column("uuid", is_hidden=True),
            ),
            cells(named(select("rightsizer_device_down_info"), "gpu")),
            hidden=("Value",),
        )
        .span(12)
        .height(6)
        .no_value("All devices respond")
    )


def _drivers() -> Panel:
    return (
        rows(
            "Drivers",
            "Versions by node.",
            (
                Column("instance", "node", link=of_row(Board.NODE, instance="node")),
                Column("driver_version", "driver"),
                Column("cuda_version", "CUDA"),
                Column("nvml_version", "NVML"),
            ),
            cells(select("rightsizer_driver_info")),
            hidden=("Value",),
        )
        .span(12)
        .height(6)
    )


def _links() -> list[Panel]:
    condition = "rightsizer_condition_seconds_total"
    degraded = share(condition, "condition", 'condition="pcie_link_degraded"')
    return [
        lines(
            "PCIe link degraded",
            "Share of each step with fewer lanes than possible, or a lower generation under load.",
            "percentunit",
            over(named(f"({degraded})"), _DEVICE),
        ).max(1),
        _links_of_each(),
        lines(
            "PCIe replays",
            "Replays a second: check seating, riser and retimer.",
            "cps",
            over(named(per_second("rightsizer_pcie_replays_total")), _DEVICE),
        ),
        lines(
            "NVLinks up",
            "Links that are up; one that is missing slows every collective.",
            "short",
            over(named(select("rightsizer_nvlink_links_up")), _DEVICE),
        ),
        lines(
            "NVLink errors",
            "Errors a second, of all kinds and links.",
            "cps",
            over(named(per_second("rightsizer_nvlink_errors_total")), _DEVICE),
        ),
    ]


def _topology() -> Panel:
    return (
        rows(
            "Links between GPUs",
            "The best link between two GPUs, as `nvidia-smi topo -m` writes it: NV# is NVLink, "
            "PIX one switch, PXB several, PHB the host bridge; NODE and SYS lead through the "
            "processors.",
            (
                Column("instance", "node", link=of_row(Board.NODE, instance="node")),
                Column("gpu", "GPU", link=of_row(Board.GPU, uuid="uuid")),
                Column("link"),
                Column("peer", link=of_row(Board.GPU, uuid="peer_uuid")),
                Column("uuid", is_hidden=True),
                Column("peer_uuid", is_hidden=True),
            ),
            cells(_with_peer(named(select("rightsizer_topology_link_info"), "gpu"))),
            hidden=("Value",),
        )
        .span(12)
        .no_value("One GPU has no peer")
    )


def _with_peer(expression: str) -> str:
    """The index of the device at the link's other end, as a label."""
    known = f"group by ({BY_DEVICE}, gpu) ({select('rightsizer_device_info')})"
    peers = f'label_replace({known}, "peer", "$1", "gpu", "(.+)")'
    peers = f'label_replace({peers}, "peer_uuid", "$1", "uuid", "(.+)")'
    node = "cluster, job, instance, peer_uuid"
    return f"{expression} * on ({node}) group_left (peer) group by ({node}, peer) ({peers})"


def _numa() -> Panel:
    misplaced = share(
        "rightsizer_condition_seconds_total", "condition", 'condition="numa_misplaced"'
    )
    return lines(
        "NUMA misplaced",
        "Share of each step in which processes ran on another NUMA node.",
        "percentunit",
        over(named(f"({misplaced})"), _DEVICE),
    ).max(1)


def _errors() -> list[Panel]:
    by_code = select("rightsizer_xid_code_errors_total")
    rows_pending = f"max by ({BY_DEVICE}) ({select('rightsizer_remapped_rows_pending')})"
    return [
        lines(
            "Xids over time",
            "Xids in each step, by device.",
            "short",
            over(named(growth("rightsizer_xid_errors_total")), _DEVICE),
        ),
        rows(
            "Xids by code",
            "Since the agent started; see NVIDIA's Xid catalog.",
            (
                Column("instance", "node", link=of_row(Board.NODE, instance="node")),
                Column("gpu", "GPU", link=of_row(Board.GPU, uuid="uuid")),
                Column("xid"),
                Column("A", "Xids", "short", 0),
                Column("uuid", is_hidden=True),
            ),
            cells(named(by_code, "gpu")),
        )
        .span(12)
        .no_value(_SOUND),
        lines(
            "Uncorrected memory errors",
            "Uncorrectable errors in each step; they end the affected job.",
            "short",
            over(named(growth("rightsizer_ecc_uncorrected_errors_total")), _DEVICE),
        ).no_value("No ECC"),
        lines(
            "Corrected memory errors",
            "Corrected errors in each step; many precede uncorrectable ones.",
            "short",
            over(named(growth("rightsizer_ecc_corrected_errors_total")), _DEVICE),
        ).no_value("Needs web.metrics.details"),
        lines(
            "Memory rows remapped",
            "Rows remapped for uncorrectable errors, and GPUs that wait for a reset to remap more.",
            "short",
            over(named(select("rightsizer_remapped_rows_uncorrectable")), f"{_DEVICE} remapped"),
            over(named(rows_pending), f"{_DEVICE} pending", letter="B"),
        ).no_value("Not supported"),
        lines(
            "Memory pages retired",
            "On boards before Ampere: pages retired for uncorrectable and for repeated errors.",
            "short",
            over(
                named(select("rightsizer_retired_pages_uncorrectable")), f"{_DEVICE} uncorrectable"
            ),
            over(
                named(select("rightsizer_retired_pages_correctable")),
                f"{_DEVICE} correctable",
                letter="B",
            ),
        ).no_value("Not supported"),
    ]


def _heat() -> list[Panel]:
    memory = named(select("rightsizer_memory_temperature_celsius"))
    return [
        lines(
            "Temperature",
            "Of the GPU.",
            "celsius",
            over(named(select("rightsizer_temperature_celsius")), _DEVICE),
            scale=HEAT,
        ),
        lines(
            "Memory temperature",
            "Of the memory.",
            "celsius",
            over(memory, _DEVICE),
            scale=MEMORY_HEAT,
        ).no_value("Not supported"),
        conditions(),
        throttle_reasons(),
        reading("SM clock", "Clock of the multiprocessors.", "sm_clock_hertz", "hertz"),
        reading(
            "Fan speed", "Of the fastest fan; boards for servers have none.", "fan_speed_ratio"
        ).no_value("No fans"),
    ]
