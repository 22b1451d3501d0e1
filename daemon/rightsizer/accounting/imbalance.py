"""Imbalance among the GPUs of one job: one that lags behind, or one that does all the work."""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from rightsizer.accounting.settings import ImbalanceSettings
from rightsizer.model.device import Device
from rightsizer.model.signal import Signal
from rightsizer.model.units import Nanoseconds, nanoseconds
from rightsizer.model.workload import Holding, Workload, WorkloadClass, WorkloadKind

_PARTS: Final = 10
_HALF: Final = _PARTS // 2
_JUDGED: Final = (Signal.GPU_BUSY, Signal.POWER)
_SEVERAL_JOBS: Final = frozenset({WorkloadKind.USER, WorkloadKind.OTHER})
_NO_RANKS: Final = frozenset({WorkloadClass.NOTEBOOK, WorkloadClass.STANDBY})


def job_of(device: Device, holdings: Sequence[Holding]) -> str | None:
    """Of which job's ranks a GPU is one; `None` where it is none's, or nobody can tell.

    A shared GPU's signals are nobody's alone, and slices of GPUs differ in size. Replicas of a
    service are no ranks: in each pod there may be some. A person's GPUs are no job's.
    """
    if device.mig is not None or len(holdings) != 1 or not holdings[0].has_process:
        return None
    workload = holdings[0].workload
    if workload.kind in _SEVERAL_JOBS or workload.workload_class in _NO_RANKS:
        return None
    return _key(workload)


def _key(workload: Workload) -> str | None:
    if workload.workload_class is WorkloadClass.BATCH:
        return workload.key
    if workload.pod:
        return f"{workload.key}/{workload.pod}"
    return None if workload.workload_class is WorkloadClass.SERVING else workload.key


@dataclass(slots=True)
class _ImbalancePart:
    """A tenth of the window: each signal's time, and its sum over that time."""

    number: int
    times: dict[Signal, Nanoseconds] = field(default_factory=dict)
    sums: dict[Signal, float] = field(default_factory=dict)


@dataclass(slots=True)
class _DeviceTrack:
    """What is kept of one GPU while it belongs to one job."""

    job: str
    board: str
    parts: deque[_ImbalancePart]

    def is_old(self, number: int) -> bool:
        """Whether all of it was before the window that ends with a part."""
        return self.parts[-1].number < number - _PARTS

    def mean(self, signal: Signal, first: int, needed: Nanoseconds) -> float | None:
        """Over half of the window; `None` where too little of it is known."""
        found = [part for part in self.parts if first <= part.number < first + _HALF]
        time = sum(part.times.get(signal, 0) for part in found)
        if not time or time < needed:
            return None
        return sum(part.sums.get(signal, 0.0) for part in found) / time


class ImbalanceDetector:
    """The jobs of one node. Memory is bounded by the number of GPUs."""

    def __init__(self, settings: ImbalanceSettings | None = None) -> None:
        """Nothing seen yet."""
        self._settings = settings or ImbalanceSettings()
        self._length = max(1, nanoseconds(self._settings.window_seconds) // _PARTS)
        self._needed = round(self._settings.coverage_ratio * self._length * _HALF)
        self._tracks: dict[str, _DeviceTrack] = {}
        self._number: int | None = None
        self._found: frozenset[str] = frozenset()

    def __len__(self) -> int:
        """How many GPUs are kept in mind."""
        return len(self._tracks)

    def judge(self, now: Nanoseconds) -> None:
        """Judge all jobs anew if a part of the window has ended.

        Args:
            now: On the source's steady clock.
        """
        number = now // self._length
        if number != self._number:
            self._number = number
            for uuid in [each for each, track in self._tracks.items() if track.is_old(number)]:
                del self._tracks[uuid]
            self._found = frozenset(self._unbalanced(number))

    def holds(self, uuid: str) -> bool:
        """Whether a GPU belongs to a job that is out of balance."""
        return uuid in self._found

    def see(
        self,
        device: Device,
        job: str | None,
        end: Nanoseconds,
        duration: Nanoseconds,
        signals: Mapping[Signal, float],
    ) -> None:
        """Take note of a stretch.

        Args:
            device: Whose it is.
            job: As `job_of` says.
            end: On the source's steady clock.
            duration: How long it is.
            signals: All signals of the stretch.
        """
        if job is None:
            return  # Owners may be unseen for a moment; what nobody adds to grows old.
        number = end // self._length
        track = self._tracks.get(device.uuid)
        if track is None or track.job != job:
            track = _DeviceTrack(
                job, device.name, deque([_ImbalancePart(number)], maxlen=_PARTS + 1)
            )
            self._tracks[device.uuid] = track
        if track.parts[-1].number != number:
            track.parts.append(_ImbalancePart(number))
        part = track.parts[-1]
        for signal in _JUDGED:
            value = signals.get(signal)
            if value is not None:
                part.times[signal] = part.times.get(signal, 0) + duration
                part.sums[signal] = part.sums.get(signal, 0.0) + value * duration

    def forget(self, present: Iterable[str]) -> None:
        """Keep only the GPUs that are there."""
        for uuid in self._tracks.keys() - set(present):
            del self._tracks[uuid]

    def _unbalanced(self, number: int) -> list[str]:
        jobs: dict[str, list[str]] = {}
        for uuid, track in sorted(self._tracks.items()):
            jobs.setdefault(track.job, []).append(uuid)
        return [
            uuid
            for uuids in jobs.values()
            if len(uuids) > 1 and self._is_unbalanced(uuids, number)
            for uuid in uuids
        ]

    def _is_unbalanced(self, uuids: Sequence[str], number: int) -> bool:
        boards = {self._tracks[uuid].board for uuid in uuids}
        # What a board draws for the same work is a matter of its kind.
        signals = _JUDGED if len(boards) == 1 else (Signal.GPU_BUSY,)
        return any(self._has_spread(signal, uuids, number) for signal in signals)

    def _has_spread(self, signal: Signal, uuids: Sequence[str], number: int) -> bool:
        ends: list[tuple[str, str]] = []
        for first in (number - _PARTS, number - _HALF):
            means = {
                uuid: mean
                for uuid in uuids
                if (mean := self._tracks[uuid].mean(signal, first, self._needed)) is not None
            }
            if len(means) <= 1:
                return False
            lowest, highest = min(means, key=means.__getitem__), max(means, key=means.__getitem__)
            if means[highest] - means[lowest] < self._settings.spread_ratio:
                return False
            ends.append((lowest, highest))
        (low, high), (later_low, later_high) = ends
        return low == later_low or high == later_high
