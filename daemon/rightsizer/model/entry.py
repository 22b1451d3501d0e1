"""One interval of a device's time: its state, conditions and cost."""

from collections.abc import Mapping
from enum import StrEnum

from rightsizer.model.frozen import dataclass, field
from rightsizer.model.signal import Signal
from rightsizer.model.state import (
    Cause,
    Condition,
    Observation,
    Resource,
    State,
    Tier,
    UnknownReason,
)
from rightsizer.model.units import Nanoseconds


class EnergySource(StrEnum):
    """What the joules of a stretch rest on, best first."""

    COUNTER = "counter"
    """The driver's own counter of energy."""
    POWER = "power"
    """The draw at the end of the stretch, taken for all of it."""


@dataclass(frozen=True, slots=True)
class LoadCycle:
    """Work and a pause, as long as those before."""

    length_seconds: float
    busy_seconds: float
    """The time of it that was busy, by utilization."""


@dataclass(frozen=True, slots=True)
class Entry:
    """The time that one reading accounts for; by its defaults a gap between two."""

    uuid: str
    start: Nanoseconds
    """Wall time."""
    end: Nanoseconds
    """Wall time; never before `start`."""
    state: State = State.UNKNOWN
    unknown_reason: UnknownReason | None = UnknownReason.NO_READING
    """Why the state is unknown; of no meaning where it is known."""
    second_cause: State | None = None
    """The state that the evidence points to next, if any."""
    score: float = 1.0
    """How far the evidence is inside the state's signature: 0.5 at its threshold, 1 at most."""
    conditions: frozenset[Condition] = frozenset()
    tier: Tier = Tier.NONE
    signals: Mapping[Signal, float] = field(default_factory=dict)
    """All signals of the stretch, derived ratios included."""
    shares: Mapping[Resource, float] = field(default_factory=dict)
    """What was used of each resource, 0 to 1 of its capacity, where it is known."""
    compute_at_least: float | None = None
    """The lower bound of the compute share; `shares` holds the upper one."""
    saturated: frozenset[Resource] = frozenset()
    pressed: frozenset[Resource] = frozenset()
    """Resources that an application was short of."""
    used_ratio: float | None = None
    """What was used of the most used resource's achievable part; `None` where unknown."""
    waste: Mapping[Cause, float] = field(default_factory=dict)
    """The rest of the stretch by cause, as ratios; with `used_ratio` they sum to 1."""
    energy_joules: float | None = None
    """What the device drew over the stretch; `None` where its power is unknown."""
    energy_source: EnergySource | None = None
    """How that is known; `None` where it is not."""
    cycle: LoadCycle | None = None
    """The cycle of load that was over when the stretch began, where it is one of several."""
    observed: frozenset[Observation] = frozenset()
    """What could be told of the stretch, one way or the other."""

    @property
    def duration(self) -> Nanoseconds:
        """How long the stretch is."""
        return self.end - self.start
