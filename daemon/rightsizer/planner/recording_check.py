"""Comparison of predictions with a recording of the GPUs in use."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from rightsizer.model.device import Device
from rightsizer.model.errors import RecordingError
from rightsizer.model.signal import Signal
from rightsizer.planner.candidate import PlanCandidate
from rightsizer.planner.plan_check import (
    FigureComparison,
    PlanCheck,
    Prediction,
    requirement_as_run,
    share_comparison,
    throughput_comparison,
    unnamed_board,
)
from rightsizer.sizing.load import units_per_token, work_unit
from rightsizer.sizing.requirement import Parallelism, Requirement
from rightsizer.telemetry.source import SnapshotSource

_BETWEEN: Final = Signal.TIME_PER_OUTPUT_TOKEN_SECONDS
_FIRST: Final = Signal.TIME_TO_FIRST_TOKEN_SECONDS
_SHARES: Final = (
    Signal.GPU_BUSY,
    Signal.SM_ACTIVE,
    Signal.TENSOR_ACTIVE,
    Signal.DRAM_ACTIVE,
    Signal.POWER,
    Signal.KV_CACHE_USED,
)
_MEANS: Final = frozenset({Signal.REQUESTS_RUNNING, _BETWEEN, _FIRST, *_SHARES})
_IDLE: Final = 0.5
_MOSTLY_IDLE: Final = (
    "idle for most of the time: the load was below what was planned, or the host slow"
)


@dataclass(slots=True)
class RecordedDevice:
    """One device of a recording."""

    device: Device
    memory_peak_bytes: float | None = None
    _sums: Counter[Signal] = field(default_factory=Counter)
    _counts: Counter[Signal] = field(default_factory=Counter)

    def mean(self, signal: Signal) -> float | None:
        """Return the mean over readings with the signal."""
        count = self._counts[signal]
        return self._sums[signal] / count if count else None

    def add(self, values: Mapping[Signal, float]) -> None:
        """Add one reading."""
        means = {signal: values[signal] for signal in _MEANS & values.keys()}
        self._sums.update(means)
        self._counts.update(means.keys())
        used = values.get(Signal.MEMORY_USED_BYTES)
        total = self.device.memory_total_bytes
        ratio = values.get(Signal.MEMORY_USED)
        if used is None and ratio is not None and total is not None:
            used = ratio * total
        if used is not None:
            self.memory_peak_bytes = max(used, self.memory_peak_bytes or 0.0)


def read_devices(source: SnapshotSource) -> tuple[RecordedDevice, ...]:
    """Return all devices of a recording with readings, in their order."""
    devices: dict[str, RecordedDevice] = {}
    while (snapshot := source.read()) is not None:
        for device in snapshot.devices:
            reading = snapshot.readings.get(device.uuid)
            if reading is not None:
                recorded = devices.setdefault(device.uuid, RecordedDevice(device))
                recorded.device = device
                recorded.add(reading.values)
    return tuple(devices.values())


def compare_recording(prediction: Prediction, devices: Sequence[RecordedDevice]) -> PlanCheck:
    """Compare a recording with a prediction.

    The recorded GPUs form a candidate: their kind, in the layout planned for it if the number of
    GPUs matches, else in tensor parallel over all.

    Raises:
        RecordingError: there are no readings, or the board is unknown.
    """
    if not devices:
        raise RecordingError("the recording has no reading of any device; record for a while")
    name = devices[0].device.name
    if (gpu := prediction.board_of(name)) is None:
        raise RecordingError(f"the recording {unnamed_board(name)}")
    planned = prediction.planned
    layout = planned.layout if len(devices) == planned.count else Parallelism(tensor=len(devices))
    running = _mean(devices, Signal.REQUESTS_RUNNING)
    # Every GPU of an engine reports the whole engine's requests.
    in_flight = None if running is None else max(1.0, running * layout.data)
    as_run = requirement_as_run(prediction.requirement, layout, in_flight)
    candidate = prediction.planner.predicted(as_run, gpu)
    return PlanCheck(candidate, tuple(_recorded(as_run, candidate, devices, in_flight)))


def _recorded(
    requirement: Requirement,
    candidate: PlanCandidate,
    devices: Sequence[RecordedDevice],
    in_flight: float | None,
) -> Iterator[FigureComparison]:
    peaks = [device.memory_peak_bytes for device in devices if device.memory_peak_bytes is not None]
    if peaks:
        serves = not requirement.task.trains
        remark = "an engine that takes memory ahead shows what it took" if serves else ""
        shown = candidate.memory.device or candidate.memory.total
        yield FigureComparison("memory_bytes", "bytes", max(peaks), shown, remark)
    rate = candidate.rate
    between = _mean(devices, _BETWEEN)
    first = _mean(devices, _FIRST)
    if in_flight and between:
        remark = "requests running over the time between tokens"
        model = requirement.model
        throughput = in_flight / between * units_per_token(model, requirement.load)
        yield throughput_comparison(work_unit(model), throughput, rate.units_per_second, remark)
    if between:
        yield FigureComparison("tpot_ms", "ms", between * 1e3, rate.tpot_ms)
    if first:
        yield FigureComparison("ttft_ms", "ms", first * 1e3, rate.ttft_ms)
    limits = {Signal.DRAM_ACTIVE: "bandwidth", Signal.TENSOR_ACTIVE: "compute"}
    for signal in _SHARES:
        share = _mean(devices, signal)
        remark = ""
        if share is None:
            continue
        if signal is Signal.GPU_BUSY and share < _IDLE:
            remark = _MOSTLY_IDLE
        if limits.get(signal, "-") in rate.bound and share < _IDLE:
            remark = f"predicted to be the limit ({rate.bound}), and was not reached"
        yield share_comparison(str(signal), share, remark)


def _mean(devices: Sequence[RecordedDevice], signal: Signal) -> float | None:
    means = [mean for device in devices if (mean := device.mean(signal)) is not None]
    return sum(means) / len(means) if means else None
