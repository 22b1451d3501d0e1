"""Metrics of one device: identity, health, accounts, readings, provisioning."""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

from rightsizer.exposition.families import Families
from rightsizer.model.metric import (
    DETAIL_SIGNALS,
    DISTRIBUTION_SIGNALS,
    METRICS,
    QUANTITY_SIGNALS,
    RATIO_GAUGES,
)
from rightsizer.model.values import (
    OTHER_XID,
    Cause,
    ClockEvent,
    Collector,
    Condition,
    DeviceReport,
    Nvlink,
    Provisioning,
    Resource,
    Signal,
    State,
    Totals,
    seconds,
)
from rightsizer.report.freshness import WINDOW_SECONDS, window_coverage_ratio

CLOCK_EVENT_REASONS: Final = {
    event.label: event for event in ClockEvent if event is not ClockEvent.DISPLAY_CLOCK_SETTING
}
"""By label; without the display's, since datacenter GPUs drive none."""

_RARE_REASONS: Final = frozenset(
    {
        ClockEvent.GPU_IDLE.label,
        ClockEvent.APPLICATIONS_CLOCKS_SETTING.label,
        ClockEvent.SYNC_BOOST.label,
    }
)
"""Reasons that withhold no performance that a workload could use."""

_NAMES: Final = tuple(
    (signal, signal.metric_name) for signal in (*RATIO_GAUGES, *QUANTITY_SIGNALS, *DETAIL_SIGNALS)
)

_STATES: Final = tuple(state.value for state in State)
_CONDITIONS: Final = tuple(condition.value for condition in Condition)
_CAUSES: Final = tuple(cause.value for cause in Cause)
"""As plain strings, which equal the members and are faster to look up."""
_DISTRIBUTIONS: Final = tuple(
    (signal, signal.distribution_metric_name) for signal in DISTRIBUTION_SIGNALS
)
_RESOURCE_TEXTS: Final = {resource: resource.value for resource in Resource}
_MEDIA: Final = Resource.MEDIA
_MEMORY: Final = Resource.MEMORY
_NEED: Final = "rightsizer_need_ratio"
_OVERPROVISIONED: Final = "rightsizer_overprovisioned_ratio"
_SATURATED: Final = "rightsizer_saturated_ratio"
_LINKS: Final = frozenset({Resource.PCIE, Resource.NVLINK})
"""Links cannot be sized, so their need is enough, which saves 48 series."""
_STAND_INS: Final = {Signal.MEMORY_CONTROLLER_BUSY: Signal.DRAM_ACTIVE}
"""Weaker signals with the better one that replaces them if present."""


def add_device(families: Families, report: DeviceReport, *, is_fresh: bool) -> None:
    """Add all series of a device; without fresh readings, none of its present state."""
    _add_identity(families, report)
    _add_health(families, report)
    _add_xids(families, report)
    if not report.device.has_mig_instances:
        _add_totals(families, report.device.uuid, report.totals)
    if is_fresh:
        _add_readings(families, report)
        if report.reading is not None and families.collects(Collector.LINKS):
            _add_nvlinks(families, report.device.uuid, report.reading.nvlinks)
        for window, provisioning in report.provisioning.items():
            _add_provisioning(families, report.device.uuid, window, provisioning)


def _add_identity(families: Families, report: DeviceReport) -> None:
    device = report.device
    mig = report.device.mig
    families.add_info(
        "rightsizer_device_info",
        device.uuid,
        device.number,
        device.pci_bus_id or "",
        device.name,
        device.architecture or "",
        mig.parent_uuid if mig else "",
        mig.profile if mig else "",
        "" if device.numa_node is None else str(device.numa_node),
    )
    if facts := device.facts:
        labels = METRICS["rightsizer_device_facts_info"].labels[1:]
        values = (facts.get(label, "") for label in labels)
        families.add_info("rightsizer_device_facts_info", device.uuid, *values)
    for holding in report.holdings:
        share = holding.share_ratio
        key = holding.workload.key
        families.add("rightsizer_workload_share_ratio", share, device.uuid, key)


def _add_health(families: Families, report: DeviceReport) -> None:
    uuid = report.device.uuid
    families.add("rightsizer_device_up", float(report.down is None), uuid)
    if report.down is not None:
        families.add_info(
            "rightsizer_device_down_info", uuid, report.down.reason, report.down.cause
        )
    if report.last_sample is not None:
        time = seconds(report.last_sample)
        families.add("rightsizer_device_last_sample_timestamp_seconds", time, uuid)
    families.add("rightsizer_device_capacity_ratio", report.device.capacity_ratio, uuid)


def _add_xids(families: Families, report: DeviceReport) -> None:
    uuid = report.device.uuid
    xids = report.xids
    if xids is None or report.device.mig is not None:
        return  # Included in the parent GPU's count.
    families.add("rightsizer_xid_errors_total", float(xids.total), uuid)
    for code, count in xids.counts.items():
        name = "other" if code == OTHER_XID else str(code)
        families.add("rightsizer_xid_code_errors_total", float(count), uuid, name)
    if xids.last_wall_time is not None:
        time = seconds(xids.last_wall_time)
        families.add("rightsizer_xid_last_timestamp_seconds", time, uuid)


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
    for name, keys, values in (
        ("rightsizer_state_seconds_total", _STATES, totals.state_seconds),
        ("rightsizer_condition_seconds_total", _CONDITIONS, totals.condition_seconds),
        ("rightsizer_waste_seconds_total", _CAUSES, totals.waste_seconds),
        ("rightsizer_waste_joules_total", _CAUSES, totals.waste_joules),
    ):
        amounts: Mapping[Any, float] = values
        families.add_each(name, keys, [amounts.get(key, 0.0) for key in keys], uuid)
    families.add("rightsizer_used_seconds_total", totals.used_seconds, uuid)
    families.add("rightsizer_used_joules_total", totals.used_joules, uuid)
    for signal, name in _DISTRIBUTIONS:
        if name in families.exported and signal in totals.distributions:
            histogram = totals.distributions[signal]
            integral = totals.signal_seconds[signal]
            families.add_histogram(name, histogram, integral, uuid)


def _add_readings(families: Families, report: DeviceReport) -> None:
    uuid = report.device.uuid
    signals = report.signals
    origins = report.reading.origins if report.reading is not None else {}
    source = origins.get(Signal.SM_ACTIVE) or origins.get(Signal.GPU_BUSY) or ""
    families.add_info("rightsizer_device_telemetry_info", uuid, report.tier.value, source)
    has_all = families.collects(Collector.EXTRA)
    for signal, name in _names_of(families.exported):
        is_better_known = signal in _STAND_INS and _STAND_INS[signal] in signals
        if has_all or not is_better_known:
            families.add(name, signals.get(signal), uuid)
    mask = signals.get(Signal.CLOCK_EVENT_REASONS)
    if mask is not None and "rightsizer_clock_event_reason" in families.exported:
        for reason, bit in CLOCK_EVENT_REASONS.items():
            if has_all or reason not in _RARE_REASONS:
                holds = float(bool(int(mask) & bit))
                families.add("rightsizer_clock_event_reason", holds, uuid, reason)


@lru_cache(maxsize=8)
def _names_of(exported: frozenset[str]) -> tuple[tuple[Signal, str], ...]:
    return tuple((signal, name) for signal, name in _NAMES if name in exported)


def _add_provisioning(
    families: Families, uuid: str, window: str, provisioning: Provisioning
) -> None:
    exported = families.exported
    has_all = families.collects(Collector.EXTRA)
    for resource, figures in provisioning.resources.items():
        labels = (uuid, _RESOURCE_TEXTS[resource], window)
        is_rare = resource is _MEDIA and not has_all
        if is_rare and window in WINDOW_SECONDS:
            continue
        if _NEED in exported:
            families.add(_NEED, figures.need, *labels)
        if is_rare:
            continue  # The fleet sizes it by its current need; nothing else reads it.
        if _OVERPROVISIONED in exported and (has_all or resource not in _LINKS):
            families.add(_OVERPROVISIONED, figures.overprovisioned, *labels)
        if _SATURATED in exported and resource is not _MEMORY:
            # Full memory is either short, reported by the next metric, or a healthy preallocation.
            families.add(_SATURATED, figures.saturated, *labels)
        families.add("rightsizer_underprovisioned_ratio", figures.underprovisioned, *labels)
    if window in WINDOW_SECONDS:
        coverage = window_coverage_ratio(window, provisioning)
        families.add("rightsizer_coverage_ratio", coverage, uuid, window)
    over = provisioning.overprovisioned
    under = provisioning.underprovisioned
    families.add("rightsizer_device_overprovisioned_ratio", over, uuid, window)
    families.add("rightsizer_device_underprovisioned_ratio", under, uuid, window)
