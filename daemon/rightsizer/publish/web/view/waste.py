"""Where device time went: used, or wasted for a cause."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Protocol

from rightsizer.domain.state import Cause
from rightsizer.domain.units import format_duration
from rightsizer.publish.web.view.strip import Share
from rightsizer.publish.web.view.words import percent, spoken

__all__ = ["CAUSE_NAMES", "Spent", "WasteView", "waste_view"]

CAUSE_NAMES: Final = {
    Cause.IDLE: "Idle",
    Cause.STALLED: "Stalled",
    Cause.HOST: "Waiting for the CPU",
    Cause.STORAGE: "Waiting for storage",
    Cause.PCIE: "Waiting for transfers",
    Cause.LAUNCH: "Small kernels",
    Cause.THROTTLED: "Throttled",
    Cause.HEADROOM: "Headroom",
}
_HOUR_SECONDS: Final = 3600.0
_JOULES_PER_KILOWATT_HOUR: Final = 3.6e6


class Spent(Protocol):
    """Time of a device that is accounted for, of a span or since the agent started."""

    @property
    def used_seconds(self) -> float:
        """What was put to use."""

    @property
    def waste_seconds(self) -> Mapping[Cause, float]:
        """What was not, by cause."""

    @property
    def waste_joules(self) -> Mapping[Cause, float]:
        """The energy that went with it."""


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
    lost: str
    """What was wasted, in hours of a GPU and in energy."""


def waste_view(spent: Iterable[tuple[Spent, float]]) -> WasteView:
    """The division of the time of some devices, each with the part of a GPU that it is."""
    used, joules, causes = 0.0, 0.0, dict.fromkeys(Cause, 0.0)
    for one, capacity_ratio in spent:
        used += one.used_seconds * capacity_ratio
        joules += sum(one.waste_joules.values())
        for cause, duration in one.waste_seconds.items():
            causes[cause] += duration * capacity_ratio
    wasted_seconds = sum(causes.values())
    known = used + wasted_seconds
    if known <= 0:
        return WasteView(0.0, "", "", (), None, "nothing known yet", "")
    wasted = [
        Share(f"waste-{cause}", CAUSE_NAMES.get(cause, spoken(cause)), percent(part), part)
        for cause, duration in causes.items()
        if (part := duration / known) > 0
    ]
    ratio = used / known
    used_part = Share("waste-used", "Put to use", percent(ratio), ratio)
    parts = (used_part, *wasted) if ratio > 0 else tuple(wasted)
    return WasteView(
        used_ratio=ratio,
        used_text=percent(ratio),
        known_text=format_duration(known),
        parts=parts,
        largest=max(wasted, key=lambda part: part.ratio, default=None),
        label=", ".join(f"{part.name} {part.text}" for part in parts),
        lost=_lost(wasted_seconds, joules),
    )


def _lost(wasted_seconds: float, joules: float) -> str:
    hours = f"{wasted_seconds / _HOUR_SECONDS:,.1f} GPU hours"
    return f"{hours}, {joules / _JOULES_PER_KILOWATT_HOUR:,.1f} kWh" if joules > 0 else hours
