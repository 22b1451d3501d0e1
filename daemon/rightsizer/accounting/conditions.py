"""Conditions of a device's time, including the imbalance of a workload's ranks."""

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
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
    """Job that a GPU is a rank of, or `None` if none or unknown.

    Excluded: a shared GPU, whose signals mix several jobs; MIG slices, which differ in size; and
    a person's GPUs. Replicas of a service are not ranks, but GPUs within a pod may be.
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
    """Tenth of the window: known time and integral of each signal."""

    number: int
    times: dict[Signal, Nanoseconds] = field(default_factory=dict)
    sums: dict[Signal, float] = field(default_factory=dict)


@dataclass(slots=True)
class _DeviceTrack:
    job: str
    board: str
    parts: deque[_ImbalancePart]

    def mean(self, signal: Signal, first: int, needed: Nanoseconds) -> float | None:
        """Mean over half of the window; `None` if too little of it is known."""
        found = [part for part in self.parts if first <= part.number < first + _HALF]
        if not (time := sum(part.times.get(signal, 0) for part in found)) or time < needed:
            return None
        return sum(part.sums.get(signal, 0.0) for part in found) / time


class ImbalanceDetector:
    """Detector of imbalanced jobs on a node. Memory is bounded by the number of GPUs."""

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
        """Compare all jobs again after each part of the window; `now` is monotonic time."""
        if (number := now // self._length) != self._number:
            self._number = number
            self._tracks = {
                uuid: track
                for uuid, track in self._tracks.items()
                if track.parts[-1].number >= number - _PARTS
            }
            self._compare(number)

    def holds(self, uuid: str) -> bool:
        """Whether a GPU belongs to an imbalanced job."""
        return uuid in self._found

    def compares(self, uuid: str) -> bool:
        """Whether a GPU was compared with others of its job."""
        return uuid in self._compared

    def add(
        self,
        device: Device,
        job: str | None,
        end: Nanoseconds,
        duration: Nanoseconds,
        signals: Mapping[Signal, float],
    ) -> None:
        """Add an interval of a device of a job (`job_of`); its end is monotonic time."""
        if job is None:
            return  # Owners may be briefly unknown; a track without additions expires.
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
        """Drop all other GPUs."""
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
            # Boards of different models draw different power for the same work.
            signals = _JUDGED if len(boards) == 1 else (_Signal.GPU_BUSY,)
            spreads = [self._has_spread(signal, uuids, number) for signal in signals]
            if any(spreads):
                found += uuids
            if any(spread is not None for spread in spreads):
                compared += uuids
        self._found = frozenset(found)
        self._compared = frozenset(compared)

    def _has_spread(self, signal: Signal, uuids: Sequence[str], number: int) -> bool | None:
        """Whether both halves of the window have a spread with the same extreme GPU."""
        ends: list[tuple[str, str]] = []
        for first in (number - _PARTS, number - _HALF):
            found = {uuid: self._tracks[uuid].mean(signal, first, self._needed) for uuid in uuids}
            means = {uuid: mean for uuid, mean in found.items() if mean is not None}
            if len(means) <= 1:
                return None
            lowest = min(means, key=means.__getitem__)
            highest = max(means, key=means.__getitem__)
            if means[highest] - means[lowest] >= self._settings.spread_ratio:
                ends.append((lowest, highest))
        if len(ends) <= 1:
            return False
        (low, high), (later_low, later_high) = ends
        return low == later_low or high == later_high


def is_numa_misplaced(signals: Mapping[Signal, float], settings: NumaPlacementSettings) -> bool:
    """Whether traffic crosses NUMA nodes; `False` if not measured.

    Processes free to run anywhere are not misplaced: the scheduler knows better. They are if
    most of their memory, or their CPU affinity, is on another node while data moves.
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

    Limited to ports with a known rate; other interfaces do not report their capacity, so nothing
    is concluded from them.
    """
    port = highest(signals, _Signal.INFINIBAND_RECEIVE, _Signal.INFINIBAND_TRANSMIT)
    if port is None or port < settings.port_ratio:
        return False
    if signals.get(_Signal.GPU_BUSY, 0.0) < settings.busy_ratio:
        return False
    # By the best signal available: a collective's kernels keep a waiting GPU busy.
    if (pipes := highest(signals, *PIPES)) is not None:
        dram = signals.get(_Signal.DRAM_ACTIVE, 0.0)
        return pipes < settings.pipe_ratio and dram < settings.dram_ratio
    if (power := signals.get(_Signal.POWER)) is not None:
        return power < settings.power_ratio
    return signals[_Signal.GPU_BUSY] < settings.gap_busy_ratio


class ConditionInput(NamedTuple):
    """Facts about a device's interval other than its state."""

    signals: Mapping[Signal, float]
    device: Device
    allocator: Allocator = Allocator.UNKNOWN
    clock_ratio: float = 1.0
    """SM clock over its maximum."""
    link_generation: float | None = None
    """Highest recent generation under load; `None` before sufficient load."""
    is_out_of_balance: bool = False
    """Whether the GPUs of its job do unequal work."""


_Test = Callable[[ConditionInput, ConditionSettings], bool]


def conditions(
    around: ConditionInput, layout: SignalLayout, settings: ConditionSettings
) -> frozenset[Condition]:
    """Conditions that hold; one with missing signals does not."""
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
    """Compare with the limit of device and slot; the board alone may promise more."""
    signals = around.signals
    device = around.device
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


# Plain ints: operators of flags create members, for each device and second.
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
"""All conditions with their tests and the signals of which at least one must be known."""
