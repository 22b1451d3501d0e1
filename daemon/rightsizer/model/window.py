"""Time of a device: an entry accounts for one interval, a window for a span, and can be merged."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from rightsizer.model.block import Blocks
from rightsizer.model.frozen import dataclass, field, replace
from rightsizer.model.histogram import Histogram
from rightsizer.model.signal import Signal
from rightsizer.model.state import (
    IDLE_STATES,
    Cause,
    Condition,
    Observation,
    Resource,
    State,
    Tier,
    UnknownReason,
)
from rightsizer.model.units import Nanoseconds, seconds

_WORKLOAD: Final = "workload:"
_NO_BLOCKS: Final = Blocks()


class EnergySource(StrEnum):
    """What the joules of a stretch rest on, best first."""

    COUNTER = "counter"
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
    cycle: LoadCycle | None = None
    """The cycle of load that was over when the stretch began, where it is one of several."""
    observed: frozenset[Observation] = frozenset()
    """What could be told of the stretch, one way or the other."""

    @property
    def duration(self) -> Nanoseconds:
        """How long the stretch is."""
        return self.end - self.start

    def cut(self, start: Nanoseconds, end: Nanoseconds) -> "Entry":
        """A part of it with its part of the energy."""
        joules, share = self.energy_joules, (end - start) / self.duration
        return replace(
            self,
            start=start,
            end=end,
            energy_joules=None if joules is None else joules * share,
            # It was over when the entry began.
            cycle=self.cycle if start == self.start else None,
        )


def workload_subject(key: str) -> str:
    """What stands in the place of a device's uuid in the windows of a workload."""
    return f"{_WORKLOAD}{key}"


@dataclass(frozen=True, slots=True)
class Window:
    """Sums and distributions of one device from `start` to `end` (wall time).

    Times are nanoseconds, whole, so that windows add and subtract without loss. The window of a
    workload sums over all its devices: their seconds, their joules, their distributions.
    """

    uuid: str
    start: Nanoseconds
    end: Nanoseconds
    states: Mapping[State, Nanoseconds] = field(default_factory=dict)
    unknown_reasons: Mapping[UnknownReason, Nanoseconds] = field(default_factory=dict)
    """The unknown time by why, as far as it was kept."""
    conditions: Mapping[Condition, Nanoseconds] = field(default_factory=dict)
    observed: Mapping[Observation, Nanoseconds] = field(default_factory=dict)
    """For how long something could be told, one way or the other."""
    tiers: Mapping[Tier, Nanoseconds] = field(default_factory=dict)
    saturated: Mapping[Resource, Nanoseconds] = field(default_factory=dict)
    pressed: Mapping[Resource, Nanoseconds] = field(default_factory=dict)
    waste_seconds: Mapping[Cause, float] = field(default_factory=dict)
    waste_joules: Mapping[Cause, float] = field(default_factory=dict)
    used_seconds: float = 0.0
    used_joules: float = 0.0
    energy_joules: float = 0.0
    cycles: float = 0.0
    """How many cycles of load there were of one pace; their length, and the busy time of it."""
    cycle_seconds: float = 0.0
    cycle_busy_seconds: float = 0.0
    demands: Mapping[Resource, Histogram] = field(default_factory=dict)
    """What was used of each resource over the active seconds; for memory over the held ones.
    Weights are nanoseconds."""
    compute_at_least: Histogram = field(default_factory=Histogram)
    """The lower bound of the compute demand."""
    blocks: Blocks = _NO_BLOCKS
    """Mean and peak of each five minutes. Those of a workload are the sums over its devices at
    the same moments; running sums have none."""

    @property
    def workload_key(self) -> str | None:
        """The key of the workload that this is the window of, `None` for a device's."""
        return self.uuid.removeprefix(_WORKLOAD) if self.uuid.startswith(_WORKLOAD) else None

    @property
    def accounted(self) -> Nanoseconds:
        """All the time that has a state, `unknown` included."""
        return sum(self.states.values())

    @property
    def known(self) -> Nanoseconds:
        """The time whose state is not `unknown`."""
        return self.accounted - self.states.get(State.UNKNOWN, 0)

    @property
    def active(self) -> Nanoseconds:
        """The time that was neither idle nor unknown."""
        return self.known - sum(self.states.get(state, 0) for state in IDLE_STATES)

    @property
    def known_seconds(self) -> float:
        """`known` in seconds."""
        return seconds(self.known)

    @property
    def coverage_ratio(self) -> float:
        """Known time over the window's span, 0 to 1; for a workload over the time it was there."""
        accounted = self.accounted
        known = accounted - self.states.get(State.UNKNOWN, 0)
        span = accounted if self.workload_key else max(self.end - self.start, accounted)
        return known / span if span > 0 else 0.0

    @property
    def tier(self) -> Tier:
        """The telemetry tier that most of the known time was read with."""
        return max(self.tiers, key=lambda tier: self.tiers[tier], default=Tier.NONE)

    @property
    def effective_utilization(self) -> float | None:
        """What was used of the known time, by its busiest resource; `None` where it is unknown."""
        attributed = self.used_seconds + sum(self.waste_seconds.values())
        return self.used_seconds / attributed if attributed > 0.0 else None

    @property
    def headroom_ratio(self) -> float | None:
        """What was left of the known time while at work, for no cause of its own."""
        attributed = self.used_seconds + sum(self.waste_seconds.values())
        left = self.waste_seconds.get(Cause.HEADROOM, 0.0)
        return left / attributed if attributed > 0.0 else None

    def share(self, *states: State) -> float:
        """The part of the known time that was spent in any of these states, 0 to 1."""
        known = self.known
        return sum(self.states.get(state, 0) for state in states) / known if known > 0 else 0.0

    def condition_share(self, condition: Condition) -> float:
        """The part of the known time during which a condition held, 0 to 1."""
        known = self.known
        return self.conditions.get(condition, 0) / known if known > 0 else 0.0


@dataclass(frozen=True, slots=True)
class ResourceProvisioning:
    """How well a device fits one resource's demand over a window; `None` where unknown."""

    demand: float | None
    need: float | None
    overprovisioned: float | None
    saturated: float | None
    underprovisioned: float | None


@dataclass(frozen=True, slots=True)
class Provisioning:
    """How well a device fits its demand over a window, by resource and as a whole."""

    resources: Mapping[Resource, ResourceProvisioning]
    overprovisioned: float | None
    underprovisioned: float | None
    compute_need_at_least: float | None
    tier: Tier
    coverage_ratio: float
    active_seconds: float
    is_underprovisioned: bool = False
    """Some resource was short for longer than is tolerated."""
    memory_is_preallocated: bool = False
    """The memory in use says nothing of the memory needed."""
    known_seconds: float = 0.0
