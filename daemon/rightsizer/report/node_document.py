"""JSON documents of findings, advice, devices, report and topology; unknown values are null.

A document's fields are its public keys, in this order.
"""

from collections.abc import Mapping

import msgspec
from msgspec.structs import replace

from rightsizer.model.values import (
    OTHER_XID,
    AgentReport,
    Cause,
    CollectorOutcome,
    Condition,
    DeviceReport,
    Down,
    EnergySource,
    FabricPort,
    Holding,
    JobReport,
    Missing,
    Nvlink,
    ProcessKind,
    Provisioning,
    Report,
    ServedLoad,
    ServedNeed,
    Signal,
    State,
    Tier,
    Totals,
    Workload,
    WorkloadClass,
    XidLog,
    optional_seconds,
    seconds,
)
from rightsizer.report.advice_document import AdviceDocument, advice_document
from rightsizer.report.freshness import window_coverage_ratio
from rightsizer.report.topology_document import TopologyDocument, topology_document


class WorkloadDocument(msgspec.Struct, frozen=True):
    """Identity of a workload, for programs that act on it."""

    key: str
    kind: str
    namespace: str
    name: str
    pod: str
    container: str
    unproven: str | None
    """Why nobody may act for it, or `None`."""


def workload_document(workload: Workload) -> WorkloadDocument:
    """Return a workload's identity, for programs that act on it."""
    return WorkloadDocument(
        key=workload.key,
        kind=workload.kind,
        namespace=workload.namespace,
        name=workload.name,
        pod=workload.pod,
        container=workload.container,
        unproven=workload.unproven or None,
    )


class HeldWorkloadDocument(msgspec.Struct, frozen=True, rename={"workload_class": "class"}):
    """Workload that holds devices."""

    workload: str
    kind: str
    name: str
    workload_class: WorkloadClass
    unproven: str | None
    namespace: str


class HolderDocument(HeldWorkloadDocument, frozen=True):
    """Holder of a device with its share."""

    pod: str
    container: str
    step: str
    share_ratio: float
    has_process: bool


class TotalsDocument(msgspec.Struct, frozen=True):
    """Counters since the agent started."""

    state_seconds: Mapping[State, float]
    condition_seconds: Mapping[Condition, float]
    used_seconds: float
    waste_seconds: Mapping[Cause, float]
    used_joules: float
    waste_joules: Mapping[Cause, float]
    energy_joules: Mapping[EnergySource, float]


class ProcessDocument(msgspec.Struct, frozen=True):
    """Process on a device; its name and user are for its host to tell."""

    pid: int
    kind: ProcessKind
    memory_used_bytes: int | None
    gpu_busy: float | None
    workload: str | None


class DeviceDocument(msgspec.Struct, frozen=True):
    """Device: identity, state, last signals, totals and provisioning."""

    uuid: str
    title: str
    index: int | None
    name: str
    board: str | None
    architecture: str | None
    pci_bus_id: str | None
    numa_node: int | None
    parent_uuid: str | None
    mig_profile: str | None
    has_mig_instances: bool
    capacity_ratio: float
    down: Down | None
    last_sample: float | None
    state: State
    conditions: tuple[Condition, ...]
    tier: Tier
    signals: Mapping[Signal, float]
    missing: Mapping[Signal, Missing]
    origins: Mapping[Signal, str]
    facts: Mapping[str, str]
    nvlinks: tuple[Nvlink, ...]
    xids: Mapping[str, int] | None
    workloads: tuple[HolderDocument, ...]
    processes: tuple[ProcessDocument, ...] | None
    """`None` if unknown."""
    totals: TotalsDocument
    provisioning: Mapping[str, Provisioning]


class CollectorDocument(msgspec.Struct, frozen=True):
    """Last pass of a collector."""

    success: bool
    duration_seconds: float
    failure: str | None


class JobDocument(msgspec.Struct, frozen=True):
    """Last run of a scheduled job."""

    name: str
    runs: int
    failures: int
    skipped: int
    last_start: float | None
    last_success: float | None
    last_duration_seconds: float | None
    last_error: str | None


class AgentDocument(msgspec.Struct, frozen=True):
    """State of the agent itself."""

    version: str
    source: str
    started: float
    interval_seconds: float
    trouble: str | None
    collectors: Mapping[str, CollectorDocument]
    jobs: tuple[JobDocument, ...]
    served_needs: tuple[ServedNeed, ...]


class WorkloadTotalsDocument(HeldWorkloadDocument, frozen=True):
    """Workload with its devices and counters."""

    devices: tuple[str, ...]
    last_seen: float
    totals: TotalsDocument


class NodeDocument(msgspec.Struct, frozen=True):
    """Data of the node as a whole."""

    signals: Mapping[Signal, float]
    driver: Mapping[str, str]
    topology: TopologyDocument | None
    ports: tuple[FabricPort, ...]
    released: str | None


class ServingDocument(msgspec.Struct, frozen=True):
    """Models that were served in a span that ends now; time in seconds since the epoch."""

    time: float
    span: str
    served: tuple[ServedLoad, ...]


class ReportDocument(msgspec.Struct, frozen=True):
    """Report of one tick; time in seconds since the epoch."""

    generation: int
    time: float
    agent: AgentDocument
    devices: tuple[DeviceDocument, ...]
    advice: tuple[AdviceDocument, ...]
    workloads: tuple[WorkloadTotalsDocument, ...]
    served: tuple[ServedLoad, ...]
    node: NodeDocument


def report_document(report: Report) -> ReportDocument:
    """Return the report of one tick."""
    node = report.node
    devices = [device_report.device for device_report in report.devices]
    offered = {device.uuid for device in devices}
    topology = node.topology
    return ReportDocument(
        generation=report.generation,
        time=seconds(report.wall_time),
        agent=_agent(report.agent),
        devices=tuple(map(device_document, report.devices)),
        advice=tuple(map(advice_document, report.advice)),
        workloads=tuple(
            WorkloadTotalsDocument(
                workload=held.workload.key,
                kind=held.workload.kind,
                name=held.workload.name,
                workload_class=held.workload.workload_class,
                unproven=held.workload.unproven or None,
                namespace=held.workload.namespace,
                devices=held.devices,
                last_seen=seconds(held.last_seen),
                totals=_totals(held.totals),
            )
            for held in report.workloads
        ),
        served=report.served,
        node=NodeDocument(
            signals=node.signals,
            driver=node.driver,
            topology=None if topology is None else topology_document(topology, devices, offered),
            ports=node.ports,
            released=node.released,
        ),
    )


def device_document(report: DeviceReport) -> DeviceDocument:
    """Return a device: identity, state, last signals, totals and provisioning."""
    device = report.device
    mig = device.mig
    reading = report.reading
    return DeviceDocument(
        uuid=device.uuid,
        title=device.label,
        index=device.stated_index,
        name=device.name,
        board=device.board,
        architecture=device.architecture,
        pci_bus_id=device.pci_bus_id,
        numa_node=device.numa_node,
        parent_uuid=mig.parent_uuid if mig else None,
        mig_profile=mig.profile if mig else None,
        has_mig_instances=device.has_mig_instances,
        capacity_ratio=device.capacity_ratio,
        down=report.down,
        last_sample=optional_seconds(report.last_sample),
        state=report.state,
        conditions=tuple(sorted(report.conditions)),
        tier=report.tier,
        signals=report.signals,
        missing=reading.missing if reading else {},
        origins=reading.origins if reading else {},
        facts=device.facts,
        nvlinks=reading.nvlinks if reading else (),
        xids=_xids(report.xids),
        workloads=tuple(map(_holder, report.holdings)),
        processes=_processes(report),
        totals=_totals(report.totals),
        provisioning={
            window: replace(
                provisioning, coverage_ratio=window_coverage_ratio(window, provisioning)
            )
            for window, provisioning in report.provisioning.items()
        },
    )


def _processes(report: DeviceReport) -> tuple[ProcessDocument, ...] | None:
    if report.reading is None or report.reading.processes is None:
        return None
    holders = {
        process.pid: holding.workload.key
        for holding in report.holdings
        for process in holding.processes
    }
    keys = {holding.workload.key for holding in report.holdings}
    only = next(iter(keys)) if len(keys) == 1 else None
    return tuple(
        ProcessDocument(
            process.pid,
            process.kind,
            process.memory_used_bytes,
            process.gpu_busy,
            holders.get(process.pid, only),
        )
        for process in report.reading.processes
    )


def _xids(xids: XidLog | None) -> dict[str, int] | None:
    if xids is None:
        return None
    return {"other" if xid == OTHER_XID else str(xid): n for xid, n in xids.counts.items()}


def _holder(holding: Holding) -> HolderDocument:
    workload = holding.workload
    return HolderDocument(
        workload=workload.key,
        kind=workload.kind,
        name=workload.name,
        workload_class=workload.workload_class,
        unproven=workload.unproven or None,
        namespace=workload.namespace,
        pod=workload.pod,
        container=workload.container,
        step=workload.step,
        share_ratio=holding.share_ratio,
        has_process=holding.has_process,
    )


def _totals(totals: Totals) -> TotalsDocument:
    return TotalsDocument(
        state_seconds=totals.state_seconds,
        condition_seconds=totals.condition_seconds,
        used_seconds=totals.used_seconds,
        waste_seconds=totals.waste_seconds,
        used_joules=totals.used_joules,
        waste_joules=totals.waste_joules,
        energy_joules=totals.energy_joules,
    )


def _agent(agent: AgentReport) -> AgentDocument:
    return AgentDocument(
        version=agent.version,
        source=agent.source,
        started=seconds(agent.started),
        interval_seconds=agent.interval_seconds,
        trouble=agent.trouble,
        collectors={name: _collector(outcome) for name, outcome in agent.collectors.items()},
        jobs=tuple(map(_job, agent.jobs)),
        served_needs=agent.served_needs,
    )


def _collector(outcome: CollectorOutcome) -> CollectorDocument:
    return CollectorDocument(outcome.success, outcome.duration_seconds, outcome.failure)


def _job(job: JobReport) -> JobDocument:
    return JobDocument(
        name=job.name,
        runs=job.runs,
        failures=job.failures,
        skipped=job.skipped,
        last_start=optional_seconds(job.last_start),
        last_success=optional_seconds(job.last_success),
        last_duration_seconds=job.last_duration_seconds,
        last_error=job.last_error,
    )
