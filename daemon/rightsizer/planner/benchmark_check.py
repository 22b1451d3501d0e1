"""Comparison of predictions with an MLPerf result."""

import math
from collections.abc import Iterator, Mapping
from typing import Final

from msgspec.structs import replace

from rightsizer.model.errors import ProfileError
from rightsizer.model.profile import BenchmarkResult, Profile, ProfileFormat
from rightsizer.model.units import HOUR_SECONDS
from rightsizer.planner.candidate import PlanCandidate
from rightsizer.planner.plan_check import (
    FigureComparison,
    PlanCheck,
    Prediction,
    requirement_as_run,
    throughput_comparison,
    unnamed_board,
    utilization_comparison,
)
from rightsizer.sizing.load import WorkUnit, units_per_request, units_per_token, work_unit
from rightsizer.sizing.models import Transformer
from rightsizer.sizing.requirement import Parallelism, Requirement

_RESULTS: Final = (
    "samples_per_second",
    "tokens_per_second",
    "latency_mean_seconds",
    "latency_p90_seconds",
    "time_to_train_seconds",
)
_QUANTILE: Final = "a quantile over all requests; the prediction is of the mean"


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
    requirement = prediction.requirement
    planned = prediction.planned
    figures = result.figures
    is_training = profile.format is ProfileFormat.MLPERF_TRAINING
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
        as_run = requirement_as_run(requirement, planned.layout, _in_flight(result))
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
    replica_gpus = planned.layout.tensor * planned.layout.pipeline
    if count < replica_gpus or count % replica_gpus:
        fault = (
            f"{count} GPUs are no multiple of the {replica_gpus} that a replica of the plan takes"
        )
        raise ProfileError(f"{source}: {fault}; state `parallel` as it ran")
    data = count // replica_gpus
    return replace(planned.layout, data=data, expert=math.gcd(planned.layout.expert, data))


def _in_flight(result: BenchmarkResult) -> float | None:
    """Return requests at a time; `None` if the scenario issues all at once."""
    figures = result.figures
    rate = figures.get("samples_per_second")
    mean = figures.get("latency_mean_seconds")
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
    model = requirement.model
    load = requirement.load
    predicted = candidate.rate.units_per_second
    unit = work_unit(model)
    is_of_tokens = unit is WorkUnit.TOKENS
    tokens = figures.get("tokens_per_second")
    samples = figures.get("samples_per_second")
    if is_of_tokens and tokens is not None:
        yield throughput_comparison("tokens", tokens, predicted)
    elif is_of_tokens and samples is not None:
        output = load.output_tokens
        remark = f"samples per second, of {output:g} tokens each as the plan has it"
        yield throughput_comparison("tokens", samples * output, predicted, remark)
    elif samples is not None:
        units = units_per_request(model, load)
        what = "samples"
        remark = ""
        if units != 1.0:
            what = unit
            remark = f"samples of {units:g} {unit}, as the plan has it"
        yield throughput_comparison(what, samples * units, predicted, remark)
    elif tokens is not None:
        remark = f"tokens, by how many a request has in the plan, as {unit}"
        yield throughput_comparison(unit, tokens * units_per_token(model, load), predicted, remark)
    rate = candidate.rate
    latencies = {"ttft": rate.ttft_ms, "tpot": rate.tpot_ms}
    for figure, predicted in (latencies if is_of_tokens else {"latency": rate.ttft_ms}).items():
        for part in ("mean", "p50", "p90", "p99"):
            value = figures.get(f"{figure}_{part}_seconds")
            is_mean = part == "mean"
            if value is not None:
                name = f"{figure}_ms" if is_mean else f"{figure}_{part}_ms"
                took = value * 1e3
                remark = "" if is_mean else _QUANTILE
                yield FigureComparison(name, "ms", took, predicted, remark, is_quantile=not is_mean)


def _trained(
    requirement: Requirement, candidate: PlanCandidate, figures: Mapping[str, float]
) -> Iterator[FigureComparison]:
    rate = candidate.rate
    samples = figures.get("samples_per_second")
    if samples is not None:
        unit = "samples"
        units = 1.0
        remark = ""
        if isinstance(requirement.model, Transformer):
            unit = "tokens"
            units = float(requirement.training.sequence)
            remark = f"samples of {units:g} tokens, as the plan has it"
        yield throughput_comparison(unit, samples * units, rate.units_per_second, remark)
        yield from utilization_comparison(candidate, samples * units)
    took = figures.get("time_to_train_seconds")
    if took is not None:
        remark = "to the quality that the benchmark asks for, evaluation included"
        hours = took / HOUR_SECONDS
        yield FigureComparison("training_hours", "hours", hours, rate.training_hours, remark)
