"""How a device fits its demand: a bullet for each resource, need against capacity."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from rightsizer.model.state import Resource
from rightsizer.model.window import Provisioning, ResourceProvisioning
from rightsizer.report.labels import display_name, percent_label
from rightsizer.web.settings import FitSettings

BULLET_SCALE: Final = 1.25
"""The ratio at a bullet's right end; capacity stands at 1."""

_WINDOWS: Final = ("current", "24h")
"""Best first."""

_TOO_LITTLE: Final = ("not enough active time to tell", "none")
_PREALLOCATED: Final = "Memory is held in advance, so nobody knows how much is needed."


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
    need: str
    """The first window's need."""
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
    verdict, key = _verdict(_best(provisioning), settings)
    best = _best(provisioning)
    is_preallocated = best is not None and best.memory_is_preallocated
    return FitView(verdict, key, rows, 100 / BULLET_SCALE, _PREALLOCATED if is_preallocated else "")


def _best(provisioning: Mapping[str, Provisioning]) -> Provisioning | None:
    return next((provisioning[window] for window in _WINDOWS if window in provisioning), None)


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
    return BulletRow(name, bullets, bullets[0].need, label)


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
