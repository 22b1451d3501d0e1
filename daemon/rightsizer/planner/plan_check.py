"""PlanCheck: predictions beside what a recording measured."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from rightsizer.model.device import Device
from rightsizer.model.errors import RecordingError
from rightsizer.model.signal import Signal
from rightsizer.planner.candidate import PlanCandidate
from rightsizer.planner.planner import Planner
from rightsizer.sizing.estimate import EstimateInterval
from rightsizer.sizing.requirement import Parallelism, Requirement
from rightsizer.telemetry.source import SnapshotSource

_MEANS: Final = (
    Signal.REQUESTS_RUNNING,
    Signal.TIME_PER_OUTPUT_TOKEN_SECONDS,
    Signal.TIME_TO_FIRST_TOKEN_SECONDS,
    Signal.GPU_BUSY,
    Signal.SM_ACTIVE,
    Signal.TENSOR_ACTIVE,
    Signal.DRAM_ACTIVE,
    Signal.POWER,
    Signal.KV_CACHE_USED,
)


@dataclass(slots=True)
class RecordedDevice:
    """One device of a recording."""

    device: Device
    readings: int = 0
    memory_peak_bytes: float | None = None
    _sums: dict[Signal, float] = field(default_factory=dict)
    _counts: dict[Signal, int] = field(default_factory=dict)

    @property
    def means(self) -> Mapping[Signal, float]:
        """Over the readings that have the signal."""
        return {signal: total / self._counts[signal] for signal, total in self._sums.items()}

    def add(self, values: Mapping[Signal, float]) -> None:
        """Count one reading."""
        self.readings += 1
        for signal in _MEANS:
            value = values.get(signal)
            if value is not None:
                self._sums[signal] = self._sums.get(signal, 0.0) + value
                self._counts[signal] = self._counts.get(signal, 0) + 1
        used = self._memory_bytes(values)
        if used is not None:
            self.memory_peak_bytes = max(used, self.memory_peak_bytes or 0.0)

    def _memory_bytes(self, values: Mapping[Signal, float]) -> float | None:
        used = values.get(Signal.MEMORY_USED_BYTES)
        if used is not None:
            return used
        ratio, total = values.get(Signal.MEMORY_USED), self.device.memory_total_bytes
        return None if ratio is None or total is None else ratio * total


def read_devices(source: SnapshotSource) -> tuple[RecordedDevice, ...]:
    """Every device of a recording that was read at all, in their order."""
    found: dict[str, RecordedDevice] = {}
    while (snapshot := source.read()) is not None:
        for device in snapshot.devices:
            reading = snapshot.readings.get(device.uuid)
            if reading is not None:
                recorded = found.setdefault(device.uuid, RecordedDevice(device))
                recorded.device = device
                recorded.add(reading.values)
    return tuple(found.values())


_SHARES: Final = (
    Signal.GPU_BUSY,
    Signal.SM_ACTIVE,
    Signal.TENSOR_ACTIVE,
    Signal.DRAM_ACTIVE,
    Signal.POWER,
    Signal.KV_CACHE_USED,
)
_IDLE: Final = 0.5


@dataclass(frozen=True, slots=True)
class FigureComparison:
    """One figure, predicted and measured."""

    what: str
    unit: str
    measured: float
    predicted: EstimateInterval | None
    remark: str = ""
    is_quantile: bool = False
    """Of many requests, where the prediction is of their mean: being above it is not being off."""

    @property
    def ratio(self) -> float | None:
        """Measured over predicted."""
        if self.predicted is None or not self.predicted.value:
            return None
        return self.measured / self.predicted.value

    @property
    def is_as_predicted(self) -> bool | None:
        """Whether it lies where it was said to; `None` where nothing was said."""
        if self.predicted is None:
            return None
        if self.is_quantile and self.measured > self.predicted.high:
            return None
        return self.predicted.low <= self.measured <= self.predicted.high


@dataclass(frozen=True, slots=True)
class PlanCheck:
    """A recording beside the candidate that ran in it."""

    candidate: PlanCandidate
    """Predicted anew, at the requests in flight that were measured."""
    comparisons: tuple[FigureComparison, ...]


def compare_recording(
    requirement: Requirement,
    planner: Planner,
    planned: PlanCandidate,
    devices: Sequence[RecordedDevice],
) -> PlanCheck:
    """What a recording says of a prediction.

    The GPUs of the recording are taken for a candidate: its kind, in the layout planned for that
    kind where it has as many GPUs, else in tensor parallel over them all.

    Raises:
        RecordingError: nothing was read of any device.
    """
    if not devices:
        raise RecordingError("the recording has no reading of any device; record for a while")
    name = devices[0].device.name
    board = planner.catalogue.find(name) if name else None
    gpu = planned.gpu if board is None else board.key
    layout = planned.layout if len(devices) == planned.count else Parallelism(tensor=len(devices))
    running = _mean(devices, Signal.REQUESTS_RUNNING)
    # Every GPU of an engine tells the whole engine's requests.
    in_flight = None if running is None else max(1.0, running * layout.data)
    load = requirement.load
    asked = replace(
        requirement, parallel=layout, load=replace(load, concurrency=in_flight or load.concurrency)
    )
    candidate = planner.predicted(asked, gpu)
    return PlanCheck(candidate, tuple(_comparisons(asked, candidate, devices, in_flight)))


def _comparisons(
    requirement: Requirement,
    candidate: PlanCandidate,
    devices: Sequence[RecordedDevice],
    in_flight: float | None,
) -> Iterator[FigureComparison]:
    yield from _memory(candidate, devices, serves=not requirement.task.trains)
    rate = candidate.rate
    between = _mean(devices, Signal.TIME_PER_OUTPUT_TOKEN_SECONDS)
    first = _mean(devices, Signal.TIME_TO_FIRST_TOKEN_SECONDS)
    if in_flight and between:
        yield FigureComparison(
            "tokens_per_second",
            "tokens/s",
            in_flight / between,
            rate.tokens_per_second,
            "requests running over the time between tokens",
        )
    if between:
        yield FigureComparison("tpot_ms", "ms", between * 1e3, rate.tpot_ms)
    if first:
        yield FigureComparison("ttft_ms", "ms", first * 1e3, rate.ttft_ms)
    for signal in _SHARES:
        share = _mean(devices, signal)
        if share is not None:
            yield FigureComparison(
                str(signal), "ratio", share, None, _remark(signal, share, rate.bound)
            )


def _memory(
    candidate: PlanCandidate, devices: Sequence[RecordedDevice], *, serves: bool
) -> Iterator[FigureComparison]:
    peaks = [each.memory_peak_bytes for each in devices if each.memory_peak_bytes is not None]
    if peaks:
        remark = "an engine that takes memory ahead shows what it took" if serves else ""
        yield FigureComparison("memory_bytes", "bytes", max(peaks), candidate.memory.total, remark)


def _mean(devices: Sequence[RecordedDevice], signal: Signal) -> float | None:
    means = [each.means[signal] for each in devices if signal in each.means]
    return sum(means) / len(means) if means else None


def _remark(signal: Signal, share: float, bound: str) -> str:
    if signal is Signal.GPU_BUSY and share < _IDLE:
        return "idle for most of the time: the load was below what was planned, or the host slow"
    limits = {Signal.DRAM_ACTIVE: "bandwidth", Signal.TENSOR_ACTIVE: "compute"}
    if limits.get(signal, "-") in bound and share < _IDLE:
        return f"predicted to be the limit ({bound}), and was not reached"
    return ""
