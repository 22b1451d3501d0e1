"""What a run measured beside what was planned: where the prediction was off, and what follows."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from rightsizer.domain.errors import RecordingError
from rightsizer.domain.signal import Signal
from rightsizer.runtime.plan_recording import RecordedDevice
from rightsizer.sizing.candidates import Candidate
from rightsizer.sizing.estimate import Interval
from rightsizer.sizing.planner import Planner
from rightsizer.sizing.requirement import Parallelism, Requirement

__all__ = ["Comparison", "Measured", "compare_measured"]

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
class Comparison:
    """One figure, predicted and measured."""

    what: str
    unit: str
    measured: float
    predicted: Interval | None
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
class Measured:
    """A recording beside the candidate that ran in it."""

    candidate: Candidate
    """Predicted anew, at the requests in flight that were measured."""
    comparisons: tuple[Comparison, ...]


def compare_measured(
    requirement: Requirement,
    planner: Planner,
    planned: Candidate,
    devices: Sequence[RecordedDevice],
) -> Measured:
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
        requirement,
        parallel=layout,
        load=replace(load, concurrency=in_flight or load.concurrency),
    )
    candidate = planner.predicted(asked, gpu)
    return Measured(candidate, tuple(_comparisons(asked, candidate, devices, in_flight)))


def _comparisons(
    requirement: Requirement,
    candidate: Candidate,
    devices: Sequence[RecordedDevice],
    in_flight: float | None,
) -> Iterator[Comparison]:
    yield from _memory(candidate, devices, serves=not requirement.task.trains)
    rate = candidate.rate
    between = _mean(devices, Signal.TIME_PER_OUTPUT_TOKEN_SECONDS)
    first = _mean(devices, Signal.TIME_TO_FIRST_TOKEN_SECONDS)
    if in_flight and between:
        yield Comparison(
            "tokens_per_second",
            "tokens/s",
            in_flight / between,
            rate.tokens_per_second,
            "requests running over the time between tokens",
        )
    if between:
        yield Comparison("tpot_ms", "ms", between * 1e3, rate.tpot_ms)
    if first:
        yield Comparison("ttft_ms", "ms", first * 1e3, rate.ttft_ms)
    for signal in _SHARES:
        share = _mean(devices, signal)
        if share is not None:
            yield Comparison(str(signal), "ratio", share, None, _remark(signal, share, rate.bound))


def _memory(
    candidate: Candidate, devices: Sequence[RecordedDevice], *, serves: bool
) -> Iterator[Comparison]:
    peaks = [each.memory_peak_bytes for each in devices if each.memory_peak_bytes is not None]
    if peaks:
        remark = "an engine that takes memory ahead shows what it took" if serves else ""
        yield Comparison("memory_bytes", "bytes", max(peaks), candidate.memory.total, remark)


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
