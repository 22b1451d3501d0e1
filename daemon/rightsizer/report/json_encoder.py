"""JSON encoders of findings, advice, devices, report and topology; unknown values are null."""

from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final, TypeAlias

from rightsizer.model.advice import Advice
from rightsizer.model.device import Device
from rightsizer.model.driver_codes import OTHER_XID
from rightsizer.model.finding import Finding
from rightsizer.model.frozen import fields, is_dataclass
from rightsizer.model.report import DeviceReport, Report, Totals
from rightsizer.model.topology import LinkKind, Placement, Topology, cpu_list
from rightsizer.model.units import seconds
from rightsizer.model.window import Provisioning
from rightsizer.model.workload import Workload
from rightsizer.report.freshness import window_coverage_ratio

_PORT: Final = "generation width generation_maximum width_maximum"

JsonObject: TypeAlias = dict[str, Any]
"""JSON-serializable object."""


def plain(value: object) -> Any:
    """Convert a value to JSON values: dataclasses and named tuples by field, sets sorted."""
    if value is None or isinstance(value, (str, bool, int, float)):
        return value
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return plain(value._asdict())
    if isinstance(value, Mapping):
        return {str(key): plain(inside) for key, inside in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(inside) for inside in value]
    if isinstance(value, (set, frozenset)):
        return sorted(map(str, value))
    if is_dataclass(value):
        return {each.name: plain(getattr(value, each.name)) for each in fields(value)}
    return str(value)


def attributes(source: object, names: str) -> JsonObject:
    """Return attributes of an object by name."""
    return {name: plain(getattr(source, name)) for name in names.split()}


def encode_topology(
    topology: Topology, devices: Iterable[Device], offered: Collection[str]
) -> JsonObject:
    """Encode GPUs, links between them, adapters with their links to GPUs, and NUMA nodes.

    GPUs not in `offered` have no index.
    """
    return {
        "gpus": [
            _gpu(device, topology.placements[device.uuid], is_offered=device.uuid in offered)
            for device in devices
            if device.uuid in topology.placements
        ],
        "links": [
            {
                **attributes(link, "uuid peer_uuid"),
                "kind": _kind(link.kind),
                "nvlinks": None
                if link.kind is LinkKind.NVLINK and not link.nvlinks
                else link.nvlinks,
                "pcie_kind": _kind(link.pcie_kind),
                "can_read_peer": link.can_read_peer,
            }
            for link in topology.links
        ],
        "adapters": [
            attributes(adapter, "name kind pci_bus_id numa_node")
            | {"links": {uuid: _kind(kind) for uuid, kind in adapter.links.items()}}
            for adapter in topology.adapters
        ],
        "numa_nodes": [
            {"node": node, "cpus": cpu_list(cpus) or None}
            for node, cpus in sorted(topology.numa_nodes.items())
        ],
    }


def _gpu(device: Device, placement: Placement, *, is_offered: bool) -> JsonObject:
    return {
        "uuid": device.uuid,
        "index": device.stated_index if is_offered else None,
        "name": device.name or None,
        "offered": is_offered,
        **attributes(placement, "pci_bus_id numa_node memory_numa_node"),
        "cpus": cpu_list(placement.cpus) or None,
        "link": attributes(placement, _PORT),
        "slot": {
            "generation_maximum": placement.slot_generation_maximum,
            "width_maximum": placement.slot_width_maximum,
        },
        "bridges": [attributes(bridge, f"pci_bus_id {_PORT}") for bridge in placement.bridges],
    }


def _kind(kind: LinkKind) -> str | None:
    return None if kind is LinkKind.UNKNOWN else str(kind)


def encode_finding(finding: Finding) -> JsonObject:
    """Encode a finding with the keys shared by replay, advise, API and webhooks."""
    return {
        **attributes(finding, "id rule"),
        "finding": finding.kind,
        **attributes(finding, "reasons devices culprits workload action summary options"),
        **attributes(finding, "confidence confidence_factors risk savings evidence abstained"),
        **attributes(finding, "severity instructions exclusive_group"),
    }


def encode_advice(advice: Advice) -> JsonObject:
    """Encode advice: its finding's keys and those of its lifecycle."""
    return encode_finding(advice.finding) | encode_lifecycle(advice)


def encode_lifecycle(advice: Advice) -> JsonObject:
    """Encode the lifecycle of advice."""
    return {
        "state": advice.state,
        **_times(advice, "opened updated expires closed"),
        **attributes(advice, "actor why"),
        **_times(advice, "verified"),
        "realized_gpu_hours": advice.realized_gpu_hours,
    }


def encode_workload(workload: Workload) -> JsonObject:
    """Encode a workload's identity, for programs that act on it."""
    names = attributes(workload, "key kind namespace name pod container")
    return names | {"unproven": workload.unproven or None}


def encode_device(report: DeviceReport) -> JsonObject:
    """Encode a device: identity, state, last signals, totals and provisioning."""
    device = report.device
    mig = report.device.mig
    reading = report.reading
    return {
        "uuid": device.uuid,
        "index": device.stated_index,
        **attributes(device, "name board architecture pci_bus_id numa_node"),
        "parent_uuid": mig.parent_uuid if mig else None,
        "mig_profile": mig.profile if mig else None,
        **attributes(device, "has_mig_instances capacity_ratio"),
        **attributes(report, "down"),
        **_times(report, "last_sample"),
        **attributes(report, "state conditions tier signals"),
        "missing": plain(reading.missing) if reading else {},
        "origins": plain(reading.origins) if reading else {},
        **attributes(device, "facts"),
        "nvlinks": plain(reading.nvlinks) if reading else [],
        "xids": report.xids
        and {"other" if xid == OTHER_XID else str(xid): n for xid, n in report.xids.counts.items()},
        "workloads": [
            _holder(each.workload, "namespace pod container step")
            | attributes(each, "share_ratio has_process")
            for each in report.holdings
        ],
        "totals": _encode_totals(report.totals),
        "provisioning": {
            window: _encode_provisioning(window, provisioning)
            for window, provisioning in report.provisioning.items()
        },
    }


def encode_report(report: Report) -> JsonObject:
    """Encode the report of one tick."""
    agent = report.agent
    node = report.node
    devices = [found.device for found in report.devices]
    offered = {device.uuid for device in devices}
    return {
        "generation": report.generation,
        "time": seconds(report.wall_time),
        "agent": {
            **attributes(agent, "version source"),
            **_times(agent, "started"),
            **attributes(agent, "interval_seconds trouble collectors"),
            "jobs": [plain(job) | _times(job, "last_start last_success") for job in agent.jobs],
        },
        "devices": [encode_device(device) for device in report.devices],
        "advice": [encode_advice(advice) for advice in report.advice],
        "workloads": [
            {
                **_holder(each.workload, "namespace"),
                "devices": list(each.devices),
                **_times(each, "last_seen"),
                "totals": _encode_totals(each.totals),
            }
            for each in report.workloads
        ],
        "node": {
            **attributes(node, "signals driver"),
            "topology": encode_topology(node.topology, devices, offered) if node.topology else None,
            **attributes(node, "ports released"),
        },
    }


def _holder(workload: Workload, names: str) -> JsonObject:
    head = {"workload": workload.key, **attributes(workload, "kind name")}
    facts = {"class": workload.workload_class, "unproven": workload.unproven or None}
    return head | facts | attributes(workload, names)


def _encode_totals(totals: Totals) -> JsonObject:
    states = attributes(totals, "state_seconds condition_seconds used_seconds waste_seconds")
    return states | attributes(totals, "used_joules waste_joules energy_joules")


def _encode_provisioning(window: str, provisioning: Provisioning) -> JsonObject:
    shares = "resources overprovisioned underprovisioned is_underprovisioned"
    return {
        **attributes(provisioning, f"{shares} memory_is_preallocated compute_need_at_least tier"),
        "coverage_ratio": window_coverage_ratio(window, provisioning),
        **attributes(provisioning, "known_seconds active_seconds"),
    }


def _times(source: object, names: str) -> JsonObject:
    times = {name: getattr(source, name) for name in names.split()}
    return {name: None if time is None else seconds(time) for name, time in times.items()}
