"""Thresholds: the values from which a color changes, and why there."""

from dataclasses import dataclass
from typing import Final

from grafana_foundation_sdk.builders.dashboard import ThresholdsConfig
from grafana_foundation_sdk.models.dashboard import Threshold, ThresholdsMode

from grafana.colors import AMBER, BLUE, GREEN, RED
from rightsizer.advice.rules.overprovisioned import OverprovisionedSettings
from rightsizer.advice.rules.underprovisioned import UnderprovisionedSettings

__all__ = [
    "ATTENTION",
    "CAPACITY",
    "CONFIDENCE",
    "COVERAGE",
    "ERRORS",
    "HEAT",
    "IDLE",
    "LOOK_AGE",
    "MEMORY_HEAT",
    "OVERPROVISIONED",
    "PLAIN",
    "POOL_USED",
    "SATURATED",
    "SHARES",
    "TOO_LARGE",
    "TOO_SMALL",
    "UNDERPROVISIONED",
    "UNKNOWN",
    "UP",
    "USED",
    "Scale",
]


@dataclass(frozen=True, slots=True)
class Scale:
    """Colors from these values on; the first color is for all below."""

    base: str
    steps: tuple[tuple[float, str], ...] = ()
    reason: str = ""
    """A sentence that goes under the panel's description."""

    @property
    def thresholds(self) -> ThresholdsConfig:
        """What the SDK takes."""
        steps = [Threshold(None, self.base), *(Threshold(at, color) for at, color in self.steps)]
        return ThresholdsConfig().mode(ThresholdsMode.ABSOLUTE).steps(steps)


TOO_LARGE: Final = OverprovisionedSettings().on_ratio
TOO_SMALL: Final = UnderprovisionedSettings().on_ratio

PLAIN: Final = Scale(BLUE)
USED: Final = Scale(
    RED,
    ((0.3, AMBER), (0.6, GREEN)),
    "Red below 30%: a third of its time is what clusters that read 98% busy are found to use; "
    "green from 60%, where little is left to gain.",
)
ATTENTION: Final = Scale(GREEN, ((1, AMBER),), "Amber from the first: each asks for a decision.")
ERRORS: Final = Scale(GREEN, ((1, RED),), "Red from the first: none is expected of a healthy GPU.")
IDLE: Final = Scale(
    GREEN, ((0.05, AMBER), (0.5, RED)), "Amber from 5% idle, red where half of the time is."
)
UNKNOWN: Final = Scale(
    GREEN,
    ((0.05, AMBER), (0.2, RED)),
    "Amber from 5%, where shares of time begin to mislead; red from 20%.",
)
OVERPROVISIONED: Final = Scale(
    GREEN,
    ((0.3, BLUE), (TOO_LARGE, AMBER)),
    f"Amber from {TOO_LARGE:.0%}, from which a smaller board or slice is recommended; blue from "
    "30%.",
)
UNDERPROVISIONED: Final = Scale(
    GREEN,
    ((TOO_SMALL / 5, AMBER), (TOO_SMALL, RED)),
    f"Red from {TOO_SMALL:.0%} of the time, from which a device is under-provisioned; amber from a "
    "fifth of that.",
)
SATURATED: Final = Scale(
    "transparent",
    ((0.5, BLUE), (0.9, AMBER)),
    "Amber from 90% of the time, where the alert on saturation stands; no fault of a batch job.",
)
CAPACITY: Final = Scale(
    BLUE,
    ((0.5, GREEN), (0.9, AMBER), (1.0, RED)),
    "Red from 1, where the margin no longer fits; amber from 0.9; blue below 0.5, where half of "
    "the device would do.",
)
COVERAGE: Final = Scale(
    RED,
    ((0.5, AMBER), (0.9, GREEN)),
    "Red below half: an agent started yesterday covers no week.",
)
CONFIDENCE: Final = Scale(
    AMBER, ((0.5, BLUE), (0.8, GREEN)), "Blue from 0.5, which it takes to open; green from 0.8."
)
LOOK_AGE: Final = Scale(
    GREEN,
    ((2, AMBER), (3, RED)),
    "Red from 3, from which the service is not ready and its alert fires; amber from 2.",
)
POOL_USED: Final = Scale(
    RED,
    ((0.3, AMBER), (0.6, GREEN)),
    "Red below 30% and green from 60%, as for used time; an active GPU need not be a busy one.",
)
SHARES: Final = Scale(
    "transparent", ((0.05, "#1F60C4"), (0.5, BLUE)), "Shaded from 5%, bright from half."
)
HEAT: Final = Scale(
    GREEN,
    ((80, AMBER), (87, RED)),
    "Red from 87 °C, near which datacenter boards slow down; amber from 80 °C.",
)
MEMORY_HEAT: Final = Scale(
    GREEN, ((90, AMBER), (95, RED)), "Red from 95 °C, near the limit of HBM; amber from 90 °C."
)
UP: Final = Scale(RED, ((1, GREEN),), "Red where any does not respond.")
