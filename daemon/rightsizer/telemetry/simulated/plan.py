"""A scenario: the boards of a node, the workloads on them, and what is true of each moment."""

from dataclasses import dataclass
from typing import Final

from rightsizer.catalogue.board import Board, MigProfile
from rightsizer.domain.reading import ProcessKind
from rightsizer.domain.state import Condition, State
from rightsizer.domain.workload import Workload
from rightsizer.telemetry.simulated.activity import Activity
from rightsizer.telemetry.simulated.fault import Fault, Recut
from rightsizer.telemetry.simulated.shapes import Shape
from rightsizer.telemetry.simulated.window import Window

__all__ = ["DAY_SECONDS", "Host", "MemoryPlan", "Phase", "Scenario", "Slot", "Spot", "Task"]

DAY_SECONDS: Final = 86400.0


@dataclass(frozen=True, slots=True)
class Slot:
    """One GPU of the node: its board, how it is cut, and what its place does to it."""

    index: int
    board: Board
    profiles: tuple[MigProfile, ...] = ()
    """The MIG instances it is cut into; empty with MIG off."""
    power_limit_watts: float | None = None
    ambient_celsius: float = 28.0
    pcie_generation: int | None = None
    pcie_width: int | None = None
    is_persistent: bool = True
    """Whether the driver keeps the GPU awake while nobody asks."""
    recuts: tuple[tuple[Window, Recut], ...] = ()
    """Other ways that it is cut at times."""

    def profile(self, instance: int | None) -> MigProfile | None:
        """The profile of an instance by its number; `None` for the whole GPU."""
        return None if instance is None else self.all_profiles[instance]

    @property
    def all_profiles(self) -> tuple[MigProfile, ...]:
        """Of all instances that it ever has, by their numbers."""
        later = (profile for _, recut in self.recuts for profile in recut.profiles)
        return (*self.profiles, *later)

    @property
    def is_ever_whole(self) -> bool:
        """Whether there are times without instances."""
        return not self.profiles or any(not recut.profiles for _, recut in self.recuts)


@dataclass(frozen=True, slots=True)
class Spot:
    """A GPU, or one of its instances, that a workload holds."""

    gpu: int
    instance: int | None = None


@dataclass(frozen=True, slots=True)
class Host:
    """What a phase does to the host, all ratios."""

    cpu: float = 0.02
    """Of the workload's own cores."""
    cpu_pressure: float = 0.0
    io_pressure: float = 0.0
    memory_pressure: float = 0.0


@dataclass(frozen=True, slots=True)
class Phase:
    """A stretch of a workload's time with one behavior, and the state it truly is."""

    activity: Activity
    state: State
    seconds: float
    jitter_ratio: float = 0.0
    """How far its end moves from cycle to cycle, of its length."""
    host: Host = Host()
    conditions: frozenset[Condition] = frozenset()
    """Beyond those that follow from the physics."""
    between: tuple[float, float] | None = None
    """Times of day, in seconds, during which it takes the place of the cycle."""
    follows_load: bool = True
    """Whether the workload's load shape applies."""


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """GPU memory of one device over the workload's run, from its start to its stop."""

    first_bytes: float
    last_bytes: float


@dataclass(frozen=True, slots=True)
class Task:
    """A workload of the scenario: who it is, where it runs, and what it does."""

    workload: Workload
    spots: tuple[Spot, ...]
    start_seconds: float
    stop_seconds: float
    """Times of day; a task runs every day, over midnight where it stops before it starts."""
    memory: tuple[MemoryPlan, ...]
    """One for each spot."""
    processes: int
    """On each spot."""
    cores: float
    """Of the host, its quota."""
    shape: Shape
    phases: tuple[Phase, ...]
    process_kind: ProcessKind = ProcessKind.COMPUTE


@dataclass(frozen=True, slots=True)
class Scenario:
    """A node with its day."""

    name: str
    seed: int
    slots: tuple[Slot, ...]
    tasks: tuple[Task, ...]
    cores: float
    """Of the host."""
    driver_version: str = "580.95.05"
    faults: tuple[Fault, ...] = ()
