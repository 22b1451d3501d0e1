"""Scenario: boards of a node, workloads on them with their load shapes, and faults."""

import math
from typing import Annotated, Final, TypeAlias, cast

from msgspec import Struct, field

from rightsizer.catalogue.board import Board, MigProfile
from rightsizer.model.values import (
    DAY_SECONDS,
    NANOSECONDS_PER_SECOND,
    Condition,
    Nanoseconds,
    ProcessKind,
    Spec,
    State,
    Workload,
)
from rightsizer.simulator.activity import KernelActivity
from rightsizer.simulator.faults import ActivePeriod, MigReconfiguration, ScenarioFault
from rightsizer.simulator.transients import uniform
from rightsizer.telemetry.serving.settings import EngineName

_QUIETEST_BURST: Final = 0.35


def time_of_day(value: object) -> object:
    """Seconds since midnight, UTC, of a time like `"13:30"`, up to `"24:00"`."""
    # YAML reads an unquoted 13:30 as a base-60 number: 810 minutes.
    minutes = value
    if not isinstance(value, int):
        hours, colon, rest = str(value).partition(":")
        if not (colon and hours.isdigit() and rest.isdigit() and int(rest) < 60):  # noqa: PLR2004
            raise ValueError(f"'{value}' is not a time of day; write it like \"13:30\"")
        minutes = int(hours) * 60 + int(rest)
    if not 0 <= cast(int, minutes) <= 24 * 60:
        raise ValueError(f"'{value}' is not a time of day; the last is \"24:00\"")
    return cast(int, minutes) * 60.0


_Share: TypeAlias = Annotated[float, Spec(within=(0.0, 1.0))]
_Interval: TypeAlias = Annotated[float, Spec(unit="", within=(1.0, DAY_SECONDS))]


class ConstantLoad(Struct, frozen=True):
    """A constant load; `level` is the share of a phase's full load, 0 to 1."""

    level: _Share = 1.0

    def intensity(self, key: int, time: Nanoseconds) -> float:
        """Return the level at any time."""
        del key, time
        return self.level


class BurstyLoad(Struct, frozen=True):
    """Requests in bursts of varying strength, with pauses between them."""

    level: _Share = 1.0
    share: _Share = 0.6
    """Share of intervals with a burst."""
    interval_seconds: _Interval = 20.0

    def intensity(self, key: int, time: Nanoseconds) -> float:
        """Return the strength of the interval's burst, or 0."""
        return self.level * _burst(key, time, self.interval_seconds, self.share)


class DiurnalLoad(Struct, frozen=True):
    """Bursts with a daily cycle: most at the peak, none deep in the night."""

    level: _Share = 1.0
    share: _Share = 0.6
    interval_seconds: _Interval = 20.0
    peak_seconds: Annotated[float, Spec(unit="", parse=time_of_day)] = field(
        name="peak", default=15 * 3600.0
    )
    """Time of day with most load."""
    night_ratio: float = 0.0
    """Load twelve hours from the peak, relative to the peak."""

    def intensity(self, key: int, time: Nanoseconds) -> float:
        """Return the strength of a burst; bursts are rarer and weaker away from the peak."""
        daylight = self.daylight(time)
        if daylight <= 0.0:
            return 0.0
        burst = _burst(key, time, self.interval_seconds, self.share * math.sqrt(daylight))
        return self.level * burst * (0.4 + 0.6 * daylight)

    def daylight(self, time: Nanoseconds) -> float:
        """Return the load of the time of day relative to the peak, 0 to 1."""
        moment = time / NANOSECONDS_PER_SECOND % DAY_SECONDS
        angle = 2.0 * math.pi * (moment - self.peak_seconds) / DAY_SECONDS
        # The lowest fifth of the cosine is cut off: the night has hours without requests.
        wave = max(0.0, (0.6 + math.cos(angle)) / 1.6)
        return self.night_ratio + (1.0 - self.night_ratio) * wave


LoadShape: TypeAlias = ConstantLoad | BurstyLoad | DiurnalLoad


def _burst(key: int, time: Nanoseconds, interval_seconds: float, share: float) -> float:
    step = time // round(interval_seconds * NANOSECONDS_PER_SECOND)
    if uniform(key, 2 * step) >= share:
        return 0.0
    return _QUIETEST_BURST + (1.0 - _QUIETEST_BURST) * uniform(key, 2 * step + 1)


class BoardSlot(Struct, frozen=True):
    """One GPU of the node: board, MIG division and environment."""

    index: int
    board: Board
    profiles: tuple[MigProfile, ...] = ()
    """Its MIG instances; empty with MIG off."""
    power_limit_watts: float | None = None
    ambient_celsius: float = 28.0
    pcie_generation: int | None = None
    pcie_width: int | None = None
    is_persistent: bool = True
    """Whether the driver keeps the GPU awake without clients."""
    mig_reconfigurations: tuple[tuple[ActivePeriod, MigReconfiguration], ...] = ()
    """Other divisions at times."""

    def profile(self, instance: int | None) -> MigProfile | None:
        """The profile of an instance by its number; `None` for the whole GPU."""
        return None if instance is None else self.all_profiles[instance]

    @property
    def all_profiles(self) -> tuple[MigProfile, ...]:
        """Profiles of all instances that ever exist, by number."""
        later = (profile for _, recut in self.mig_reconfigurations for profile in recut.profiles)
        return (*self.profiles, *later)

    @property
    def is_ever_whole(self) -> bool:
        """Whether there are times without instances."""
        return not self.profiles or any(
            not recut.profiles for _, recut in self.mig_reconfigurations
        )


class DeviceLocation(Struct, frozen=True):
    """A GPU or an instance that a workload holds."""

    gpu: int
    instance: int | None = None


class HostLoad(Struct, frozen=True):
    """Load of a phase on the host; ratios."""

    cpu: float = 0.0
    """Of the workload's own cores."""
    cpu_pressure: float = 0.0
    io_pressure: float = 0.0
    memory_pressure: float = 0.0


class TaskPhase(Struct, frozen=True):
    """A phase of a workload with one behavior and its true state."""

    activity: KernelActivity
    state: State
    seconds: float
    jitter_ratio: float = 0.0
    """Random shift of its end from cycle to cycle, relative to its length."""
    host: HostLoad = HostLoad()
    conditions: frozenset[Condition] = frozenset()
    """In addition to those that follow from the physics."""
    between: tuple[float, float] | None = None
    """Times of day, in seconds, during which it replaces the cycle."""
    follows_load: bool = True
    """Whether the workload's load shape applies."""


class MemoryPlan(Struct, frozen=True):
    """GPU memory of one device over the workload's run, from its start to its stop."""

    first_bytes: float
    last_bytes: float


class ScenarioEngine(Struct, frozen=True):
    """What a serving engine tells of itself at full load; its GPUs are those of its workload."""

    model: str
    requests_per_second: Annotated[float, Spec(unit="", within=(0.0, None))]
    name: Annotated[EngineName, Spec(words=(EngineName.VLLM, EngineName.SGLANG))] = EngineName.VLLM
    prompt_tokens: Annotated[float, Spec(unit="", within=(1.0, None))] = 500.0
    output_tokens: Annotated[float, Spec(unit="", within=(1.0, None))] = 200.0
    first_token_seconds: Annotated[float, Spec(within=(0.0, None))] = 0.1
    next_token_seconds: Annotated[float, Spec(within=(0.0, None))] = 0.02
    cache_tokens: Annotated[int, Spec(unit="", within=(1, None))] = 100_000
    waiting: Annotated[float, Spec(unit="", within=(0.0, None))] = 0.0
    """Requests in its queue."""


class SimulatedTask(Struct, frozen=True):
    """A workload of the scenario: identity, devices, behavior."""

    workload: Workload
    spots: tuple[DeviceLocation, ...]
    start_seconds: float
    stop_seconds: float
    """Times of day; a task runs daily, past midnight if it stops before it starts."""
    memory: tuple[MemoryPlan, ...]
    """One for each spot."""
    processes: int
    """Per spot."""
    cores: float
    """Quota of host cores."""
    shape: LoadShape
    phases: tuple[TaskPhase, ...]
    process_kind: ProcessKind = ProcessKind.COMPUTE
    engine: ScenarioEngine | None = None


class SimulatedScenario(Struct, frozen=True):
    """A node with its workloads and faults over a day."""

    name: str
    seed: int
    slots: tuple[BoardSlot, ...]
    tasks: tuple[SimulatedTask, ...]
    cores: float
    """Cores of the host."""
    driver_version: str = "580.95.05"
    faults: tuple[ScenarioFault, ...] = ()
