"""JSON encoders: findings, advice, devices, report, topology; unknown values null."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict
from typing import Any, TypeAlias

from rightsizer.model.advice import Advice
from rightsizer.model.device import Device
from rightsizer.model.driver_codes import XidLog
from rightsizer.model.finding import Finding
from rightsizer.model.report import (
    AgentReport,
    DeviceReport,
    JobReport,
    Report,
    Totals,
    WorkloadReport,
)
from rightsizer.model.topology import Adapter, Bridge, GpuLink, LinkKind, Placement, Topology
from rightsizer.model.units import Nanoseconds, seconds
from rightsizer.model.window import Provisioning
from rightsizer.model.workload import Holding, Workload
from rightsizer.report.freshness import window_coverage_ratio


def topology_form(
    topology: Topology, devices: Iterable[Device], offered: Collection[str]
) -> dict[str, Any]:
    """GPUs, the ways between them, adapters with their ways to each GPU, and NUMA nodes.

    Args:
        topology: How they hang together.
        devices: Those that have a place in it are told of.
        offered: The uuids of those that the driver offers; others have no index.
    """
    return {
        "gpus": [
            _gpu(device, topology.placements[device.uuid], is_offered=device.uuid in offered)
            for device in devices
            if device.uuid in topology.placements
        ],
        "links": [_link(link) for link in topology.links],
        "adapters": [_adapter(adapter) for adapter in topology.adapters],
        "numa_nodes": [
            {"node": node, "cpus": cpu_list(cpus)}
            for node, cpus in sorted(topology.numa_nodes.items())
        ],
    }


def cpu_list(cpus: tuple[int, ...]) -> str | None:
    """CPUs as the kernel and `taskset` write them, `0-55,112-167`; `None` for none."""
    spans: list[list[int]] = []
    for cpu in cpus:
        if spans and cpu == spans[-1][1] + 1:
            spans[-1][1] = cpu
        else:
            spans.append([cpu, cpu])
    parts = [str(first) if first == last else f"{first}-{last}" for first, last in spans]
    return ",".join(parts) or None


def _gpu(device: Device, placement: Placement, *, is_offered: bool) -> dict[str, Any]:
    return {
        "uuid": device.uuid,
        "index": device.index if is_offered else None,
        "name": device.name or None,
        "offered": is_offered,
        "pci_bus_id": placement.pci_bus_id,
        "numa_node": placement.numa_node,
        "memory_numa_node": placement.memory_numa_node,
        "cpus": cpu_list(placement.cpus),
        "link": _port(placement),
        "slot": {
            "generation_maximum": placement.slot_generation_maximum,
            "width_maximum": placement.slot_width_maximum,
        },
        "bridges": [
            {"pci_bus_id": bridge.pci_bus_id, **_port(bridge)} for bridge in placement.bridges
        ],
    }


def _port(port: Placement | Bridge) -> dict[str, Any]:
    return {
        "generation": port.generation,
        "width": port.width,
        "generation_maximum": port.generation_maximum,
        "width_maximum": port.width_maximum,
    }


def _link(link: GpuLink) -> dict[str, Any]:
    return {
        "uuid": link.uuid,
        "peer_uuid": link.peer_uuid,
        "kind": _kind(link.kind),
        "nvlinks": None if link.kind is LinkKind.NVLINK and not link.nvlinks else link.nvlinks,
        "pcie_kind": _kind(link.pcie_kind),
        "can_read_peer": link.can_read_peer,
    }


def _adapter(adapter: Adapter) -> dict[str, Any]:
    return {
        "name": adapter.name,
        "kind": str(adapter.kind),
        "pci_bus_id": adapter.pci_bus_id,
        "numa_node": adapter.numa_node,
        "links": {uuid: _kind(kind) for uuid, kind in adapter.links.items()},
    }


def _kind(kind: LinkKind) -> str | None:
    return None if kind is LinkKind.UNKNOWN else str(kind)


Form: TypeAlias = dict[str, Any]
"""What `json.dumps` takes as it is."""


def attributes(source: object, names: str) -> Form:
    """Some attributes of an object, by their names."""
    return {name: getattr(source, name) for name in names.split()}


def finding_form(finding: Finding) -> Form:
    """A rule's verdict with the keys that replay, advise, the API and webhooks share."""
    return {
        "id": finding.id,
        "rule": finding.rule,
        "finding": finding.kind,
        "reasons": list(finding.reasons),
        "devices": list(finding.devices),
        "culprits": list(finding.culprits),
        "workload": finding.workload,
        "action": finding.action,
        "summary": finding.summary,
        "options": [asdict(option) for option in finding.options],
        "confidence": finding.confidence,
        "confidence_factors": dict(finding.confidence_factors),
        "risk": finding.risk,
        "savings": asdict(finding.savings),
        "evidence": _plain(finding.evidence),
        "abstained": finding.abstained,
        "severity": finding.severity,
        "instructions": [asdict(each) for each in finding.instructions],
        "exclusive_group": finding.exclusive_group,
    }


def advice_form(advice: Advice) -> Form:
    """A piece of advice: its finding's keys and those of its lifecycle."""
    return finding_form(advice.finding) | {
        "state": advice.state,
        "opened": seconds(advice.opened),
        "updated": seconds(advice.updated),
        "expires": _time(advice.expires),
        "closed": _time(advice.closed),
        "actor": advice.actor,
        "why": advice.why,
        "verified": _time(advice.verified),
        "realized_gpu_hours": advice.realized_gpu_hours,
    }


def workload_form(workload: Workload) -> Form:
    """Who a workload is, for whoever is asked to do something about it."""
    return {
        "key": workload.key,
        "kind": workload.kind,
        "namespace": workload.namespace,
        "name": workload.name,
        "pod": workload.pod,
        "container": workload.container,
    }


def device_form(report: DeviceReport) -> Form:
    """A device as it stands: identity, state, last signals, totals and provisioning."""
    device, mig = report.device, report.device.mig
    return {
        "uuid": device.uuid,
        "index": device.index,
        "name": device.name,
        "board": device.board,
        "architecture": device.architecture,
        "pci_bus_id": device.pci_bus_id,
        "numa_node": device.numa_node,
        "parent_uuid": mig.parent_uuid if mig else None,
        "mig_profile": mig.profile if mig else None,
        "has_mig_instances": device.has_mig_instances,
        "capacity_ratio": device.capacity_ratio,
        "down": asdict(report.down) if report.down else None,
        "last_sample": _time(report.last_sample),
        "state": report.state,
        "conditions": sorted(report.conditions),
        "tier": report.tier,
        "signals": dict(report.signals),
        "missing": dict(report.reading.missing) if report.reading else {},
        "origins": dict(report.reading.origins) if report.reading else {},
        "facts": dict(device.facts),
        "nvlinks": [asdict(link) for link in report.reading.nvlinks] if report.reading else [],
        "xids": _xid_form(report.xids),
        "workloads": [_holding_form(holding) for holding in report.holdings],
        "totals": _totals_form(report.totals),
        "provisioning": {
            window: _provisioning_form(window, provisioning)
            for window, provisioning in report.provisioning.items()
        },
    }


def report_form(report: Report) -> Form:
    """The node at one tick."""
    return {
        "generation": report.generation,
        "time": seconds(report.wall_time),
        "agent": _agent_form(report.agent),
        "devices": [device_form(device) for device in report.devices],
        "advice": [advice_form(advice) for advice in report.advice],
        "workloads": [_workload_report_form(workload) for workload in report.workloads],
        "node": _node_form(report),
    }


def _xid_form(xids: XidLog | None) -> Form | None:
    if xids is None:
        return None
    return {str(code): count for code, count in xids.counts.items()}


def _workload_report_form(report: WorkloadReport) -> Form:
    workload = report.workload
    return {
        "workload": workload.key,
        "kind": workload.kind,
        "name": workload.name,
        "class": workload.workload_class,
        "namespace": workload.namespace,
        "devices": list(report.devices),
        "last_seen": seconds(report.last_seen),
        "totals": _totals_form(report.totals),
    }


def _node_form(report: Report) -> Form:
    node = report.node
    devices = [found.device for found in report.devices]
    offered = {device.uuid for device in devices}
    return {
        "signals": dict(node.signals),
        "driver": dict(node.driver),
        "topology": topology_form(node.topology, devices, offered) if node.topology else None,
        "ports": [asdict(port) for port in node.ports],
        "released": node.released,
    }


def _agent_form(agent: AgentReport) -> Form:
    return {
        "version": agent.version,
        "source": agent.source,
        "started": seconds(agent.started),
        "interval_seconds": agent.interval_seconds,
        "trouble": agent.trouble,
        "collectors": {name: asdict(outcome) for name, outcome in agent.collectors.items()},
        "jobs": [_job_form(job) for job in agent.jobs],
    }


def _job_form(job: JobReport) -> Form:
    return asdict(job) | {
        "last_start": _time(job.last_start),
        "last_success": _time(job.last_success),
    }


def _holding_form(holding: Holding) -> Form:
    workload = holding.workload
    return {
        "workload": workload.key,
        "kind": workload.kind,
        "name": workload.name,
        "class": workload.workload_class,
        "namespace": workload.namespace,
        "pod": workload.pod,
        "container": workload.container,
        "step": workload.step,
        "share_ratio": holding.share_ratio,
        "has_process": holding.has_process,
    }


def _totals_form(totals: Totals) -> Form:
    return {
        "state_seconds": dict(totals.state_seconds),
        "condition_seconds": dict(totals.condition_seconds),
        "used_seconds": totals.used_seconds,
        "waste_seconds": dict(totals.waste_seconds),
        "used_joules": totals.used_joules,
        "waste_joules": dict(totals.waste_joules),
        "energy_joules": dict(totals.energy_joules),
    }


def _provisioning_form(window: str, provisioning: Provisioning) -> Form:
    return {
        "resources": {
            resource: asdict(figures) for resource, figures in provisioning.resources.items()
        },
        "overprovisioned": provisioning.overprovisioned,
        "underprovisioned": provisioning.underprovisioned,
        "is_underprovisioned": provisioning.is_underprovisioned,
        "memory_is_preallocated": provisioning.memory_is_preallocated,
        "compute_need_at_least": provisioning.compute_need_at_least,
        "tier": provisioning.tier,
        "coverage_ratio": window_coverage_ratio(window, provisioning),
        "known_seconds": provisioning.known_seconds,
        "active_seconds": provisioning.active_seconds,
    }


def _time(time: Nanoseconds | None) -> float | None:
    return None if time is None else seconds(time)


def _plain(value: object) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(inside) for key, inside in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(inside) for inside in value]
    if isinstance(value, (set, frozenset)):
        return sorted(map(str, value))
    if value is None or isinstance(value, (str, bool, int, float)):
        return value
    return str(value)
