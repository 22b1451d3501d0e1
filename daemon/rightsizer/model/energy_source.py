"""How it is known what a device drew."""

from enum import StrEnum


class EnergySource(StrEnum):
    """What the joules of a stretch rest on, best first."""

    COUNTER = "counter"
    """The driver's own counter of energy."""
    POWER = "power"
    """The draw at the end of the stretch, taken for all of it."""
