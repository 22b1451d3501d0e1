"""One interval of a device's time: its state, conditions and cost."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from rightsizer.model.signal import Signal
from rightsizer.model.state import Cause, Condition, Resource, State, Tier
from rightsizer.model.units import Nanoseconds


class EnergySource(StrEnum):
    """What the joules of a stretch rest on, best first."""

    COUNTER = "counter"
    """The driver's own counter of energy."""
    POWER = "power"
    """The draw at the end of the stretch, taken for all of it."""


@dataclass(frozen=True, slots=True)
class Entry:
    """The time that one reading accounts for, or a gap between two."""

    uuid: str
    start: Nanoseconds
    """Wall time."""
    end: Nanoseconds
    """Wall time; never before `start`."""
    state: State
    second_cause: State | None
    """The state that the evidence points to next, if any."""
    score: float
    """How far the evidence is inside the state's signature: 0.5 at its threshold, 1 at most."""
    conditions: frozenset[Condition]
    tier: Tier
    signals: Mapping[Signal, float]
    """All signals of the stretch, derived ratios included."""
    shares: Mapping[Resource, float]
    """What was used of each resource, 0 to 1 of its capacity, where it is known."""
    compute_at_least: float | None
    """The lower bound of the compute share; `shares` holds the upper one."""
    saturated: frozenset[Resource]
    pressed: frozenset[Resource]
    """Resources that an application was short of."""
    used_ratio: float | None
    """What was used of the most used resource's achievable part; `None` where unknown."""
    waste: Mapping[Cause, float]
    """The rest of the stretch by cause, as ratios; with `used_ratio` they sum to 1."""
    energy_joules: float | None
    """What the device drew over the stretch; `None` where its power is unknown."""
    energy_source: EnergySource | None = None
    """How that is known; `None` where it is not."""

    @property
    def duration(self) -> Nanoseconds:
        """How long the stretch is."""
        return self.end - self.start
