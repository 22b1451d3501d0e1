"""Findings, advice and devices as plain values for JSON, one form wherever they appear.

Times are seconds since the epoch, enumerations their own words, missing values null.
"""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, TypeAlias

from rightsizer.domain.advice import Advice
from rightsizer.domain.finding import Finding
from rightsizer.domain.report import (
    AgentReport,
    DeviceReport,
    JobReport,
    Report,
    Totals,
    WorkloadReport,
)
from rightsizer.domain.units import Nanoseconds, seconds
from rightsizer.domain.window import Provisioning
from rightsizer.domain.workload import Holding, Workload
from rightsizer.domain.xid import XidLog
from rightsizer.publish.topology_form import topology_form
from rightsizer.publish.window_coverage import window_coverage_ratio

__all__ = ["Form", "advice_form", "device_form", "finding_form", "report_form", "workload_form"]

Form: TypeAlias = dict[str, Any]
"""What `json.dumps` takes as it is."""


def finding_form(finding: Finding) -> Form:
    """A rule's verdict with the keys that replay, advise, the API and webhooks share."""
    return {
        "id": finding.id,
        "rule": finding.rule,
        "finding": finding.finding,
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
