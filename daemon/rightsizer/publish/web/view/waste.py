"""Where device time went: used, or wasted for a cause."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from rightsizer.domain.report import Totals
from rightsizer.domain.state import Cause
from rightsizer.domain.units import format_duration
from rightsizer.publish.web.view.strip import Share
from rightsizer.publish.web.view.words import percent, spoken

__all__ = ["WasteView", "waste_view"]

_CAUSE_NAMES: Final = {
    Cause.IDLE: "Idle",
    Cause.STALLED: "Stalled",
    Cause.HOST: "Waiting for the CPU",
    Cause.STORAGE: "Waiting for storage",
    Cause.PCIE: "Waiting for transfers",
    Cause.LAUNCH: "Small kernels",
    Cause.THROTTLED: "Throttled",
    Cause.HEADROOM: "Headroom",
}


@dataclass(frozen=True, slots=True)
class WasteView:
    """All known time of some devices, divided; `used_text` is empty where nothing is known."""

    used_ratio: float
    used_text: str
    known_text: str
    parts: tuple[Share, ...]
    """Used first, then the causes in their own order, none of them empty."""
    largest: Share | None
    """The cause that took the most."""
    label: str


def waste_view(totals: Iterable[tuple[Totals, float]]) -> WasteView:
    """The division of the time of some devices, each with the part of a GPU that it is."""
    used, causes = 0.0, dict.fromkeys(Cause, 0.0)
    for one, capacity_ratio in totals:
        used += one.used_seconds * capacity_ratio
        for cause, duration in one.waste_seconds.items():
            causes[cause] += duration * capacity_ratio
    known = used + sum(causes.values())
    if known <= 0:
        return WasteView(0.0, "", "", (), None, "nothing known yet")
    wasted = [
        Share(f"waste-{cause}", _CAUSE_NAMES.get(cause, spoken(cause)), percent(part), part)
        for cause, duration in causes.items()
        if (part := duration / known) > 0
    ]
    ratio = used / known
    used_part = Share("waste-used", "Put to use", percent(ratio), ratio)
    parts = (used_part, *wasted) if ratio > 0 else tuple(wasted)
    label = ", ".join(f"{part.name} {part.text}" for part in parts)
    largest = max(wasted, key=lambda part: part.ratio, default=None)
    return WasteView(ratio, percent(ratio), format_duration(known), parts, largest, label)
