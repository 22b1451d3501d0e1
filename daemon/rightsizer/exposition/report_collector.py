"""Collector of the families of a report: agent, node, devices, advice."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from rightsizer import __version__
from rightsizer.advice.compatible import savings_sum
from rightsizer.exposition.device_metrics import add_device
from rightsizer.exposition.families import Families
from rightsizer.model.metric import METRICS
from rightsizer.model.values import (
    Advice,
    AgentReport,
    DeviceReport,
    JobReport,
    MetricKind,
    NodeReport,
    Origin,
    Report,
    Risk,
    ServedLoad,
    namespace_of,
    optional_seconds,
    seconds,
)
from rightsizer.report.labels import first_names

_RECOMMENDERS: Final = frozenset({"recommend", "fleet"})
"""Jobs that produce advice, an agent's main task; they have metrics of their own."""
_LABEL: Final = re.compile(r'(\w+)="([^"]*)"')
_PLAIN_COUNTERS: Final = tuple(
    metric.name
    for metric in METRICS.values()
    if metric.kind is MetricKind.COUNTER and metric.origin is Origin.AGENT and not metric.labels
)


def _add_agent(families: Families, agent: AgentReport) -> None:
    """Add the agent's series; counters start at 0, gauges once they are known."""
    families.add_info("rightsizer_build_info", agent.version, agent.source)
    families.add("rightsizer_sampling_interval_seconds", agent.interval_seconds)
    for name, outcome in agent.collectors.items():
        families.add("rightsizer_collector_success", float(outcome.success), name)
        families.add("rightsizer_collector_duration_seconds", outcome.duration_seconds, name)
        if outcome.refusal is not None:
            families.add("rightsizer_collector_refused_items", float(outcome.refusal.items), name)
    for job in agent.jobs:
        for name, value in (
            ("runs_total", float(job.runs)),
            ("skipped_total", float(job.skipped)),
            ("failures_total", float(job.failures)),
            ("last_start_timestamp_seconds", optional_seconds(job.last_start)),
            ("last_success_timestamp_seconds", optional_seconds(job.last_success)),
            ("last_duration_seconds", job.last_duration_seconds),
        ):
            families.add(f"rightsizer_job_{name}", value, job.name)
    values = dict.fromkeys(_PLAIN_COUNTERS, 0.0) | _recommender(agent.jobs)
    for name, labels, value in _series(values | dict(agent.metrics)):
        families.add(name, value, *labels)


def _add_workloads(families: Families, devices: Iterable[DeviceReport]) -> None:
    """Add each workload once, however many devices it holds."""
    workloads = {
        holding.workload.key: holding.workload for device in devices for holding in device.holdings
    }
    for workload in workloads.values():
        families.add_info(
            "rightsizer_workload_info",
            workload.key,
            workload.kind,
            workload.workload_class.value,
            workload.namespace,
            workload.name,
            workload.pod,
            workload.container,
            workload.allocator.value,
        )


_SERVED_RATES: Final = (
    "requests_per_second",
    "prompt_tokens_per_second",
    "output_tokens_per_second",
)


def _add_served(families: Families, report: Report) -> None:
    """Add the models of serving engines; engines of one workload are one series."""
    holders = {
        device.device.uuid: device.holdings[0].workload.key
        for device in report.devices
        if device.holdings
    }
    groups: dict[tuple[str, str], list[ServedLoad]] = {}
    # Several engines on one GPU may serve one model.
    served = ((uuid, load.model, load.engine) for load in report.served for uuid in load.devices)
    for labels in dict.fromkeys(served):
        families.add_info("rightsizer_served_model_info", *labels)
    for load in report.served:
        holder = holders.get(load.devices[0], "") if load.workload else ""
        groups.setdefault((load.model, holder), []).append(load)
    for group, loads in groups.items():
        for name in _SERVED_RATES:
            rates = [rate for load in loads if (rate := getattr(load, name)) is not None]
            families.add(f"rightsizer_served_{name}", sum(rates) if rates else None, *group)


def _recommender(jobs: Iterable[JobReport]) -> dict[str, float]:
    """Return the recommender's metrics from its job; unknown values are left out."""
    if (job := next((job for job in jobs if job.name in _RECOMMENDERS), None)) is None:
        return {}
    values = {
        "runs_total": float(job.runs),
        "failures_total": float(job.failures),
        "skipped_total": float(job.skipped),
        "duration_seconds": job.last_duration_seconds,
        "last_success_timestamp_seconds": optional_seconds(job.last_success),
    }
    return {
        f"rightsizer_recommender_{name}": value
        for name, value in values.items()
        if value is not None
    }


def _series(values: Mapping[str, float]) -> Iterator[tuple[str, tuple[str, ...], float]]:
    """Yield the series in a mapping of the agent's report; names not in the table are skipped."""
    for key, value in values.items():
        name, _, inside = key.partition("{")
        if name not in METRICS:
            continue
        given = dict(_LABEL.findall(inside))
        yield name, tuple(given.get(label, "") for label in METRICS[name].labels), value


def _add_node(families: Families, node: NodeReport) -> None:
    if node.driver:
        names = ("driver_version", "cuda_version", "nvml_version")
        families.add_info("rightsizer_driver_info", *(node.driver.get(name, "") for name in names))
    if node.topology is not None:
        for link in node.topology.links:
            families.add_info(
                "rightsizer_topology_link_info", link.uuid, link.peer_uuid, link.label
            )
    for port in node.ports:
        for name, value in (
            ("up", float(port.is_active)),
            ("rate_bytes_per_second", port.rate_bytes_per_second),
            ("receive_bytes_total", port.receive_bytes),
            ("transmit_bytes_total", port.transmit_bytes),
            ("transmit_wait_total", port.transmit_wait),
        ):
            families.add(f"rightsizer_fabric_port_{name}", value, port.name)
        for kind, count in port.errors.items():
            families.add("rightsizer_fabric_port_errors_total", count, port.name, kind)


RISK_BOUNDS: Final = {Risk.VERY_LOW: 0.01, Risk.LOW: 0.05, Risk.MEDIUM: 0.15, Risk.HIGH: 1.0}
"""Upper bound of each class; an unknown risk has none."""
_NAMED_GPUS: Final = 8


def _add_advice(
    families: Families, advice: Sequence[Advice], numbers: Mapping[str, str], limit: int
) -> None:
    """Add the open advice with the largest savings, and the number and savings of all."""
    opened = [piece for piece in advice if piece.is_open]
    families.add("rightsizer_advice_open", float(len(opened)))
    combined = savings_sum(opened)
    families.add("rightsizer_advice_combined_savings_gpus", combined.gpus)
    if combined.has_price or not opened:
        dollars = combined.dollars_per_hour
        families.add("rightsizer_advice_combined_savings_dollars_per_hour", dollars)
    opened.sort(key=_rank)
    for piece in opened[:limit]:
        _add_piece(families, piece, numbers)


def _rank(piece: Advice) -> tuple[float, float, float, int, str]:
    """Sort key: largest savings first, then highest confidence."""
    finding = piece.finding
    savings = finding.savings
    return -savings.dollars_per_hour, -savings.gpus, -finding.confidence, piece.opened, piece.id


def _add_piece(families: Families, piece: Advice, numbers: Mapping[str, str]) -> None:
    finding = piece.finding
    savings = finding.savings
    reason = finding.reasons[0] if finding.reasons else ""
    # All of them in each series, so that one line of a table can name them.
    gpus = first_names([numbers[uuid] for uuid in finding.devices if uuid in numbers], _NAMED_GPUS)
    workload = finding.workload or ""
    for uuid in finding.devices or ("",):
        families.add_info(
            "rightsizer_advice_info",
            finding.id,
            finding.kind,
            reason,
            finding.action,
            finding.severity,
            piece.state,
            uuid,
            gpus,
            workload,
            namespace_of(workload),
        )
    has_gpus = savings.gpus_low is not None
    has_price = savings.dollars_per_hour_low is not None
    for name, value in (
        ("confidence_ratio", finding.confidence),
        ("risk_ratio", RISK_BOUNDS.get(finding.risk)),
        ("savings_gpus", savings.gpus if has_gpus else None),
        ("savings_low_gpus", savings.gpus_low),
        ("savings_high_gpus", savings.gpus_high),
        ("savings_dollars_per_hour", savings.dollars_per_hour if has_price else None),
        ("savings_low_dollars_per_hour", savings.dollars_per_hour_low),
        ("savings_high_dollars_per_hour", savings.dollars_per_hour_high),
        ("opened_timestamp_seconds", seconds(piece.opened)),
    ):
        families.add(f"rightsizer_advice_{name}", value, finding.id)


def add_report(
    families: Families,
    report: Report | None,
    fresh: frozenset[str],
    advice_limit: int,
    node: str = "",
) -> None:
    """Add a report with the fresh uuids; before the first, build info only.

    A device that leaves the report leaves the exposition, too, unlike with direct
    instrumentation.
    """
    if report is None:
        families.add_info("rightsizer_build_info", __version__, "")
        return
    families.add_info("rightsizer_node_info", node)
    _add_workloads(families, report.devices)
    _add_node(families, report.node)
    for device in report.devices:
        add_device(families, device, is_fresh=device.device.uuid in fresh)
    numbers = {
        device_report.device.uuid: device_report.device.number for device_report in report.devices
    }
    _add_served(families, report)
    _add_advice(families, report.advice, numbers, advice_limit)
    _add_agent(families, report.agent)
