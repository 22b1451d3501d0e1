"""View of one device's card: gauges, and how well it fits its demand."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from msgspec import Struct

from rightsizer.model.values import (
    Blocks,
    DeviceReport,
    DeviceSpan,
    Missing,
    Nanoseconds,
    Provisioning,
    Resource,
    ResourceProvisioning,
    Signal,
    Span,
    TimeRange,
    percent_text,
)
from rightsizer.report.labels import display_name
from rightsizer.web.settings import FitSettings
from rightsizer.web.view.strip import FINE, Grain

BULLET_SCALE: Final = 1.25
"""Ratio at a bullet's right end; capacity is 1."""

_WINDOWS: Final = ("current", "24h")
"""Best first."""

_TOO_LITTLE: Final = ("not enough active time to tell", "none")
_PREALLOCATED: Final = "Memory is reserved in advance, so how much is needed is unknown."


class Bullet(Struct, frozen=True):
    """Demand and need of a resource over one window."""

    window: str
    demand: float
    need: float
    key: str
    """`headroom`, `fits`, `tight` or `act`."""


class FitView(Struct, frozen=True):
    """Fit of a device as a whole, and by resource."""

    verdict: str
    key: str
    bullets: Mapping[Resource, tuple[Bullet, ...]]
    """The best window's first."""
    note: str
    """What the bullets do not show, empty if nothing."""


def fit_view(provisioning: Mapping[str, Provisioning], settings: FitSettings) -> FitView:
    """Return the fit of a device from its windows; empty if no window has a demand."""
    bullets = {resource: tuple(_bullets(resource, provisioning, settings)) for resource in Resource}
    best = next((provisioning[window] for window in _WINDOWS if window in provisioning), None)
    verdict, key = _verdict(best, settings)
    note = _PREALLOCATED if best is not None and best.memory_is_preallocated else ""
    return FitView(
        verdict, key, {resource: bullet for resource, bullet in bullets.items() if bullet}, note
    )


def _verdict(current: Provisioning | None, settings: FitSettings) -> tuple[str, str]:
    if current is None:
        return _TOO_LITTLE
    if current.underprovisioned is not None and current.underprovisioned >= settings.short_ratio:
        return f"under-provisioned {percent_text(current.underprovisioned)} of the time", "act"
    if current.overprovisioned is None:
        return _TOO_LITTLE
    over = current.overprovisioned
    if over > 1 - settings.headroom_need_ratio:
        return f"over-provisioned: {percent_text(over)} is never needed", "headroom"
    if over < 1 - settings.tight_need_ratio:
        return f"fits tightly: {percent_text(over)} to spare", "tight"
    return f"fits: {percent_text(over)} to spare", "fits"


def _bullets(
    resource: Resource, provisioning: Mapping[str, Provisioning], settings: FitSettings
) -> Iterator[Bullet]:
    for window in _WINDOWS:
        figures = provisioning[window].resources.get(resource) if window in provisioning else None
        if figures is not None and (need := figures.need) is not None:
            demand = need if figures.demand is None else figures.demand
            yield Bullet(window, demand, need, _fit_key(need, figures, settings))


def bullets_label(resource: Resource, bullets: Iterable[Bullet]) -> str:
    """Describe a resource and its bullets in words."""
    parts = (
        f"{bullet.window}, demand {percent_text(bullet.demand)}, need {percent_text(bullet.need)}"
        for bullet in bullets
    )
    return f"{display_name(resource)}: {'; '.join(parts)}"


def _fit_key(need: float, figures: ResourceProvisioning, settings: FitSettings) -> str:
    under = figures.underprovisioned
    if under is not None and under >= settings.short_ratio:
        return "act"  # A need above 1 alone lacks the margin: a load at its limit is well used.
    if need > settings.tight_need_ratio:
        return "tight"
    return "headroom" if need < settings.headroom_need_ratio else "fits"


def bullet_width(ratio: float) -> float:
    """In percent of a bullet's full width."""
    return round(min(ratio, BULLET_SCALE) / BULLET_SCALE * 100, 1)


GAUGES: Final = (
    (Signal.GPU_BUSY, "Busy", "Share of time with a kernel resident: what GPU_UTIL shows"),
    (Signal.SM_WORK, "Work", "SM activity times clock"),
    (Signal.MEMORY_USED, "Memory", "Framebuffer used of total"),
    (Signal.POWER, "Power above idle", "Draw above idle, of the limit above idle"),
)


class DeviceContext(Struct, frozen=True):
    """Display settings of devices: span, resolution, and thresholds of colors."""

    now: Nanoseconds
    span: Span
    fit: FitSettings
    grain: Grain = FINE
    zoom: TimeRange | None = None
    """Range shown by strips; `None` for the span."""

    @property
    def drawn(self) -> Span:
        """Span shown by strips."""
        return self.span if self.zoom is None else self.zoom.span

    def stretch(self, last: Nanoseconds) -> TimeRange:
        """Return the same by its ends; a span ends with the `last` reading."""
        return self.zoom or TimeRange(last - self.span.length, last)


class DevicePast(Struct, frozen=True):
    """History of a device."""

    span: DeviceSpan
    drawn: DeviceSpan
    """Content of its strip: the span, or the cells and states of a zoomed range."""
    blocks: Blocks = Blocks()


def down_label(report: DeviceReport) -> str:
    """Return why it does not respond, empty if it does."""
    down = report.down
    return f"{display_name(down.reason)}: {down.detail.rstrip('.')}." if down else ""


def missing_labels(report: DeviceReport) -> tuple[str, ...]:
    """Return why signals have no value, one phrase per reason."""
    by_reason: dict[Missing, list[str]] = {}
    for signal, reason in report.reading.missing.items() if report.reading else ():
        by_reason.setdefault(reason, []).append(signal)
    return tuple(
        f"{display_name(reason)}: {', '.join(sorted(signals))}"
        for reason, signals in sorted(by_reason.items())
    )


def model_label(report: DeviceReport) -> str:
    """Return the name without the vendor, for an instance with its profile."""
    device = report.device
    name = device.name.removeprefix("NVIDIA ") or device.board or "unknown model"
    # Drivers name an instance by its GPU's name, with or without its profile.
    if device.mig is None or device.mig.profile in name:
        return name
    return f"{name}, {device.mig.profile}"


def place_label(report: DeviceReport) -> str:
    """Return bus address and NUMA node, as far as known."""
    device = report.device
    node = "" if device.numa_node is None else f"NUMA node {device.numa_node}"
    return ", ".join(filter(None, (device.pci_bus_id, node)))
