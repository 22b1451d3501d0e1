"""Faults of a scenario: kinds, active times, and accumulated effect per GPU."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any, Final, TypeAlias, TypeVar

from msgspec import Struct, field
from msgspec.structs import replace

from rightsizer.catalogue.board import MigProfile
from rightsizer.model.values import Nanoseconds, Spec, nanoseconds
from rightsizer.simulator.library.calls import NvmlCode

DAY: Final[Nanoseconds] = nanoseconds(86400.0)


class ActivePeriod(Struct, frozen=True):
    """A period of time, once or recurring."""

    begin: Nanoseconds
    """Since midnight if daily, else since the simulation's start."""
    length: Nanoseconds | None = None
    """`None` for the rest of the period, or without an end."""
    period: Nanoseconds | None = None
    """Time from one beginning to the next; `None` for a single one."""
    is_daily: bool = False

    def since(self, time: Nanoseconds, start: Nanoseconds) -> Nanoseconds | None:
        """Return how long it has been active at a time, or `None`.

        `start` is the simulation's start, here and below.
        """
        elapsed = self._elapsed(time, start)
        if elapsed is None or (self.length is not None and elapsed >= self.length):
            return None
        return elapsed

    def begun(self, time: Nanoseconds, start: Nanoseconds) -> int:
        """Number of beginnings since the start, inclusive."""
        if self.is_daily:
            return max(0, (time - self.begin) // DAY - (start - 1 - self.begin) // DAY)
        elapsed = time - start - self.begin
        if elapsed < 0:
            return 0
        return 1 if self.period is None else elapsed // self.period + 1

    def last_begun(self, time: Nanoseconds, start: Nanoseconds) -> Nanoseconds | None:
        """Return the last beginning since the start, or `None`."""
        elapsed = self._elapsed(time, start)
        return time - elapsed if elapsed is not None and self.begun(time, start) else None

    def _elapsed(self, time: Nanoseconds, start: Nanoseconds) -> Nanoseconds | None:
        if self.is_daily:
            return (time - self.begin) % DAY
        elapsed = time - start - self.begin
        if elapsed < 0:
            return None
        return elapsed if self.period is None else elapsed % self.period


def _code(value: object) -> object:
    """Code by its name in lower case."""
    codes = {code.name.lower(): code.value for code in NvmlCode if code}
    if value not in codes:
        raise ValueError(f"must be one of {', '.join(codes)} (got '{value}')")
    return codes[str(value)]


def _function(value: object) -> object:
    if isinstance(value, str) and not value.startswith("nvml"):
        raise ValueError(f"'{value}' is not NVML's; write it like nvmlDeviceGetPowerUsage")
    return value


Code: TypeAlias = Annotated[int, Spec(parse=_code)]
Count: TypeAlias = Annotated[int, Spec(within=(0, 2**31))]
FunctionName: TypeAlias = Annotated[str, Spec(parse=_function)]
_Generation: TypeAlias = Annotated[int | None, Spec(within=(1, 6))]


class FaultEffect:
    """Effect of a fault, while it is active or when it begins."""

    __slots__ = ()


class CallHang(Struct, FaultEffect, frozen=True):
    """Calls hang."""

    function: FunctionName = ""
    """Function of the library; empty for all calls on the GPU."""


class CallFailure(Struct, FaultEffect, frozen=True):
    """Calls return an error code."""

    code: Code = NvmlCode.UNKNOWN
    function: FunctionName = ""


class GpuLoss(Struct, FaultEffect, frozen=True):
    """The GPU falls off the bus."""


class GpuAbsence(Struct, FaultEffect, frozen=True):
    """The GPU is not listed: before it is plugged in, or after it is removed."""


class GpuReplacement(Struct, FaultEffect, frozen=True):
    """Another board is in the slot: the driver gives another uuid and serial."""


class DriverUnload(Struct, FaultEffect, frozen=True):
    """The driver is unloaded; counters restart when it is loaded again."""

    code: Code = NvmlCode.DRIVER_NOT_LOADED


class MigReconfiguration(Struct, FaultEffect, frozen=True):
    """The GPU has other MIG instances than usual."""

    profiles: tuple[MigProfile, ...]
    first_instance: int
    """Number of the first one among the scenario's instances of the GPU, such as 3 in `5/3`."""


class XidReport(Struct, FaultEffect, frozen=True):
    """The driver reports an Xid when the fault begins."""

    code: Annotated[int, Spec(within=(1, 2**31))]


class MemoryErrors(Struct, FaultEffect, frozen=True):
    """Errors are counted when the fault begins; `is_pending` holds while it is active."""

    corrected: Count = 0
    uncorrected: Count = 0
    rows_correctable: Count = 0
    """Rows remapped, or pages retired on boards without row remapping."""
    rows_uncorrectable: Count = 0
    is_pending: bool = field(name="pending", default=False)
    has_failed: bool = field(name="failed", default=False)


class ForcedThrottle(Struct, FaultEffect, frozen=True):
    """Lower clocks; `None` leaves a value unchanged."""

    power_limit_watts: float | None = None
    ambient_celsius: float | None = None
    clock_ratio: float | None = None
    """Ceiling of the SM clock, relative to its maximum."""
    reasons: int = 0
    """Clock event reasons of the ceiling."""


class PcieDegradation(Struct, FaultEffect, frozen=True):
    """A link below its slot's capability; `None` leaves a value unchanged."""

    generation: _Generation = None
    width: Annotated[int | None, Spec(within=(1, 16))] = None
    idle_generation: _Generation = None
    """Applies only while no process holds the GPU, to save power: harmless."""
    replays: Count = 0
    """Counted when the fault begins."""


class NvlinkDegradation(Struct, FaultEffect, frozen=True):
    """Links that are down while it is active, and errors counted when it begins."""

    links: tuple[Annotated[int, Spec(within=(0, 35))], ...] = ()
    is_down: bool = field(name="down", default=False)
    replay_errors: Count = 0
    """On each of the links, like the other counts."""
    recovery_errors: Count = 0
    crc_errors: Count = 0

    def __post_init__(self) -> None:
        if not self.links:
            raise ValueError("is on no link; add 'links: [0]'")


class DeadCounters(Struct, FaultEffect, frozen=True):
    """The profiling counters always read 0."""


class ScenarioFault(Struct, frozen=True):
    """One entry of a scenario's `faults`."""

    window: ActivePeriod
    gpus: tuple[int, ...]
    """By index; empty for `DriverUnload`, which affects all."""
    effect: FaultEffect


_Effect = TypeVar("_Effect", bound=FaultEffect)


class NvlinkErrorCounts(Struct, frozen=True):
    """Error counts of one NVLink."""

    replay: int = 0
    recovery: int = 0
    crc: int = 0

    @property
    def total(self) -> int:
        """Sum of all counts."""
        return self.replay + self.recovery + self.crc


class GpuHealth(Struct, frozen=True):
    """Errors of a GPU up to a time."""

    corrected_errors: int = 0
    uncorrected_errors: int = 0
    rows_correctable: int = 0
    rows_uncorrectable: int = 0
    is_remapping_pending: bool = False
    has_remapping_failed: bool = False
    pcie_replays: int = 0
    links_down: Mapping[int, Nanoseconds] = {}
    """Time since each link is down."""
    link_errors: Mapping[int, NvlinkErrorCounts] = {}

    def since(self, earlier: "GpuHealth") -> "GpuHealth":
        """Return the health with memory errors counted only after an earlier state."""
        if self is earlier:
            return self
        return replace(
            self,
            corrected_errors=self.corrected_errors - earlier.corrected_errors,
            uncorrected_errors=self.uncorrected_errors - earlier.uncorrected_errors,
        )


HEALTHY: Final = GpuHealth()
_ALL_GPUS: Final = -1
"""Replaces a GPU's index."""


class FaultSchedule:
    """Faults of a node by GPU and kind."""

    def __init__(self, faults: Iterable[ScenarioFault], start: Nanoseconds | None = None) -> None:
        self._start = start
        self._by_gpu: dict[tuple[int, type], list[tuple[ActivePeriod, Any]]] = {}
        for fault in faults:
            for gpu in fault.gpus or (_ALL_GPUS,):
                effects = self._by_gpu.setdefault((gpu, type(fault.effect)), [])
                effects.append((fault.window, fault.effect))

    def __bool__(self) -> bool:
        return bool(self._by_gpu)

    def start(self, now: Nanoseconds) -> Nanoseconds:
        """Return the simulation's start; if unknown so far, it is `now`."""
        if self._start is None:
            self._start = now
        return self._start

    def has(self, gpu: int, *kinds: type[FaultEffect]) -> bool:
        """Whether a GPU ever has faults of these kinds."""
        return any((gpu, kind) in self._by_gpu for kind in kinds)

    def effects(self, gpu: int, kind: type[_Effect], time: Nanoseconds) -> Iterator[_Effect]:
        """Yield the active effects of a kind on a GPU."""
        start = self.start(time)
        for window, effect in self._by_gpu.get((gpu, kind), ()):
            if window.since(time, start) is not None:
                yield effect

    def unload(self, time: Nanoseconds) -> DriverUnload | None:
        """Return the active unload of the driver, or `None`."""
        return next(self.effects(_ALL_GPUS, DriverUnload, time), None)

    def loaded_at(self, time: Nanoseconds) -> Nanoseconds:
        """Return when the driver was last loaded, or will be if it is unloaded."""
        start = self.start(time)
        unloads = self._by_gpu.get((_ALL_GPUS, DriverUnload), ())
        begun = ((window.last_begun(time, start), window.length) for window, _ in unloads)
        return max([start, *(at + (length or 0) for at, length in begun if at is not None)])

    def health(self, gpu: int, time: Nanoseconds) -> GpuHealth:
        """Return the errors of a GPU since the start."""
        if not self.has(gpu, MemoryErrors, PcieDegradation, NvlinkDegradation):
            return HEALTHY
        memory = list(self._counted(gpu, MemoryErrors, time))
        held = list(self.effects(gpu, MemoryErrors, time))
        return GpuHealth(
            corrected_errors=sum(n * effect.corrected for n, effect in memory),
            uncorrected_errors=sum(n * effect.uncorrected for n, effect in memory),
            rows_correctable=sum(n * effect.rows_correctable for n, effect in memory),
            rows_uncorrectable=sum(n * effect.rows_uncorrectable for n, effect in memory),
            is_remapping_pending=any(effect.is_pending for effect in held),
            has_remapping_failed=any(effect.has_failed for effect in held),
            pcie_replays=sum(
                n * effect.replays for n, effect in self._counted(gpu, PcieDegradation, time)
            ),
            links_down=self._links_down(gpu, time),
            link_errors=self._link_errors(gpu, time),
        )

    def xids(
        self, gpu: int, after: Nanoseconds, until: Nanoseconds
    ) -> list[tuple[Nanoseconds, int]]:
        """Return the Xids of a GPU after one time and up to another, in order."""
        start = self.start(until)
        xids = []
        for window, effect in self._by_gpu.get((gpu, XidReport), ()):
            begun = window.last_begun(until, start)
            while begun is not None and begun > after:
                xids.append((begun, int(effect.code)))
                begun = window.last_begun(begun - 1, start)
        return sorted(xids)

    def _counted(
        self, gpu: int, kind: type[_Effect], time: Nanoseconds
    ) -> Iterator[tuple[int, _Effect]]:
        start = self.start(time)
        for window, effect in self._by_gpu.get((gpu, kind), ()):
            yield window.begun(time, start), effect

    def _links_down(self, gpu: int, time: Nanoseconds) -> dict[int, Nanoseconds]:
        start = self.start(time)
        down: dict[int, Nanoseconds] = {}
        for window, effect in self._by_gpu.get((gpu, NvlinkDegradation), ()):
            elapsed = window.since(time, start) if effect.is_down else None
            if elapsed is not None:
                for link in effect.links:
                    down[link] = min(time - elapsed, down.get(link, time))
        return down

    def _link_errors(self, gpu: int, time: Nanoseconds) -> dict[int, NvlinkErrorCounts]:
        errors: dict[int, NvlinkErrorCounts] = {}
        for times, effect in self._counted(gpu, NvlinkDegradation, time):
            for link in effect.links:
                before = errors.get(link, NvlinkErrorCounts())
                errors[link] = NvlinkErrorCounts(
                    before.replay + times * effect.replay_errors,
                    before.recovery + times * effect.recovery_errors,
                    before.crc + times * effect.crc_errors,
                )
        return errors
