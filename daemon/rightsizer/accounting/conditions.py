"""Conditions of a device's time, the imbalance of a workload's ranks among them."""

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from rightsizer.accounting.classification_settings import (
    ConditionSettings,
    NetworkSettings,
    NumaPlacementSettings,
)
from rightsizer.accounting.settings import ImbalanceSettings
from rightsizer.accounting.signals import LAYOUTS_KEPT, SignalLayout, highest
from rightsizer.model.device import Device
from rightsizer.model.driver_codes import ClockEvent
from rightsizer.model.frozen import dataclass, field
from rightsizer.model.members import members
from rightsizer.model.signal import PIPES, Signal
from rightsizer.model.state import Condition
from rightsizer.model.units import Nanoseconds, nanoseconds
from rightsizer.model.workload import Allocator, Holding, WorkloadClass
from rightsizer.owners.registry import owner_of

_Signal = members(Signal)
_Allocator = members(Allocator)
_WorkloadClass = members(WorkloadClass)

_PARTS: Final = 10
_HALF: Final = _PARTS // 2
_JUDGED: Final = (Signal.GPU_BUSY, Signal.POWER)
_NO_RANKS: Final = frozenset({WorkloadClass.NOTEBOOK, WorkloadClass.STANDBY})


def job_of(device: Device, holdings: Sequence[Holding]) -> str | None:
    """Of which job's ranks a GPU is one; `None` where it is of none, or that is not known.

    A shared GPU's signals belong to no single job, and slices of GPUs differ in size. Replicas of a
    service are no ranks: in each pod there may be some. A person's GPUs are no job's.
    """
    if device.mig is not None or len(holdings) != 1 or not holdings[0].has_process:
        return None
    workload = holdings[0].workload
    is_job = owner_of(workload.kind).has_single_jobs
    if not is_job or workload.workload_class in _NO_RANKS:
        return None
    if workload.workload_class is _WorkloadClass.BATCH:
        return workload.key
    if workload.pod:
        return f"{workload.key}/{workload.pod}"
    return None if workload.workload_class is _WorkloadClass.SERVING else workload.key


@dataclass(slots=True)
class _ImbalancePart:
    """A tenth of the window: each signal's time, and its sum over that time."""

    number: int
    times: dict[Signal, Nanoseconds] = field(default_factory=dict)
    sums: dict[Signal, float] = field(default_factory=dict)


@dataclass(slots=True)
class _DeviceTrack:
    job: str
    board: str
    parts: deque[_ImbalancePart]

    def mean(self, signal: Signal, first: int, needed: Nanoseconds) -> float | None:
        """Over half of the window; `None` where too little of it is known."""
        found = [part for part in self.parts if first <= part.number < first + _HALF]
        if not (time := sum(part.times.get(signal, 0) for part in found)) or time < needed:
            return None
        return sum(part.sums.get(signal, 0.0) for part in found) / time


class ImbalanceDetector:
    """The jobs of one node. Memory is bounded by the number of GPUs."""

    def __init__(self, settings: ImbalanceSettings | None = None) -> None:
        self._settings = settings or ImbalanceSettings()
        self._length = max(1, nanoseconds(self._settings.window_seconds) // _PARTS)
        self._needed = round(self._settings.coverage_ratio * self._length * _HALF)
        self._tracks: dict[str, _DeviceTrack] = {}
        self._number: int | None = None
        self._found: frozenset[str] = frozenset()
        self._compared: frozenset[str] = frozenset()

    def __len__(self) -> int:
        return len(self._tracks)

    def judge(self, now: Nanoseconds) -> None:
        """Judge all jobs again if a part of the window has ended by now, on the steady clock."""
        if (number := now // self._length) != self._number:
            self._number = number
            self._tracks = {
                uuid: track
                for uuid, track in self._tracks.items()
                if track.parts[-1].number >= number - _PARTS
            }
            self._compare(number)

    def holds(self, uuid: str) -> bool:
        """Whether a GPU belongs to a job that is out of balance."""
        return uuid in self._found

    def compares(self, uuid: str) -> bool:
        """Whether a GPU was compared with others of its job."""
        return uuid in self._compared

    def see(
        self,
        device: Device,
        job: str | None,
        end: Nanoseconds,
        duration: Nanoseconds,
        signals: Mapping[Signal, float],
    ) -> None:
        """Add a stretch of a device of a job (`job_of`); its end is on the steady clock."""
        if job is None:
            return  # Owners may be unseen for a moment; a track without additions expires.
        number = end // self._length
        if (track := self._tracks.get(device.uuid)) is None or track.job != job:
            track = _DeviceTrack(job, device.name, deque(maxlen=_PARTS + 1))
            self._tracks[device.uuid] = track
        if not track.parts or track.parts[-1].number != number:
            track.parts.append(_ImbalancePart(number))
        part = track.parts[-1]
        for signal in _JUDGED:
            if (value := signals.get(signal)) is not None:
                part.times[signal] = part.times.get(signal, 0) + duration
                part.sums[signal] = part.sums.get(signal, 0.0) + value * duration

    def forget(self, present: Iterable[str]) -> None:
        """Keep only the GPUs that are there."""
        for uuid in self._tracks.keys() - set(present):
            del self._tracks[uuid]

    def _compare(self, number: int) -> None:
        jobs: dict[str, list[str]] = {}
        for uuid, track in sorted(self._tracks.items()):
            jobs.setdefault(track.job, []).append(uuid)
        found: list[str] = []
        compared: list[str] = []
        for uuids in jobs.values():
            boards = {self._tracks[uuid].board for uuid in uuids}
            # What a board draws for the same work is a matter of its kind.
            signals = _JUDGED if len(boards) == 1 else (_Signal.GPU_BUSY,)
            spreads = [self._has_spread(signal, uuids, number) for signal in signals]
            if any(spreads):
                found += uuids
            if any(spread is not None for spread in spreads):
                compared += uuids
        self._found, self._compared = frozenset(found), frozenset(compared)

    def _has_spread(self, signal: Signal, uuids: Sequence[str], number: int) -> bool | None:
        """In both halves of the window, with the same GPU at one end; `None` where unknown."""
        ends: list[tuple[str, str]] = []
        for first in (number - _PARTS, number - _HALF):
            found = {uuid: self._tracks[uuid].mean(signal, first, self._needed) for uuid in uuids}
            means = {uuid: mean for uuid, mean in found.items() if mean is not None}
            if len(means) <= 1:
                return None
            lowest, highest = min(means, key=means.__getitem__), max(means, key=means.__getitem__)
            if means[highest] - means[lowest] >= self._settings.spread_ratio:
                ends.append((lowest, highest))
        if len(ends) <= 1:
            return False
        (low, high), (later_low, later_high) = ends
        return low == later_low or high == later_high


def is_numa_misplaced(signals: Mapping[Signal, float], settings: NumaPlacementSettings) -> bool:
    """Whether data takes the way over another NUMA node; `False` where that is not measured.

    That processes may run anywhere is no misplacement: the scheduler knows better. That most of
    their memory is elsewhere, or that they are kept elsewhere, is one, once data moves.
    """
    traffic = highest(signals, _Signal.PCIE_RECEIVE, _Signal.PCIE_TRANSMIT)
    if traffic is None or traffic < settings.traffic_ratio:
        return False
    memory = signals.get(_Signal.HOST_MEMORY_LOCAL)
    cpus = signals.get(_Signal.CPU_AFFINITY_LOCAL)
    return (memory is not None and memory < settings.memory_local_ratio) or (
        cpus is not None and cpus < settings.cpu_local_ratio
    )


def is_network_bound(signals: Mapping[Signal, float], settings: NetworkSettings) -> bool:
    """Whether the nearest InfiniBand or RoCE ports are at their limit while the GPU waits.

    Only a port's rate tells what full is; of other interfaces it is not known, so that nothing is
    claimed of them.
    """
    port = highest(signals, _Signal.INFINIBAND_RECEIVE, _Signal.INFINIBAND_TRANSMIT)
    if port is None or port < settings.port_ratio:
        return False
    if signals.get(_Signal.GPU_BUSY, 0.0) < settings.busy_ratio:
        return False
    # By the best signal: a collective's kernels keep a GPU busy while it waits.
    if (pipes := highest(signals, *PIPES)) is not None:
        dram = signals.get(_Signal.DRAM_ACTIVE, 0.0)
        return pipes < settings.pipe_ratio and dram < settings.dram_ratio
    if (power := signals.get(_Signal.POWER)) is not None:
        return power < settings.power_ratio
    return signals[_Signal.GPU_BUSY] < settings.gap_busy_ratio


class ConditionInput(NamedTuple):
    """What is known of a device for one stretch of time, beside its state."""

    signals: Mapping[Signal, float]
    device: Device
    allocator: Allocator = Allocator.UNKNOWN
    clock_ratio: float = 1.0
    """SM clock over its maximum."""
    link_generation: float | None = None
    """The highest recent one under load; `None` before there was load enough."""
    is_out_of_balance: bool = False
    """Whether the GPUs of its job do unequal work."""


_Test = Callable[[ConditionInput, ConditionSettings], bool]


def conditions(
    around: ConditionInput, layout: SignalLayout, settings: ConditionSettings
) -> frozenset[Condition]:
    """Every condition that holds; one whose signals are missing does not."""
    return frozenset(
        [condition for condition, holds in _possible(layout) if holds(around, settings)]
    )


@lru_cache(maxsize=LAYOUTS_KEPT)
def _possible(layout: SignalLayout) -> Sequence[tuple[Condition, "_Test"]]:
    return [(each, test) for each, test, by in CONDITIONS if not by or by & layout.known]


def _has_clock_event(signals: Mapping[Signal, float], mask: int) -> bool:
    reasons = signals.get(_Signal.CLOCK_EVENT_REASONS)
    return bool(reasons and int(reasons) & mask)


def _throttled_by(mask: int) -> _Test:
    def holds(around: ConditionInput, settings: ConditionSettings) -> bool:
        signals = around.signals
        return (
            _has_clock_event(signals, mask)
            and signals.get(_Signal.GPU_BUSY, 1.0) >= settings.throttle_busy_ratio
            and (
                _Signal.SM_CLOCK_HERTZ not in signals
                or around.clock_ratio < settings.throttle_clock_ratio
            )
        )

    return holds


def _link_degraded(around: ConditionInput, settings: ConditionSettings) -> bool:
    """Against what device and slot allow together; the board alone may promise more."""
    signals, device = around.signals, around.device
    if width_now := signals.get(_Signal.PCIE_LINK_WIDTH):
        width = device.stated("pcie_width_maximum")
        if width and width_now < width:
            return True
    if not (reached := around.link_generation):
        return False
    generation = device.stated("pcie_generation_maximum")
    is_slow = bool(generation and reached < generation)
    return is_slow and signals.get(_Signal.GPU_BUSY, 0.0) >= settings.load_busy_ratio


def _near_out_of_memory(around: ConditionInput, settings: ConditionSettings) -> bool:
    used = around.signals.get(_Signal.MEMORY_USED)
    return (
        around.allocator is not _Allocator.PREALLOCATING
        and used is not None
        and used >= settings.near_out_of_memory_ratio
    )


def _no_tensor_cores(around: ConditionInput, settings: ConditionSettings) -> bool:
    signals = around.signals
    tensor = signals.get(_Signal.TENSOR_ACTIVE)
    return (
        tensor is not None
        and tensor < settings.no_tensor_ratio
        and signals.get(_Signal.SM_ACTIVE, 0.0) >= settings.no_tensor_sm_ratio
        and signals.get(_Signal.FP32_ACTIVE, 0.0) >= settings.no_tensor_fp32_ratio
    )


# Plain numbers: a flag's own operators make members, for each device and second.
_SLOWDOWN: Final = int(ClockEvent.HW_SLOWDOWN | ClockEvent.HW_POWER_BRAKE_SLOWDOWN)
_THERMAL: Final = int(ClockEvent.SW_THERMAL_SLOWDOWN | ClockEvent.HW_THERMAL_SLOWDOWN)
_REASONS: Final = frozenset({Signal.CLOCK_EVENT_REASONS})
_PCIE: Final = frozenset({Signal.PCIE_RECEIVE, Signal.PCIE_TRANSMIT})
_PORTS: Final = frozenset({Signal.INFINIBAND_RECEIVE, Signal.INFINIBAND_TRANSMIT})
CONDITIONS: Final[tuple[tuple[Condition, _Test, frozenset[Signal]], ...]] = (
    (Condition.POWER_THROTTLED, _throttled_by(int(ClockEvent.SW_POWER_CAP)), _REASONS),
    (Condition.THERMAL_THROTTLED, _throttled_by(_THERMAL), _REASONS),
    (Condition.HARDWARE_SLOWDOWN, lambda of, _: _has_clock_event(of.signals, _SLOWDOWN), _REASONS),
    (Condition.PCIE_LINK_DEGRADED, _link_degraded, frozenset()),
    (Condition.NUMA_MISPLACED, lambda of, to: is_numa_misplaced(of.signals, to.placement), _PCIE),
    (Condition.NEAR_OUT_OF_MEMORY, _near_out_of_memory, frozenset({Signal.MEMORY_USED})),
    (Condition.NO_TENSOR_CORES, _no_tensor_cores, frozenset({Signal.TENSOR_ACTIVE})),
    (Condition.RANK_IMBALANCE, lambda of, _: of.is_out_of_balance, frozenset()),
    (Condition.NETWORK_BOUND, lambda of, to: is_network_bound(of.signals, to.network), _PORTS),
)
"""All conditions, each with its test, and signals of which one must be known if any are named."""
