"""PlanCheck: predictions compared with a recording, an MLPerf log or a profiler's trace."""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from rightsizer.model.device import Device
from rightsizer.model.errors import ProfileError, RecordingError
from rightsizer.model.frozen import dataclass, field, replace
from rightsizer.model.profile import BenchmarkResult, Profile, ProfileFormat
from rightsizer.model.signal import Signal
from rightsizer.model.units import GIB, HOUR_SECONDS
from rightsizer.planner.candidate import PlanCandidate
from rightsizer.planner.planner import Planner
from rightsizer.sizing.estimate import EstimateInterval
from rightsizer.sizing.models import Transformer
from rightsizer.sizing.requirement import (
    Parallelism,
    Requirement,
    WorkUnit,
    units_per_request,
    units_per_token,
    work_unit,
)
from rightsizer.sizing.workload_profile import ProfiledRun
from rightsizer.telemetry.source import SnapshotSource

_BETWEEN: Final = Signal.TIME_PER_OUTPUT_TOKEN_SECONDS
_FIRST: Final = Signal.TIME_TO_FIRST_TOKEN_SECONDS
_SHARES: Final = (
    *(Signal.GPU_BUSY, Signal.SM_ACTIVE, Signal.TENSOR_ACTIVE, Signal.DRAM_ACTIVE),
    *(Signal.POWER, Signal.KV_CACHE_USED),
)
_MEANS: Final = frozenset({Signal.REQUESTS_RUNNING, _BETWEEN, _FIRST, *_SHARES})
_RESULTS: Final = (
    *("samples_per_second", "tokens_per_second", "latency_mean_seconds", "latency_p90_seconds"),
    "time_to_train_seconds",
)
_IDLE: Final = 0.5
_MOSTLY_IDLE: Final = (
    "idle for most of the time: the load was below what was planned, or the host slow"
)
_QUANTILE: Final = "a quantile over all requests; the prediction is of the mean"
_MUCH: Final = 0.3
"""Share of time beyond which a wait or communication explains most of the deviation."""


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
        known = {signal: values[signal] for signal in _MEANS & values.keys()}
        self._sums.update(known)
        self._counts.update(known.keys())
        used, total = values.get(Signal.MEMORY_USED_BYTES), self.device.memory_total_bytes
        ratio = values.get(Signal.MEMORY_USED)
        if used is None and ratio is not None and total is not None:
            used = ratio * total
        if used is not None:
            self.memory_peak_bytes = max(used, self.memory_peak_bytes or 0.0)


def read_devices(source: SnapshotSource) -> tuple[RecordedDevice, ...]:
    """Return all devices of a recording with readings, in their order."""
    found: dict[str, RecordedDevice] = {}
    while (snapshot := source.read()) is not None:
        for device in snapshot.devices:
            reading = snapshot.readings.get(device.uuid)
            if reading is not None:
                recorded = found.setdefault(device.uuid, RecordedDevice(device))
                recorded.device = device
                recorded.add(reading.values)
    return tuple(found.values())


@dataclass(frozen=True, slots=True)
class FigureComparison:
    """One figure, predicted and measured."""

    what: str
    unit: str
    measured: float
    predicted: EstimateInterval | None
    remark: str = ""
    is_quantile: bool = False
    """Over many requests, while the prediction is their mean: exceeding it is no deviation."""

    @property
    def ratio(self) -> float | None:
        """Measured over predicted."""
        if self.predicted is None or not self.predicted.value:
            return None
        return self.measured / self.predicted.value

    @property
    def is_as_predicted(self) -> bool | None:
        """Whether it is within the interval; `None` without a prediction."""
        if self.predicted is None:
            return None
        if self.is_quantile and self.measured > self.predicted.high:
            return None
        return self.predicted.low <= self.measured <= self.predicted.high


@dataclass(frozen=True, slots=True)
class Prediction:
    """Candidate with which a run is compared."""

    requirement: Requirement
    planner: Planner
    planned: PlanCandidate
    board: str | None = None
    """Key of the board that was used, if its files do not name it."""
    states_sequence: bool = False
    """Whether the plan states the tokens of a training sample, which no log has."""

    def board_of(self, name: str | None) -> str | None:
        """Return the key of the board that was used; `None` if unknown.

        As named in the files, else as stated; if neither, the only board requested by the plan.
        """
        found = self.planner.catalogue.find(name) if name else None
        if found is not None:
            return found.key
        is_alone = not name and len(self.requirement.gpus) == 1
        return self.board or (self.planned.gpu if is_alone else None)


@dataclass(frozen=True, slots=True)
class PlanCheck:
    """A run compared with its candidate."""

    candidate: PlanCandidate
    """Predicted again, with the measured requests in flight."""
    comparisons: tuple[FigureComparison, ...]


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
    as_run = _running(prediction.requirement, layout, in_flight)
    candidate = prediction.planner.predicted(as_run, gpu)
    return PlanCheck(candidate, tuple(_recorded(as_run, candidate, devices, in_flight)))


def unnamed_board(name: str | None) -> str:
    """Explain why nothing can be compared, with the remedy."""
    why = f"is of '{name}', which is not in the catalogue" if name else "does not name its GPU"
    return f"{why}; name the board that it is with --board"


def _running(requirement: Requirement, layout: Parallelism, in_flight: float | None) -> Requirement:
    """Return the requirement with the measured layout and requests in flight."""
    load = requirement.load
    load = replace(load, concurrency=in_flight or load.concurrency)
    return replace(requirement, parallel=layout, load=load)


def _recorded(
    requirement: Requirement,
    candidate: PlanCandidate,
    devices: Sequence[RecordedDevice],
    in_flight: float | None,
) -> Iterator[FigureComparison]:
    peaks = [each.memory_peak_bytes for each in devices if each.memory_peak_bytes is not None]
    if peaks:
        serves = not requirement.task.trains
        remark = "an engine that takes memory ahead shows what it took" if serves else ""
        yield FigureComparison("memory_bytes", "bytes", max(peaks), candidate.memory.total, remark)
    rate = candidate.rate
    between, first = _mean(devices, _BETWEEN), _mean(devices, _FIRST)
    if in_flight and between:
        remark, model = "requests running over the time between tokens", requirement.model
        throughput = in_flight / between * units_per_token(model, requirement.load)
        yield _speed(work_unit(model), throughput, rate.tokens_per_second, remark)
    if between:
        yield FigureComparison("tpot_ms", "ms", between * 1e3, rate.tpot_ms)
    if first:
        yield FigureComparison("ttft_ms", "ms", first * 1e3, rate.ttft_ms)
    limits = {Signal.DRAM_ACTIVE: "bandwidth", Signal.TENSOR_ACTIVE: "compute"}
    for signal in _SHARES:
        share, remark = _mean(devices, signal), ""
        if share is None:
            continue
        if signal is Signal.GPU_BUSY and share < _IDLE:
            remark = _MOSTLY_IDLE
        if limits.get(signal, "-") in rate.bound and share < _IDLE:
            remark = f"predicted to be the limit ({rate.bound}), and was not reached"
        yield _share(str(signal), share, remark)


def _mean(devices: Sequence[RecordedDevice], signal: Signal) -> float | None:
    means = [mean for each in devices if (mean := each.mean(signal)) is not None]
    return sum(means) / len(means) if means else None


def _speed(
    unit: str, speed: float, predicted: EstimateInterval | None, remark: str = ""
) -> FigureComparison:
    return FigureComparison(f"{unit}_per_second", f"{unit}/s", speed, predicted, remark)


def _share(what: str, share: float, remark: str = "") -> FigureComparison:
    return FigureComparison(what, "ratio", share, None, remark)


def compare_benchmark(prediction: Prediction, profile: Profile) -> PlanCheck:
    """Compare an MLPerf result with a prediction.

    Training is predicted again for the number of GPUs in the log. Requests in flight are those of
    the scenario; for `Server`, by Little's law.

    Raises:
        ProfileError: there is no result, or it is invalid or of another task; or board, number of
        GPUs or tokens are unknown.
    """
    result = profile.benchmark
    if result is None:
        raise ProfileError(f"{profile.source}: is no log of a benchmark; give a trace or a log")
    requirement, planned = prediction.requirement, prediction.planned
    figures, is_training = result.figures, profile.format is ProfileFormat.MLPERF_TRAINING
    fault = ""
    if is_training != requirement.task.trains:
        ran, asks = ("training", "serving") if is_training else ("serving", "training")
        fault = f"a result of {ran}, and the plan is of {asks}; set `task` as it ran"
    elif result.is_valid is False:
        fault = "the run is invalid by its own log; measure again until it is valid"
    elif figures.keys().isdisjoint(_RESULTS):
        fault = "holds no result (an accuracy run, or one that did not end); give the performance"
        fault += " run's folder"
    gpu = prediction.board_of(result.device_name)
    if not fault and gpu is None:
        fault = unnamed_board(result.device_name)
    if not fault and is_training and requirement.parallel is None and "accelerators" not in figures:
        fault = "does not count its GPUs; state `parallel` as it ran, such as {data: 8}"
    is_of_tokens = is_training and isinstance(requirement.model, Transformer)
    if not fault and is_of_tokens and not prediction.states_sequence:
        fault = "counts samples; state training.sequence, the tokens of one"
    if fault or gpu is None:
        raise ProfileError(f"{profile.source}: {fault}")
    if requirement.task.trains:
        count = round(figures.get("accelerators", planned.count))
        as_run = replace(requirement, parallel=layout_of_count(planned, count, profile.source))
    else:
        as_run = _running(requirement, planned.layout, _in_flight(result))
    candidate = prediction.planner.predicted(as_run, gpu)
    compared = (_trained if is_training else _served)(as_run, candidate, figures)
    return PlanCheck(candidate, tuple(compared))


def layout_of_count(planned: PlanCandidate, count: int, source: str) -> Parallelism:
    """Return the planned layout for another number of GPUs: more or fewer replicas.

    Raises:
        ProfileError: replicas of the planned layout do not add up to that number.
    """
    if count == planned.count:
        return planned.layout
    each = planned.layout.tensor * planned.layout.pipeline
    if count < each or count % each:
        fault = f"{count} GPUs are no multiple of the {each} that a replica of the plan takes"
        raise ProfileError(f"{source}: {fault}; state `parallel` as it ran")
    data = count // each
    return replace(planned.layout, data=data, expert=math.gcd(planned.layout.expert, data))


def _in_flight(result: BenchmarkResult) -> float | None:
    """Return requests at a time; `None` if the scenario issues all at once."""
    figures = result.figures
    rate, mean = figures.get("samples_per_second"), figures.get("latency_mean_seconds")
    match result.scenario:
        case "SingleStream":
            return 1.0
        case "MultiStream":
            return figures.get("samples_per_query")
        case "Server" if rate and mean:
            return max(1.0, rate * mean)
    return None


def _served(
    requirement: Requirement, candidate: PlanCandidate, figures: Mapping[str, float]
) -> Iterator[FigureComparison]:
    model, load, predicted = requirement.model, requirement.load, candidate.rate.tokens_per_second
    unit = work_unit(model)
    is_of_tokens = unit is WorkUnit.TOKENS
    tokens, samples = figures.get("tokens_per_second"), figures.get("samples_per_second")
    if is_of_tokens and tokens is not None:
        yield _speed("tokens", tokens, predicted)
    elif is_of_tokens and samples is not None:
        output = load.output_tokens
        remark = f"samples per second, of {output:g} tokens each as the plan has it"
        yield _speed("tokens", samples * output, predicted, remark)
    elif samples is not None:
        each = units_per_request(model, load)
        remark = "" if each == 1.0 else f"samples of {each:g} {unit}, as the plan has it"
        yield _speed("samples" if each == 1.0 else unit, samples * each, predicted, remark)
    elif tokens is not None:
        remark = f"tokens, by how many a request has in the plan, as {unit}"
        yield _speed(unit, tokens * units_per_token(model, load), predicted, remark)
    rate = candidate.rate
    latencies = {"ttft": rate.ttft_ms, "tpot": rate.tpot_ms}
    for figure, predicted in (latencies if is_of_tokens else {"latency": rate.ttft_ms}).items():
        for part in ("mean", "p50", "p90", "p99"):
            value, is_mean = figures.get(f"{figure}_{part}_seconds"), part == "mean"
            if value is not None:
                name = f"{figure}_ms" if is_mean else f"{figure}_{part}_ms"
                took, remark = value * 1e3, "" if is_mean else _QUANTILE
                yield FigureComparison(name, "ms", took, predicted, remark, is_quantile=not is_mean)


def _trained(
    requirement: Requirement, candidate: PlanCandidate, figures: Mapping[str, float]
) -> Iterator[FigureComparison]:
    rate, samples = candidate.rate, figures.get("samples_per_second")
    if samples is not None:
        unit, units, remark = "samples", 1.0, ""
        if isinstance(requirement.model, Transformer):
            unit, units = "tokens", float(requirement.training.sequence)
            remark = f"samples of {units:g} tokens, as the plan has it"
        yield _speed(unit, samples * units, rate.tokens_per_second, remark)
        yield from _utilization(candidate, samples * units)
    took = figures.get("time_to_train_seconds")
    if took is not None:
        remark = "to the quality that the benchmark asks for, evaluation included"
        hours = took / HOUR_SECONDS
        yield FigureComparison("training_hours", "hours", hours, rate.training_hours, remark)


def _utilization(candidate: PlanCandidate, speed: float) -> Iterator[FigureComparison]:
    mfu, throughput = candidate.rate.mfu_ratio, candidate.rate.tokens_per_second
    if mfu and throughput is not None:
        each = mfu / throughput.value
        yield FigureComparison("mfu_ratio", "ratio", speed * each, throughput.scaled(each))


def trace_comparisons(
    requirement: Requirement, candidate: PlanCandidate, run: ProfiledRun
) -> Iterator[FigureComparison]:
    """Compare a profiled run with the plan for its layout."""
    if run.memory_peak_bytes is not None:
        # The allocator excludes the context and libraries.
        outside, total = candidate.memory.overhead_bytes, candidate.memory.total
        low, high = max(0.0, total.low - outside), total.high - outside
        within, peak = EstimateInterval(total.value - outside, low, high), run.memory_peak_bytes
        context = f"{outside / GIB:.1f} GiB of context and libraries come on top"
        remark = f"the allocator's own peak; {context}"
        yield FigureComparison("memory_bytes", "bytes", float(peak), within, remark)
    if requirement.task.trains:
        if run.step_seconds is None:
            fault = "no step is marked, and a prediction of training is of steps"
            remedy = "call the profiler's step() after each, or mark steps with ranges"
            raise ProfileError(f"{run.source}: {fault}; {remedy}")
        yield from _steps(requirement, candidate, run.step_seconds)
    time = run.time
    waits = "the GPU waits for its host, which no prediction counts: fix that first"
    yield _share("kernel_time", time.busy, waits if time.host_wait > _MUCH else "")
    yield _share("tensor_core_kernel_time", time.tensor)
    yield _share("host_wait_time", time.host_wait)
    yield _share("exposed_copy_time", time.copy)
    exposed = "communication that no kernel hides" if time.collective > _MUCH else ""
    yield _share("exposed_communication_time", time.collective, exposed)


def _steps(
    requirement: Requirement, candidate: PlanCandidate, step_seconds: float
) -> Iterator[FigureComparison]:
    training, throughput = requirement.training, candidate.rate.tokens_per_second
    if throughput is None:
        return
    is_of_tokens = isinstance(requirement.model, Transformer)
    batch = training.global_batch or training.micro_batch * candidate.layout.data
    units = batch * (float(training.sequence) if is_of_tokens else 1.0)
    kind = "global" if training.global_batch else "micro"
    remark = f"a step of {batch:,} {'sequences' if is_of_tokens else 'samples'}, the {kind} batch"
    predicted = EstimateInterval(
        units / throughput.value, units / throughput.high, units / throughput.low
    )
    yield FigureComparison("step_seconds", "s", step_seconds, predicted, remark)
    yield _speed("tokens" if is_of_tokens else "samples", units / step_seconds, throughput)
    yield from _utilization(candidate, units / step_seconds)
