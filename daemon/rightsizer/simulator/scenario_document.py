"""Contents of a scenario's file; what depends on boards is checked by its readers."""

from collections.abc import Mapping
from math import isnan, nan
from typing import Annotated, Final, TypeAlias

from msgspec import Struct, defstruct, field
from msgspec.structs import fields, force_setattr

from rightsizer.model.values import (
    DAY_SECONDS,
    Allocator,
    ClockEvent,
    Condition,
    Kinds,
    ProcessKind,
    Spec,
    State,
    WorkloadClass,
    WorkloadKind,
    parse_duration,
)
from rightsizer.owners.registry import KINDS
from rightsizer.simulator.activity import KernelActivity
from rightsizer.simulator.faults import (
    CallFailure,
    CallHang,
    DeadCounters,
    DriverUnload,
    GpuAbsence,
    GpuLoss,
    GpuReplacement,
    MemoryErrors,
    NvlinkDegradation,
    PcieDegradation,
    XidReport,
)
from rightsizer.simulator.scenario import (
    BurstyLoad,
    ConstantLoad,
    DiurnalLoad,
    HostLoad,
    LoadShape,
    ScenarioEngine,
    time_of_day,
)

MOST_GPUS: Final = 64
_MOST: Final = 2**31
REASONS: Final[Mapping[str, ClockEvent]] = {
    "power": ClockEvent.SW_POWER_CAP,
    "thermal": ClockEvent.SW_THERMAL_SLOWDOWN,
    "hardware_thermal": ClockEvent.HW_SLOWDOWN | ClockEvent.HW_THERMAL_SLOWDOWN,
    "power_brake": ClockEvent.HW_SLOWDOWN | ClockEvent.HW_POWER_BRAKE_SLOWDOWN,
    "sync_boost": ClockEvent.SYNC_BOOST,
}
"""Clock event reasons by their words in a file."""


class RuleError(ValueError):
    """Value that contradicts the boards of its scenario."""

    def __init__(self, path: tuple[str | int, ...], message: str) -> None:
        super().__init__(message)
        self.path = path
        """Of the value in the file."""


def _seconds(value: object) -> object:
    return parse_duration(value) if isinstance(value, str) else value


def _listed(value: object) -> object:
    return value if isinstance(value, list) else [value]


TimeOfDay: TypeAlias = Annotated[float, Spec(unit="", parse=time_of_day)]
Seconds: TypeAlias = Annotated[float, Spec(unit="", within=(1.0, None), parse=_seconds)]


class FirstAndLast(Struct, frozen=True, array_like=True):
    """Value at the start of a workload, and at its stop; one alone is both."""

    first: float
    last: float = nan

    def __post_init__(self) -> None:
        if isnan(self.last):
            force_setattr(self, "last", self.first)


class TimesOfDay(Struct, frozen=True, array_like=True):
    """Part of every day."""

    start: TimeOfDay
    stop: TimeOfDay


MemoryStates: TypeAlias = Annotated[FirstAndLast, Spec(unit="", within=(0.0, None), parse=_listed)]


class BoardsEntry(Struct, frozen=True):
    """GPUs of one board."""

    board: str
    count: Annotated[int, Spec(within=(1, MOST_GPUS))] = 1
    mig: tuple[str, ...] = ()
    power_limit_watts: float | None = None
    ambient_celsius: Annotated[float, Spec(within=(5.0, 70.0))] = 28.0
    pcie_generation: int | None = None
    pcie_width: int | None = None
    persistence: bool = True


class PhaseEntry(Struct, frozen=True):
    """Phase of a workload."""

    activity: str
    state: State
    seconds: Annotated[float, Spec(unit="", within=(1.0, DAY_SECONDS))] = 3600.0
    jitter_ratio: float = 0.0
    host: Annotated[HostLoad, Spec(within=(0.0, 1.0))] = HostLoad()
    conditions: tuple[Condition, ...] = ()
    between: TimesOfDay | None = None
    follows_load: bool = True


class WorkloadEntry(Struct, frozen=True):
    """Workload on some GPUs or instances."""

    name: str
    kind: Annotated[str, Spec(words=KINDS)] = WorkloadKind.SIMULATED
    class_: WorkloadClass = WorkloadClass.UNKNOWN
    allocator: Allocator = Allocator.UNKNOWN
    namespace: str = ""
    pod: str = ""
    gpus: tuple[int, ...] = ()
    instances: tuple[str, ...] = ()
    start: TimeOfDay = 0.0
    stop: TimeOfDay = DAY_SECONDS
    memory_gib: MemoryStates | None = None
    memory_ratio: MemoryStates | None = None
    processes: Annotated[int, Spec(within=(1, 64))] = 1
    cores: Annotated[float, Spec(within=(0.1, 1024.0))] = 8.0
    load: Annotated[
        LoadShape,
        Spec(
            kinds=Kinds(
                "shape",
                {"constant": ConstantLoad, "bursty": BurstyLoad, "diurnal": DiurnalLoad},
                "constant",
            )
        ),
    ] = ConstantLoad()
    phases: tuple[PhaseEntry, ...] = ()
    process_kind: ProcessKind = ProcessKind.COMPUTE
    engine: ScenarioEngine | None = None

    def __post_init__(self) -> None:
        if not self.gpus and not self.instances:
            raise ValueError("holds nothing; add 'gpus: [0]' or 'instances: [\"0/0\"]'")
        if (self.memory_gib is None) == (self.memory_ratio is None):
            fault = "needs either 'memory_gib' or 'memory_ratio', of each device it holds"
            raise ValueError(fault)
        if all(phase.between is not None for phase in self.phases):
            fault = "needs a phase without 'between' to fill the rest of its time"
            raise ValueError(f"phases: {fault}")


class FaultEntry(Struct, frozen=True):
    """Fault of some GPUs at a time; what it does is added by its kind."""

    gpus: tuple[int, ...] = ()
    at: TimeOfDay | None = None
    after: Annotated[float | None, Spec(unit="", within=(0.0, None), parse=_seconds)] = None
    every: Seconds | None = None
    for_: Seconds | None = None
    xid: Annotated[int | None, Spec(within=(0, _MOST))] = None

    def __post_init__(self) -> None:
        if (self.at is None) == (self.after is None):
            fault = "needs either 'at', a time of every day, or 'after', since the start"
            raise ValueError(f"{fault}: 'after: 90s'")
        if self.at is not None and self.every is not None:
            raise ValueError("every: 'at' comes every day; for another period write 'after'")
        if self.every is not None and self.for_ is not None and self.for_ >= self.every:
            raise ValueError("for: lasts longer than its period; make 'for' shorter than 'every'")


class MigCut(Struct, frozen=True):
    """Other MIG instances, by the names of their profiles."""

    profiles: tuple[str, ...] = ()


class ThrottleCause(Struct, frozen=True):
    """Cause of lower clocks: a power limit, heat, or else a ceiling."""

    reason: Annotated[str, Spec(words=tuple(REASONS))]
    power_limit_watts: float | None = None
    ambient_celsius: Annotated[float | None, Spec(within=(5.0, 80.0))] = None
    clock_ratio: Annotated[float, Spec(within=(0.15, 1.0))] = 0.5


EFFECTS: Final[Mapping[str, type[Struct]]] = {
    "hang": CallHang,
    "answer": CallFailure,
    "loss": GpuLoss,
    "absence": GpuAbsence,
    "replacement": GpuReplacement,
    "unload": DriverUnload,
    "mig": MigCut,
    "xid": XidReport,
    "ecc": MemoryErrors,
    "throttle": ThrottleCause,
    "pcie": PcieDegradation,
    "nvlink": NvlinkDegradation,
    "dead_counters": DeadCounters,
}
"""What a fault does, by its kind."""


def _entry_class(kind: str, effect: type[Struct]) -> type:
    """Entry of a fault with the keys of its effect."""
    parts = [
        (
            part.name,
            part.type,
            field(name=part.encode_name, default=part.default),
        )
        for part in fields(effect)
    ]
    name = f"{kind}_fault"
    return defstruct(name, parts, bases=(FaultEntry,), module=__name__, frozen=True, kw_only=True)


_ENTRIES: Final = {kind: _entry_class(kind, effect) for kind, effect in EFFECTS.items()}
EFFECT_OF: Final = {entry: EFFECTS[kind] for kind, entry in _ENTRIES.items()}
"""Effects by the classes of their entries."""


class ScenarioDocument(Struct, frozen=True):
    """Contents of the file."""

    name: str
    seed: Annotated[int, Spec(within=(0, _MOST))] = 1
    cores: Annotated[float, Spec(within=(1.0, 4096.0))] = 112.0
    driver_version: str = "580.95.05"
    activities: Mapping[str, Annotated[KernelActivity, Spec(within=(0.0, 1.0))]] = {}
    boards: tuple[BoardsEntry, ...] = ()
    workloads: tuple[WorkloadEntry, ...] = ()
    faults: tuple[Annotated[FaultEntry, Spec(kinds=Kinds("kind", _ENTRIES))], ...] = ()

    def __post_init__(self) -> None:
        if not self.boards:
            remedy = "add 'boards: [{board: L4, count: 1}]'"
            raise ValueError(f"a scenario needs at least one board; {remedy}")


class ActivitiesDocument(Struct, frozen=True):
    """Packaged activities, under the key that scenarios have for their own."""

    activities: Mapping[str, Annotated[KernelActivity, Spec(within=(0.0, 1.0))]]
