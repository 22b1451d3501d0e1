"""Time of a device: an entry accounts for one interval, a window for a mergeable span."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from msgspec import Struct, field
from msgspec.structs import replace

from rightsizer.model.block import Blocks
from rightsizer.model.histogram import Distribution, Histogram
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
    """Basis of a reported energy, best first."""

    COUNTER = "counter"
    POWER = "power"
    """Power at the end of the interval, assumed constant over it."""


class LoadCycle(Struct, frozen=True):
    """Period of work and pause, similar in length to those before."""

    length_seconds: float
    busy_seconds: float
    """Busy part of it, by utilization."""


class Entry(Struct, frozen=True):
    """Interval accounted for by one reading; the defaults describe a gap."""

    uuid: str
    start: Nanoseconds
    """Wall time."""
    end: Nanoseconds
    """Wall time; never before `start`."""
    state: State = State.UNKNOWN
    unknown_reason: UnknownReason | None = UnknownReason.NO_READING
    """Why the state is unknown; meaningless otherwise."""
    second_cause: State | None = None
    """Next most likely state, if any."""
    score: float = 1.0
    """Fit of the evidence to the state's signature: 0.5 at its threshold, 1 at most."""
    conditions: frozenset[Condition] = frozenset()
    tier: Tier = Tier.NONE
    signals: Mapping[Signal, float] = {}
    """All signals of the interval, derived ratios included."""
    shares: Mapping[Resource, float] = {}
    """Usage of each resource, 0 to 1 of its capacity, if known."""
    compute_at_least: float | None = None
    """Lower bound of the compute share; `shares` holds the upper bound."""
    saturated: frozenset[Resource] = frozenset()
    pressed: frozenset[Resource] = frozenset()
    """Resources that an application was short of."""
    used_ratio: float | None = None
    """Used share of the achievable part of the busiest resource; `None` if unknown."""
    waste: Mapping[Cause, float] = {}
    """Unused share by cause; adds up to 1 with `used_ratio`."""
    energy_joules: float | None = None
    """Energy of the interval; `None` if its power is unknown."""
    energy_source: EnergySource | None = None
    cycle: LoadCycle | None = None
    """Load cycle that ended at the start of the interval, if it is one of several."""
    observed: frozenset[Observation] = frozenset()
    """Facts that could be established for the interval, true or not."""

    @property
    def duration(self) -> Nanoseconds:
        """Length of the interval."""
        return self.end - self.start

    def cut(self, start: Nanoseconds, end: Nanoseconds) -> "Entry":
        """Cut out a part, with its share of the energy."""
        joules = self.energy_joules
        share = (end - start) / self.duration
        return replace(
            self,
            start=start,
            end=end,
            energy_joules=None if joules is None else joules * share,
            # The cycle ended when the entry began.
            cycle=self.cycle if start == self.start else None,
        )


def workload_subject(key: str) -> str:
    """Subject of a workload's windows, in place of a device's uuid."""
    return f"{_WORKLOAD}{key}"


class Window(Struct, frozen=True):
    """Sums and distributions of one device from `start` to `end` (wall time).

    Times are integer nanoseconds, so that windows add and subtract without loss. A workload's
    window sums the seconds, joules and distributions of all its devices.
    """

    uuid: str
    start: Nanoseconds
    end: Nanoseconds
    states: Mapping[State, Nanoseconds] = {}
    second_causes: Mapping[State, Nanoseconds] = {}
    """Known time by the next most likely state."""
    unknown_reasons: Mapping[UnknownReason, Nanoseconds] = {}
    """Unknown time by reason, as far as recorded."""
    conditions: Mapping[Condition, Nanoseconds] = {}
    observed: Mapping[Observation, Nanoseconds] = {}
    """Time for which a fact could be established, true or not."""
    tiers: Mapping[Tier, Nanoseconds] = {}
    saturated: Mapping[Resource, Nanoseconds] = {}
    pressed: Mapping[Resource, Nanoseconds] = {}
    waste_seconds: Mapping[Cause, float] = {}
    waste_joules: Mapping[Cause, float] = {}
    used_seconds: float = 0.0
    used_joules: float = 0.0
    energy_joules: float = 0.0
    cycles: float = 0.0
    """Number of load cycles of similar length; their total length and busy time follow."""
    cycle_seconds: float = 0.0
    cycle_busy_seconds: float = 0.0
    demands: Mapping[Resource, Distribution] = {}
    """Usage of each resource over active seconds; memory over held seconds. Weights are
    nanoseconds."""
    compute_at_least: Distribution = field(default_factory=Histogram)
    """Lower bound of the compute demand."""
    blocks: Blocks = _NO_BLOCKS
    """Mean and peak of each five minutes. A workload's are sums over its devices at the same
    moments; running sums have none."""

    @property
    def workload_key(self) -> str | None:
        """Key of the workload that this window belongs to, or `None` for a device's."""
        return self.uuid.removeprefix(_WORKLOAD) if self.uuid.startswith(_WORKLOAD) else None

    @property
    def accounted(self) -> Nanoseconds:
        """Time with a state, `unknown` included."""
        return sum(self.states.values())

    @property
    def known(self) -> Nanoseconds:
        """Time with a state other than `unknown`."""
        return self.accounted - self.states.get(State.UNKNOWN, 0)

    @property
    def active(self) -> Nanoseconds:
        """Time neither idle nor unknown."""
        return self.known - sum(self.states.get(state, 0) for state in IDLE_STATES)

    @property
    def known_seconds(self) -> float:
        """`known` in seconds."""
        return seconds(self.known)

    @property
    def coverage_ratio(self) -> float:
        """Known share of the window's span, 0 to 1; a workload's span is its accounted time."""
        accounted = self.accounted
        known_time = accounted - self.states.get(State.UNKNOWN, 0)
        span = accounted if self.workload_key else max(self.end - self.start, accounted)
        return known_time / span if span > 0 else 0.0

    @property
    def tier(self) -> Tier:
        """Telemetry tier of most of the known time."""
        return max(self.tiers, key=self.tiers.__getitem__, default=Tier.NONE)

    @property
    def effective_utilization(self) -> float | None:
        """Used share of the known time, by the busiest resource; `None` if unknown."""
        attributed = self.used_seconds + sum(self.waste_seconds.values())
        return self.used_seconds / attributed if attributed > 0.0 else None

    @property
    def headroom_ratio(self) -> float | None:
        """Unused share of the known time while working, without a specific cause."""
        attributed = self.used_seconds + sum(self.waste_seconds.values())
        left = self.waste_seconds.get(Cause.HEADROOM, 0.0)
        return left / attributed if attributed > 0.0 else None

    def share(self, *states: State) -> float:
        """Share of the known time spent in any of these states, 0 to 1."""
        known_time = self.known
        return (
            sum(self.states.get(state, 0) for state in states) / known_time
            if known_time > 0
            else 0.0
        )

    def condition_share(self, condition: Condition) -> float:
        """Share of the known time with a condition, 0 to 1."""
        known_time = self.known
        return self.conditions.get(condition, 0) / known_time if known_time > 0 else 0.0


class ResourceProvisioning(Struct, frozen=True):
    """Fit of a device to one resource's demand over a window; `None` if unknown."""

    demand: float | None
    need: float | None
    overprovisioned: float | None
    saturated: float | None
    underprovisioned: float | None


class Provisioning(Struct, frozen=True, kw_only=True):
    """Fit of a device to its demand over a window, by resource and overall."""

    resources: Mapping[Resource, ResourceProvisioning]
    overprovisioned: float | None
    underprovisioned: float | None
    is_underprovisioned: bool = False
    """Some resource was short for longer than tolerated."""
    memory_is_preallocated: bool = False
    """The memory in use does not indicate the memory needed."""
    compute_need_at_least: float | None
    tier: Tier
    coverage_ratio: float
    known_seconds: float = 0.0
    active_seconds: float
