"""How a device fits its demand: a bullet for each resource, need against capacity."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from rightsizer.domain.state import Resource
from rightsizer.domain.window import Provisioning, ResourceProvisioning
from rightsizer.publish.web.view.words import percent, spoken

__all__ = ["BULLET_SCALE", "Bullet", "BulletRow", "FitView", "fit_view"]

BULLET_SCALE: Final = 1.25
"""The ratio at a bullet's right end; capacity stands at 1."""

_WINDOWS: Final = ("current", "24h")
_TIGHT_NEED: Final = 0.85
_HEADROOM_NEED: Final = 0.5


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


def fit_view(provisioning: Mapping[str, Provisioning]) -> FitView:
    """The fit of a device from its windows; empty where no window knows a demand."""
    rows = tuple(row for resource in Resource if (row := _row(resource, provisioning)) is not None)
    verdict, key = _verdict(provisioning)
    return FitView(verdict, key, rows, 100 / BULLET_SCALE)


def _verdict(provisioning: Mapping[str, Provisioning]) -> tuple[str, str]:
    current = provisioning.get("current") or provisioning.get("24h")
    if current is None or (current.overprovisioned is None and not current.underprovisioned):
        return "not enough active time to tell", "none"
    if current.underprovisioned:
        return f"under-provisioned {percent(current.underprovisioned)} of the time", "act"
    over = current.overprovisioned or 0.0
    if over > _HEADROOM_NEED:
        return f"over-provisioned: {percent(over)} is never needed", "headroom"
    if over < 1 - _TIGHT_NEED:
        return f"fits tightly: {percent(over)} to spare", "tight"
    return f"fits: {percent(over)} to spare", "fits"


def _row(resource: Resource, provisioning: Mapping[str, Provisioning]) -> BulletRow | None:
    bullets = tuple(
        _bullet(window, figures)
        for window in _WINDOWS
        if window in provisioning
        and (figures := provisioning[window].resources.get(resource)) is not None
        and figures.need is not None
    )
    if not bullets:
        return None
    name = spoken(resource)
    label = f"{name}: " + "; ".join(f"{bullet.window}, {bullet.text}" for bullet in bullets)
    return BulletRow(name, bullets, bullets[0].need, label)


def _bullet(window: str, figures: ResourceProvisioning) -> Bullet:
    need = figures.need or 0.0
    demand = figures.demand if figures.demand is not None else need
    text = f"demand {percent(demand)}, need {percent(need)}"
    return Bullet(
        window, _width(demand), _width(need), percent(need), _fit_key(need, figures), text
    )


def _fit_key(need: float, figures: ResourceProvisioning) -> str:
    if need > 1 or figures.underprovisioned:
        return "act"
    if need > _TIGHT_NEED:
        return "tight"
    return "headroom" if need < _HEADROOM_NEED else "fits"


def _width(ratio: float) -> float:
    return round(min(ratio, BULLET_SCALE) / BULLET_SCALE * 100, 1)
