"""The metrics of one device: identity, health, accounts, readings, provisioning."""

from collections.abc import Sequence
from typing import Final

from rightsizer.domain.clock_event import ClockEvent
from rightsizer.domain.metric import METRICS
from rightsizer.domain.nvlink import Nvlink
from rightsizer.domain.report import DeviceReport, Totals
from rightsizer.domain.signal import Signal
from rightsizer.domain.signal_metric import (
    DETAIL_SIGNALS,
    DISTRIBUTION_SIGNALS,
    QUANTITY_SIGNALS,
    RATIO_SIGNALS,
    distribution_metric_name,
    signal_metric_name,
)
from rightsizer.domain.state import Cause, Condition, Resource, State
from rightsizer.domain.units import seconds
from rightsizer.domain.window import Provisioning
from rightsizer.publish.metrics.families import Families
from rightsizer.publish.window_coverage import WINDOW_SECONDS, window_coverage_ratio

__all__ = ["CLOCK_EVENT_REASONS", "MEASURED_CONDITIONS", "add_device"]

MEASURED_CONDITIONS: Final = tuple(Condition)
"""All of them; where nothing tells of one, its seconds stay 0."""

CLOCK_EVENT_REASONS: Final = {
    event.label: event for event in ClockEvent if event is not ClockEvent.DISPLAY_CLOCK_SETTING
}
"""By label; the display's is left out, for these GPUs drive none."""

_REASONS_OF_DETAILS: Final = frozenset(
    {
        ClockEvent.GPU_IDLE.label,
        ClockEvent.APPLICATIONS_CLOCKS_SETTING.label,
        ClockEvent.SYNC_BOOST.label,
    }
)
"""These hold nothing back that a workload could have had."""

_DEFAULT_NAMES: Final = tuple(
    (signal, signal_metric_name(signal)) for signal in (*RATIO_SIGNALS, *QUANTITY_SIGNALS)
)
_DETAILED_NAMES: Final = (
    *_DEFAULT_NAMES,
    *((signal, signal_metric_name(signal)) for signal in DETAIL_SIGNALS),
)


_STAND_INS: Final = {Signal.MEMORY_CONTROLLER_BUSY: Signal.DRAM_ACTIVE}
"""A weaker signal, and the one that says the same better where it is there."""


def add_device(
    families: Families, report: DeviceReport, *, is_fresh: bool, details: bool = False
) -> None:
    """Add all of a device's series.

    Args:
        families: Where they go.
        report: The device as it stands.
        is_fresh: Whether its last reading still tells the present; current readings and gauges
            that were derived from them are left out otherwise.
        details: Whether rarely needed readings are exported too.
    """
    _add_identity(families, report)
    _add_health(families, report)
    _add_xids(families, report)
    if details:
        _add_facts(families, report)
    if not report.device.has_mig_instances:
        _add_totals(families, report.device.uuid, report.totals)
    if is_fresh:
        _add_readings(families, report, details=details)
        if details and report.reading is not None:
            _add_nvlinks(families, report.device.uuid, report.reading.nvlinks)
        for window, provisioning in report.provisioning.items():
            _add_provisioning(families, report.device.uuid, window, provisioning)


def _add_identity(families: Families, report: DeviceReport) -> None:
    device, mig = report.device, report.device.mig
    families.add_info(
        "rightsizer_device_info",
        device.uuid,
        str(device.index),
        device.pci_bus_id or "",
        device.name,
        device.architecture or "",
        mig.parent_uuid if mig else "",
        mig.profile if mig else "",
        "" if device.numa_node is None else str(device.numa_node),
    )
    for holding in report.holdings:
        families.add(
            "rightsizer_workload_share_ratio",
            holding.share_ratio,
            device.uuid,
            holding.workload.key,
        )


def _add_health(families: Families, report: DeviceReport) -> None:
    uuid = report.device.uuid
    families.add("rightsizer_device_up", float(report.down is None), uuid)
    if report.down is not None:
        families.add_info("rightsizer_device_down_info", uuid, report.down.reason)
    if report.last_sample is not None:
        families.add(
            "rightsizer_device_last_sample_timestamp_seconds", seconds(report.last_sample), uuid
        )
    families.add("rightsizer_device_capacity_ratio", report.device.capacity_ratio, uuid)


def _add_xids(families: Families, report: DeviceReport) -> None:
    uuid, xids = report.device.uuid, report.xids
    if xids is None or report.device.mig is not None:
        return  # Its GPU's count has them.
    families.add("rightsizer_xid_errors_total", float(xids.total), uuid)
    for code, count in xids.counts.items():
        families.add("rightsizer_xid_code_errors_total", float(count), uuid, str(code))
    if xids.last_wall_time is not None:
        time = seconds(xids.last_wall_time)
        families.add("rightsizer_xid_last_timestamp_seconds", time, uuid)


def _add_facts(families: Families, report: DeviceReport) -> None:
    facts = report.device.facts
    if facts:
        labels = METRICS["rightsizer_device_facts_info"].labels[1:]
        values = (facts.get(label, "") for label in labels)
        families.add_info("rightsizer_device_facts_info", report.device.uuid, *values)


def _add_nvlinks(families: Families, uuid: str, links: Sequence[Nvlink]) -> None:
    for link in links:
        labels = (uuid, str(link.number))
        families.add("rightsizer_nvlink_up", float(link.is_up), *labels)
        families.add("rightsizer_nvlink_receive_bytes_total", link.receive_bytes, *labels)
        families.add("rightsizer_nvlink_transmit_bytes_total", link.transmit_bytes, *labels)
        for kind, errors in (
            ("crc", link.crc_errors),
            ("replay", link.replay_errors),
            ("recovery", link.recovery_errors),
        ):
            families.add("rightsizer_nvlink_link_errors_total", errors, *labels, kind)


def _add_totals(families: Families, uuid: str, totals: Totals) -> None:
    for state in State:
        value = totals.state_seconds.get(state, 0.0)
        families.add("rightsizer_state_seconds_total", value, uuid, state)
    for condition in MEASURED_CONDITIONS:
        value = totals.condition_seconds.get(condition, 0.0)
        families.add("rightsizer_condition_seconds_total", value, uuid, condition)
    families.add("rightsizer_used_seconds_total", totals.used_seconds, uuid)
    families.add("rightsizer_used_joules_total", totals.used_joules, uuid)
    for cause in Cause:
        value = totals.waste_seconds.get(cause, 0.0)
        families.add("rightsizer_waste_seconds_total", value, uuid, cause)
        value = totals.waste_joules.get(cause, 0.0)
        families.add("rightsizer_waste_joules_total", value, uuid, cause)
    for signal in DISTRIBUTION_SIGNALS:
        if signal in totals.distributions:
            name = distribution_metric_name(signal)
            families.add_histogram(
                name, totals.distributions[signal], totals.signal_seconds[signal], uuid
            )


def _add_readings(families: Families, report: DeviceReport, *, details: bool) -> None:
    uuid, signals = report.device.uuid, report.signals
    origins = report.reading.origins if report.reading is not None else {}
    source = origins.get(Signal.SM_ACTIVE) or origins.get(Signal.GPU_BUSY) or ""
    families.add_info("rightsizer_device_telemetry_info", uuid, report.tier, source)
    for signal, name in _DETAILED_NAMES if details else _DEFAULT_NAMES:
        is_better_known = signal in _STAND_INS and _STAND_INS[signal] in signals
        if details or not is_better_known:
            families.add(name, signals.get(signal), uuid)
    mask = signals.get(Signal.CLOCK_EVENT_REASONS)
    if mask is not None:
        for reason, bit in CLOCK_EVENT_REASONS.items():
            if details or reason not in _REASONS_OF_DETAILS:
                holds = float(bool(int(mask) & bit))
                families.add("rightsizer_clock_event_reason", holds, uuid, reason)


def _add_provisioning(
    families: Families, uuid: str, window: str, provisioning: Provisioning
) -> None:
    for resource, figures in provisioning.resources.items():
        labels = (uuid, resource, window)
        families.add("rightsizer_need_ratio", figures.need, *labels)
        families.add("rightsizer_overprovisioned_ratio", figures.overprovisioned, *labels)
        if resource is not Resource.MEMORY:
            # Full memory is either short, which the next says, or preallocated and well.
            families.add("rightsizer_saturated_ratio", figures.saturated, *labels)
        families.add("rightsizer_underprovisioned_ratio", figures.underprovisioned, *labels)
    if window in WINDOW_SECONDS:
        coverage = window_coverage_ratio(window, provisioning)
        families.add("rightsizer_coverage_ratio", coverage, uuid, window)
    over, under = provisioning.overprovisioned, provisioning.underprovisioned
    families.add("rightsizer_device_overprovisioned_ratio", over, uuid, window)
    families.add("rightsizer_device_underprovisioned_ratio", under, uuid, window)
