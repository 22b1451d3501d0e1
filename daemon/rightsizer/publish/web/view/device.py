"""One device's card."""

from dataclasses import dataclass

from rightsizer.domain.reading import Missing
from rightsizer.domain.report import DeviceReport, Report
from rightsizer.domain.state import State
from rightsizer.domain.units import Nanoseconds
from rightsizer.publish.web.view.fit import FitSettings, FitView, fit_view
from rightsizer.publish.web.view.gauge import Gauge, gauges
from rightsizer.publish.web.view.strip import StripView, strip_view
from rightsizer.publish.web.view.waste import WasteView, waste_view
from rightsizer.publish.web.view.words import Moment, moment, spoken

__all__ = ["DeviceView", "device_title", "device_view"]


@dataclass(frozen=True, slots=True)
class DeviceView:
    """What the template shows of a device."""

    anchor: str
    title: str
    model: str
    uuid: str
    place: str
    """Bus address and NUMA node, as far as they are known."""
    workloads: tuple[str, ...]
    state_key: str
    state_name: str
    conditions: tuple[str, ...]
    tier: str
    missing: tuple[str, ...]
    down: str
    """Why it does not answer, empty where it does."""
    last_sample: Moment | None
    is_fresh: bool
    is_divided: bool
    """A GPU whose MIG instances have the states."""
    strip: StripView
    gauges: tuple[Gauge, ...]
    fit: FitView
    waste: WasteView
    advice_count: int


def device_title(report: DeviceReport) -> str:
    """What a device is called: `GPU 3`, or `MIG 6:2` for an instance of GPU 6."""
    device = report.device
    if device.mig is not None:
        return f"MIG {device.index}:{device.mig.gpu_instance_id}"
    return f"GPU {device.index}"


def device_view(
    report: DeviceReport, node: Report, now: Nanoseconds, fit: FitSettings, *, is_fresh: bool
) -> DeviceView:
    """A device's card; readings that are no longer the present are left out."""
    device = report.device
    shown_state = report.state if is_fresh else State.UNKNOWN
    return DeviceView(
        anchor=f"device-{device.uuid}",
        title=device_title(report),
        model=_model(report),
        uuid=device.uuid,
        place=_place(report),
        workloads=tuple(holding.workload.key for holding in report.holdings),
        state_key=shown_state,
        state_name=spoken(shown_state),
        conditions=tuple(spoken(condition) for condition in sorted(report.conditions))
        if is_fresh
        else (),
        tier=report.tier,
        missing=_missing(report),
        down=f"{spoken(report.down.reason)}: {report.down.detail.rstrip('.')}."
        if report.down
        else "",
        last_sample=moment(report.last_sample, now) if report.last_sample is not None else None,
        is_fresh=is_fresh,
        is_divided=device.has_mig_instances,
        strip=strip_view(report.strip, node.wall_time),
        gauges=gauges(report.signals) if is_fresh else (),
        fit=fit_view(report.provisioning if is_fresh else {}, fit),
        waste=waste_view([(report.totals, 1.0)]),
        advice_count=sum(
            piece.is_open and device.uuid in piece.finding.devices for piece in node.advice
        ),
    )


def _missing(report: DeviceReport) -> tuple[str, ...]:
    """Why signals have no value, one phrase a reason."""
    if report.reading is None:
        return ()
    by_reason: dict[Missing, list[str]] = {}
    for signal, reason in report.reading.missing.items():
        by_reason.setdefault(reason, []).append(signal)
    return tuple(
        f"{spoken(reason)}: {', '.join(sorted(signals))}"
        for reason, signals in sorted(by_reason.items())
    )


def _model(report: DeviceReport) -> str:
    device = report.device
    name = device.name.removeprefix("NVIDIA ") or device.board or "unknown model"
    return f"{name}, {device.mig.profile}" if device.mig is not None else name


def _place(report: DeviceReport) -> str:
    device = report.device
    parts = [device.pci_bus_id or ""]
    if device.numa_node is not None:
        parts.append(f"NUMA node {device.numa_node}")
    return ", ".join(filter(None, parts))
