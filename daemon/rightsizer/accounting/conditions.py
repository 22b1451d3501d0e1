"""Conditions of a device's time, including the imbalance of a workload's ranks."""

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final, NamedTuple

from rightsizer.accounting.classification_settings import ConditionSettings
from rightsizer.accounting.definitions import CONDITIONS
from rightsizer.accounting.float_interpreter import Values, closed
from rightsizer.accounting.settings import ImbalanceSettings
from rightsizer.accounting.signals import LAYOUTS_KEPT, SignalLayout, StateEvidence
from rightsizer.model.members import members
from rightsizer.model.values import (
    Allocator,
    Condition,
    Device,
    Holding,
    Nanoseconds,
    Signal,
    WorkloadClass,
    nanoseconds,
)
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
        imbalance_parts = [part for part in self.parts if first <= part.number < first + _HALF]
        if (
            not (time := sum(part.times.get(signal, 0) for part in imbalance_parts))
            or time < needed
        ):
            return None
        return sum(part.sums.get(signal, 0.0) for part in imbalance_parts) / time


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
        spread_uuids: list[str] = []
        compared: list[str] = []
        for uuids in jobs.values():
            boards = {self._tracks[uuid].board for uuid in uuids}
            # Boards of different models draw different power for the same work.
            signals = _JUDGED if len(boards) == 1 else (_Signal.GPU_BUSY,)
            spreads = [self._has_spread(signal, uuids, number) for signal in signals]
            if any(spreads):
                spread_uuids += uuids
            if any(spread is not None for spread in spreads):
                compared += uuids
        self._found = frozenset(spread_uuids)
        self._compared = frozenset(compared)

    def _has_spread(self, signal: Signal, uuids: Sequence[str], number: int) -> bool | None:
        """Whether both halves of the window have a spread with the same extreme GPU."""
        ends: list[tuple[str, str]] = []
        for first in (number - _PARTS, number - _HALF):
            track_means = {
                uuid: self._tracks[uuid].mean(signal, first, self._needed) for uuid in uuids
            }
            means = {uuid: mean for uuid, mean in track_means.items() if mean is not None}
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


class ConditionInput(NamedTuple):
    """Facts about a device's interval other than its state."""

    evidence: StateEvidence
    device: Device
    allocator: Allocator = Allocator.UNKNOWN
    link_generation: float | None = None
    """Highest recent generation under load; `None` before sufficient load."""
    is_out_of_balance: bool = False
    """Whether the GPUs of its job do unequal work."""


def conditions(around: ConditionInput, settings: ConditionSettings) -> frozenset[Condition]:
    """Conditions that hold; one with missing signals does not."""
    values = around.evidence.values
    device = around.device
    values["is_preallocated"] = around.allocator is _Allocator.PREALLOCATING
    values["is_out_of_balance"] = around.is_out_of_balance
    values["loaded_link_generation"] = around.link_generation
    values["pcie_generation_stated"] = device.stated("pcie_generation_maximum")
    values["pcie_width_stated"] = device.stated("pcie_width_maximum")
    compiled = _compiled(around.evidence.layout, settings)
    return frozenset([condition for condition, holds in compiled if holds(values)])


@lru_cache(maxsize=LAYOUTS_KEPT)
def _compiled(
    layout: SignalLayout, settings: ConditionSettings
) -> Sequence[tuple[Condition, Callable[[Values], Any]]]:
    compiler = layout.compiler(settings)
    tests = ((condition, compiler.test(claim)) for condition, claim in CONDITIONS)
    return [(condition, closed(test)) for condition, test in tests if test]
