"""Predictions beside an MLPerf log or a profiler's trace."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

from rightsizer.model.errors import ProfileError
from rightsizer.model.profile import BenchmarkResult, Profile, ProfileFormat
from rightsizer.model.units import GIB, HOUR_SECONDS
from rightsizer.planner.candidate import PlanCandidate
from rightsizer.planner.plan_check import FigureComparison, PlanCheck
from rightsizer.planner.planner import Planner
from rightsizer.sizing.estimate import EstimateInterval
from rightsizer.sizing.models import Transformer
from rightsizer.sizing.requirement import Parallelism, Requirement
from rightsizer.sizing.workload_profile import ProfiledRun, ProfiledTime

_ONE_BY_ONE: Final = "SingleStream"
_SOME_AT_ONCE: Final = "MultiStream"
_AS_THEY_COME: Final = "Server"
_QUANTILES: Final = ("p50", "p90", "p99")
_QUANTILE: Final = "a quantile over all requests; the prediction is of the mean"
_LATENCIES: Final = (("ttft", "ttft_ms"), ("tpot", "tpot_ms"))
_MILLISECONDS: Final = 1e3


def compare_benchmark(
    requirement: Requirement, planner: Planner, planned: PlanCandidate, profile: Profile
) -> PlanCheck:
    """What a result says of a prediction.

    A log names no GPU that can be relied on: it is taken for the planned one, in as many GPUs as
    the log counts. Requests in flight are those of the scenario; of `Server`, by Little's law.

    Raises:
        ProfileError: it holds no result, an invalid one, or one of another task.
    """
    result = profile.benchmark
    if result is None:
        raise ProfileError(f"{profile.source}: is no log of a benchmark; give a trace or a log")
    _refuse(profile, result, trains=requirement.task.trains)
    figures = result.figures
    if requirement.task.trains:
        count = round(figures.get("accelerators", planned.count))
        asked = replace(requirement, parallel=layout_of_count(planned, count, profile.source))
        candidate = planner.predicted(asked, planned.gpu)
        return PlanCheck(candidate, tuple(_training(asked, candidate, figures)))
    in_flight = _in_flight(result)
    load = requirement.load
    asked = replace(
        requirement,
        parallel=planned.layout,
        load=replace(load, concurrency=in_flight or load.concurrency),
    )
    candidate = planner.predicted(asked, planned.gpu)
    return PlanCheck(candidate, tuple(_serving(asked, candidate, figures)))


def layout_of_count(planned: PlanCandidate, count: int, source: str) -> Parallelism:
    """The planned layout over another number of GPUs: more or fewer replicas.

    Raises:
        ProfileError: replicas of the planned layout do not make that many.
    """
    if count == planned.count:
        return planned.layout
    each = planned.layout.tensor * planned.layout.pipeline
    if count < each or count % each:
        raise ProfileError(
            f"{source}: {count} GPUs are no multiple of the {each} that a replica of the plan "
            "takes; state `parallel` as it ran"
        )
    return replace(planned.layout, data=count // each)


def _refuse(profile: Profile, result: BenchmarkResult, *, trains: bool) -> None:
    is_training = profile.format is ProfileFormat.MLPERF_TRAINING
    if is_training != trains:
        ran, asks = ("training", "serving") if is_training else ("serving", "training")
        raise ProfileError(
            f"{profile.source}: a result of {ran}, and the plan is of {asks}; set `task` as it ran"
        )
    if result.is_valid is False:
        raise ProfileError(
            f"{profile.source}: the run is invalid by its own log; measure again until it is valid"
        )
    if not result.figures.keys() & {
        *("samples_per_second", "tokens_per_second", "latency_mean_seconds", "latency_p90_seconds"),
        "time_to_train_seconds",
    }:
        raise ProfileError(
            f"{profile.source}: holds no result (an accuracy run, or one that did not end); give "
            "the performance run's folder"
        )


def _in_flight(result: BenchmarkResult) -> float | None:
    """Requests at a time; `None` where the scenario gives all at once."""
    figures = result.figures
    if result.scenario == _ONE_BY_ONE:
        return 1.0
    if result.scenario == _SOME_AT_ONCE:
        return figures.get("samples_per_query")
    rate, mean = figures.get("samples_per_second"), figures.get("latency_mean_seconds")
    if result.scenario != _AS_THEY_COME or not rate or not mean:
        return None
    return max(1.0, rate * mean)


def _serving(
    requirement: Requirement, candidate: PlanCandidate, figures: Mapping[str, float]
) -> Iterator[FigureComparison]:
    speaks = isinstance(requirement.model, Transformer)
    rate = candidate.rate
    tokens, samples = figures.get("tokens_per_second"), figures.get("samples_per_second")
    if speaks and tokens is not None:
        yield FigureComparison("tokens_per_second", "tokens/s", tokens, rate.tokens_per_second)
    elif speaks and samples is not None:
        output = requirement.load.output_tokens
        yield FigureComparison(
            "tokens_per_second",
            "tokens/s",
            samples * output,
            rate.tokens_per_second,
            f"samples per second, of {output:g} tokens each as the plan has it",
        )
    elif samples is not None:
        yield FigureComparison("samples_per_second", "samples/s", samples, rate.tokens_per_second)
    if speaks:
        for name, predicted in _LATENCIES:
            yield from _latencies(name, f"{name}_ms", candidate, figures, predicted)
    else:
        yield from _latencies("latency", "latency_ms", candidate, figures, "ttft_ms")


def _latencies(
    figure: str, what: str, candidate: PlanCandidate, figures: Mapping[str, float], predicted: str
) -> Iterator[FigureComparison]:
    interval = getattr(candidate.rate, predicted)
    mean = figures.get(f"{figure}_mean_seconds")
    if mean is not None:
        yield FigureComparison(what, "ms", mean * _MILLISECONDS, interval)
    for quantile in _QUANTILES:
        value = figures.get(f"{figure}_{quantile}_seconds")
        if value is not None:
            name = what.replace("_ms", f"_{quantile}_ms")
            yield FigureComparison(
                name, "ms", value * _MILLISECONDS, interval, _QUANTILE, is_quantile=True
            )


def _training(
    requirement: Requirement, candidate: PlanCandidate, figures: Mapping[str, float]
) -> Iterator[FigureComparison]:
    rate, samples = candidate.rate, figures.get("samples_per_second")
    speaks = isinstance(requirement.model, Transformer)
    if samples is not None:
        units = float(requirement.training.sequence) if speaks else 1.0
        speed = samples * units
        what = "tokens_per_second" if speaks else "samples_per_second"
        remark = f"samples of {units:g} tokens, as the plan has it" if speaks else ""
        unit = "tokens/s" if speaks else "samples/s"
        yield FigureComparison(what, unit, speed, rate.tokens_per_second, remark)
        if rate.mfu_ratio and rate.tokens_per_second is not None:
            each = rate.mfu_ratio / rate.tokens_per_second.value
            interval = rate.tokens_per_second.scaled(each)
            yield FigureComparison("mfu_ratio", "ratio", speed * each, interval)
    took = figures.get("time_to_train_seconds")
    if took is not None:
        yield FigureComparison(
            "training_hours",
            "hours",
            took / HOUR_SECONDS,
            rate.training_hours,
            "to the quality that the benchmark asks for, evaluation included",
        )


_MUCH: Final = 0.3
"""Of the time, beyond which a wait or communication explains most of what is off."""


def trace_comparisons(
    requirement: Requirement, candidate: PlanCandidate, run: ProfiledRun
) -> Iterator[FigureComparison]:
    """What a profiled run measured beside what was planned for its layout."""
    if run.memory_peak_bytes is not None:
        yield _memory(candidate, run.memory_peak_bytes)
    if requirement.task.trains:
        if run.step_seconds is None:
            raise ProfileError(
                f"{run.source}: no step is marked, and a prediction of training is of steps; call "
                "the profiler's step() after each, or mark steps with ranges"
            )
        yield from _steps(requirement, candidate, run.step_seconds)
    time = run.time
    yield FigureComparison("kernel_time", "ratio", time.busy, None, _host_remark(time))
    yield FigureComparison("tensor_core_kernel_time", "ratio", time.tensor, None)
    yield FigureComparison("host_wait_time", "ratio", time.host_wait, None)
    yield FigureComparison("exposed_copy_time", "ratio", time.copy, None)
    yield FigureComparison(
        "exposed_communication_time",
        "ratio",
        time.collective,
        None,
        "communication that no kernel hides" if time.collective > _MUCH else "",
    )


def _memory(candidate: PlanCandidate, peak: int) -> FigureComparison:
    """Against what the allocator sees of the prediction: the context and libraries are outside."""
    outside = candidate.memory.overhead_bytes
    total = candidate.memory.total
    within = EstimateInterval(
        total.value - outside, max(0.0, total.low - outside), total.high - outside
    )
    return FigureComparison(
        "memory_bytes",
        "bytes",
        float(peak),
        within,
        f"the allocator's own peak; {outside / GIB:.1f} GiB of context and libraries come on top",
    )


def _steps(
    requirement: Requirement, candidate: PlanCandidate, step_seconds: float
) -> Iterator[FigureComparison]:
    training, rate = requirement.training, candidate.rate
    made = rate.tokens_per_second
    if made is None:
        return
    speaks = isinstance(requirement.model, Transformer)
    each = training.micro_batch * candidate.layout.data
    batch = training.global_batch or each
    units = batch * (float(training.sequence) if speaks else 1.0)
    told = "global" if training.global_batch else "micro"
    remark = f"a step of {batch:,} {'sequences' if speaks else 'samples'}, the {told} batch"
    yield FigureComparison(
        "step_seconds",
        "s",
        step_seconds,
        EstimateInterval(units / made.value, units / made.high, units / made.low),
        remark,
    )
    measured = units / step_seconds
    unit = "tokens" if speaks else "samples"
    yield FigureComparison(f"{unit}_per_second", f"{unit}/s", measured, made)
    if rate.mfu_ratio:
        of_one = rate.mfu_ratio / made.value
        yield FigureComparison("mfu_ratio", "ratio", measured * of_one, made.scaled(of_one))


def _host_remark(time: ProfiledTime) -> str:
    if time.host_wait <= _MUCH:
        return ""
    return "the GPU waits for its host, which no prediction counts: mend that first"
