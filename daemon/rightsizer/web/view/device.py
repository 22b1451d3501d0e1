"""View of one device's card: gauges, and how it fits its demand."""

from collections.abc import Mapping
from typing import Final

from rightsizer.model.block import Blocks
from rightsizer.model.frozen import dataclass, field
from rightsizer.model.reading import Missing
from rightsizer.model.report import DeviceReport, DeviceSpan, Report, Span, TimeRange
from rightsizer.model.signal import Signal
from rightsizer.model.state import Resource, State
from rightsizer.model.units import Nanoseconds
from rightsizer.model.window import Provisioning, ResourceProvisioning
from rightsizer.report.labels import MomentLabel, display_name, moment_label, percent_label
from rightsizer.web.settings import FitSettings
from rightsizer.web.view.signals import SignalChart, signal_charts
from rightsizer.web.view.strip import FINE, Grain, StripView, strip_view
from rightsizer.web.view.totals import WasteView, waste_view

BULLET_SCALE: Final = 1.25
"""The ratio at a bullet's right end; capacity stands at 1."""

_WINDOWS: Final = ("current", "24h")
"""Best first."""

_TOO_LITTLE: Final = ("not enough active time to tell", "none")
_PREALLOCATED: Final = "Memory is reserved in advance, so how much is needed is unknown."


@dataclass(frozen=True, slots=True)
class Bullet:
    """A resource's demand and need over one window."""

    window: str
    demand_width: float
    """In percent of the bullet's width."""
    need_x: float
    need: str
    key: str
    """`headroom`, `fits`, `tight` or `act`."""
    text: str


@dataclass(frozen=True, slots=True)
class BulletRow:
    """A resource with its bullet for each window."""

    name: str
    bullets: tuple[Bullet, ...]
    """The best window's first."""
    label: str


@dataclass(frozen=True, slots=True)
class FitView:
    """A device's fit as a whole, and by resource."""

    verdict: str
    key: str
    rows: tuple[BulletRow, ...]
    capacity_x: float
    note: str
    """What the bullets cannot show, empty where there is nothing to add."""


def fit_view(provisioning: Mapping[str, Provisioning], settings: FitSettings) -> FitView:
    """The fit of a device from its windows; empty where no window knows a demand."""
    rows = tuple(
        row for resource in Resource if (row := _row(resource, provisioning, settings)) is not None
    )
    best = next((provisioning[window] for window in _WINDOWS if window in provisioning), None)
    verdict, key = _verdict(best, settings)
    is_preallocated = best is not None and best.memory_is_preallocated
    return FitView(verdict, key, rows, 100 / BULLET_SCALE, _PREALLOCATED if is_preallocated else "")


def _verdict(current: Provisioning | None, settings: FitSettings) -> tuple[str, str]:
    if current is None:
        return _TOO_LITTLE
    if current.underprovisioned is not None and current.underprovisioned >= settings.short_ratio:
        return f"under-provisioned {percent_label(current.underprovisioned)} of the time", "act"
    if current.overprovisioned is None:
        return _TOO_LITTLE
    over = current.overprovisioned
    if over > 1 - settings.headroom_need_ratio:
        return f"over-provisioned: {percent_label(over)} is never needed", "headroom"
    if over < 1 - settings.tight_need_ratio:
        return f"fits tightly: {percent_label(over)} to spare", "tight"
    return f"fits: {percent_label(over)} to spare", "fits"


def _row(
    resource: Resource, provisioning: Mapping[str, Provisioning], settings: FitSettings
) -> BulletRow | None:
    bullets = tuple(
        _bullet(window, figures, settings)
        for window in _WINDOWS
        if window in provisioning
        and (figures := provisioning[window].resources.get(resource)) is not None
        and figures.need is not None
    )
    if not bullets:
        return None
    name = display_name(resource)
    label = f"{name}: " + "; ".join(f"{bullet.window}, {bullet.text}" for bullet in bullets)
    return BulletRow(name, bullets, label)


def _bullet(window: str, figures: ResourceProvisioning, settings: FitSettings) -> Bullet:
    need = figures.need or 0.0
    demand = figures.demand if figures.demand is not None else need
    text = f"demand {percent_label(demand)}, need {percent_label(need)}"
    key = _fit_key(need, figures, settings)
    return Bullet(window, _width(demand), _width(need), percent_label(need), key, text)


def _fit_key(need: float, figures: ResourceProvisioning, settings: FitSettings) -> str:
    under = figures.underprovisioned
    if under is not None and under >= settings.short_ratio:
        return "act"  # A need above 1 alone lacks the margin: a load at its limit is well used.
    if need > settings.tight_need_ratio:
        return "tight"
    return "headroom" if need < settings.headroom_need_ratio else "fits"


def _width(ratio: float) -> float:
    return round(min(ratio, BULLET_SCALE) / BULLET_SCALE * 100, 1)


_GIB: Final = 2.0**30
_SHOWN: Final = (
    (Signal.GPU_BUSY, "Busy", "Share of time with a kernel resident: what GPU_UTIL shows"),
    (Signal.SM_WORK, "Work", "SM activity times clock: what was computed with"),
    (Signal.MEMORY_USED, "Memory", "Framebuffer used of total"),
    (Signal.POWER, "Power", "Draw above idle, of the limit above idle"),
)
_DETAILS: Final = {
    Signal.MEMORY_USED: (Signal.MEMORY_USED_BYTES, Signal.MEMORY_TOTAL_BYTES, _GIB, "GiB"),
    Signal.POWER: (Signal.POWER_WATTS, Signal.POWER_LIMIT_WATTS, 1.0, "W"),
}
"""A quantity, the whole that it is a part of, and their unit."""


@dataclass(frozen=True, slots=True)
class Gauge:
    """A reading between nothing and everything; `ratio` is `None` where it is not read."""

    key: str
    """The signal's name."""
    name: str
    meaning: str
    ratio: float | None
    text: str
    detail: str


def gauges(signals: Mapping[Signal, float]) -> tuple[Gauge, ...]:
    """The gauges of a device, those without a reading included."""
    return tuple(
        Gauge(
            signal,
            name,
            meaning,
            signals.get(signal),
            percent_label(signals[signal]) if signal in signals else "not read",
            _detail(signal, signals),
        )
        for signal, name, meaning in _SHOWN
    )


def _detail(signal: Signal, signals: Mapping[Signal, float]) -> str:
    if signal not in _DETAILS or _DETAILS[signal][0] not in signals:
        return ""
    part, whole, size, unit = _DETAILS[signal]
    of = f" of {signals[whole] / size:.0f}" if whole in signals else ""
    return f"{signals[part] / size:.0f}{of} {unit}"


@dataclass(frozen=True, slots=True)
class DeviceContext:
    """How devices are looked at: the span, how finely, from when on a fit gets which color."""

    now: Nanoseconds
    span: Span
    fit: FitSettings
    grain: Grain = FINE
    zoom: TimeRange | None = None
    """What strips show of the past; `None` for the span."""

    @property
    def drawn(self) -> Span:
        """What strips show."""
        return self.span if self.zoom is None else self.zoom.span

    def stretch(self, last: Nanoseconds) -> TimeRange:
        """The same by its ends; a span ends with the `last` reading."""
        return self.zoom or TimeRange(last - self.span.length, last)


@dataclass(frozen=True, slots=True)
class DevicePast:
    """What is remembered of a device."""

    span: DeviceSpan
    drawn: DeviceSpan
    """What its strip shows: the span, or the cells and states of a stretch."""
    blocks: Blocks = field(default_factory=Blocks)


@dataclass(frozen=True, slots=True)
class DeviceCardView:
    """What the template shows of a device beside its report."""

    report: DeviceReport
    title: str
    state: State
    """`unknown` where its last reading is no longer the present."""
    last_sample: MomentLabel | None
    is_fresh: bool
    strip: StripView
    signals: tuple[SignalChart, ...]
    """Over the time of the strip, of a GPU that is looked at alone."""
    gauges: tuple[Gauge, ...]
    fit: FitView
    waste: WasteView
    """Of the span; since the agent started where nothing of the span is known."""
    advice_count: int


def device_title(report: DeviceReport) -> str:
    """What a device is called: `GPU 3`, or `MIG 6:2` for an instance of GPU 6."""
    device = report.device
    if device.mig is not None:
        return f"MIG {device.index}:{device.mig.gpu_instance_id}"
    return device.title


def device_view(
    report: DeviceReport, node: Report, past: DevicePast, look: DeviceContext, *, is_fresh: bool
) -> DeviceCardView:
    """A device's card; readings that are no longer the present are left out."""
    device, of_span = report.device, waste_view([(past.span, 1.0)])
    drawn = look.stretch(node.wall_time)
    sampled = report.last_sample
    return DeviceCardView(
        report=report,
        title=device_title(report),
        state=report.state if is_fresh else State.UNKNOWN,
        last_sample=moment_label(sampled, look.now) if sampled is not None else None,
        is_fresh=is_fresh,
        strip=strip_view(past.drawn, drawn.end, look.drawn, look.grain),
        signals=signal_charts((past.blocks,), drawn) if past.blocks else (),
        gauges=gauges(report.signals) if is_fresh else (),
        fit=fit_view(report.provisioning if is_fresh else {}, look.fit),
        waste=of_span if of_span.parts else waste_view([(report.totals, 1.0)]),
        advice_count=sum(
            piece.is_open and device.uuid in piece.finding.devices for piece in node.advice
        ),
    )


def down_label(report: DeviceReport) -> str:
    """Why it does not answer, empty where it does."""
    down = report.down
    return f"{display_name(down.reason)}: {down.detail.rstrip('.')}." if down else ""


def missing_labels(report: DeviceReport) -> tuple[str, ...]:
    """Why signals have no value, one phrase a reason."""
    if report.reading is None:
        return ()
    by_reason: dict[Missing, list[str]] = {}
    for signal, reason in report.reading.missing.items():
        by_reason.setdefault(reason, []).append(signal)
    return tuple(
        f"{display_name(reason)}: {', '.join(sorted(signals))}"
        for reason, signals in sorted(by_reason.items())
    )


def model_label(report: DeviceReport) -> str:
    """Its name without the maker's, an instance's with its profile."""
    device = report.device
    name = device.name.removeprefix("NVIDIA ") or device.board or "unknown model"
    # Drivers call an instance by its GPU's name and its profile, or by the GPU's name alone.
    if device.mig is None or device.mig.profile in name:
        return name
    return f"{name}, {device.mig.profile}"


def place_label(report: DeviceReport) -> str:
    """Bus address and NUMA node, as far as they are known."""
    device = report.device
    parts = [device.pci_bus_id or ""]
    if device.numa_node is not None:
        parts.append(f"NUMA node {device.numa_node}")
    return ", ".join(filter(None, parts))
