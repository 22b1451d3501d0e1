"""Rates of a requirement on given GPUs, and whether they meet latencies and throughput."""

import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import Final

from msgspec.structs import replace

from rightsizer.catalogue.board import Board
from rightsizer.model.units import percent_text
from rightsizer.planner.candidate import CandidateFilter, PredictedRate, Rejection
from rightsizer.planner.display import number
from rightsizer.sizing.estimate import EstimateInterval
from rightsizer.sizing.load import RequestLoad, units_per_request, units_per_token, work_unit
from rightsizer.sizing.models import Transformer
from rightsizer.sizing.queueing import services_waited
from rightsizer.sizing.requirement import Parallelism, Requirement
from rightsizer.sizing.sample_rate import SampleRate, sample_rate
from rightsizer.sizing.serving import Server, Serving, best_concurrency, keeps_up, most_running
from rightsizer.sizing.serving_memory import ServingMemory
from rightsizer.sizing.serving_settings import ServingModelSettings
from rightsizer.sizing.settings import SizingSettings
from rightsizer.sizing.training import training_rate

_DEFAULTS: Final = SizingSettings()
_ROUNDING: Final = 1e-9
_LEAST_SURE: Final = 0.01
"""Probability below which candidates no longer differ: all of them miss the targets."""
_RATES: Final = 20
"""Equally likely rates, over which costs are averaged: steps of 5% of probability."""
_ONE_PASS_PERCENTILE: Final = 99.0
"""Of answers of a single pass, if none is given: as MLPerf's server scenario asks."""
_Target = tuple[CandidateFilter, EstimateInterval, float, str]
"""Filter of a latency, prediction, maximum, and sentence."""


def predict_rate(  # noqa: PLR0913 - the search's question, and facts of a site.
    requirement: Requirement,
    board: Board,
    layout: Parallelism,
    concurrency: float | None,
    available_bytes: float,
    *,
    settings: SizingSettings = _DEFAULTS,
) -> PredictedRate:
    """Predict the rate of a layout.

    `concurrency`: requests in flight on all GPUs together, `None` for the maximum that latencies
    and memory allow; `available_bytes`: per GPU, without headroom.
    """
    if requirement.task.trains:
        rate = training_rate(requirement, board, layout, settings.training, settings.samples)
        hours = rate.hours
        mfu = rate.mfu_ratio
        return PredictedRate(rate.units_per_second, training_hours=hours, mfu_ratio=mfu)
    memory = ServingMemory(requirement, layout, settings.memory)
    if isinstance(requirement.model, Transformer):
        server = Server(memory, board, available_bytes, settings.serving)
        return _serving(requirement, server, concurrency)
    most = memory.largest_concurrency(available_bytes)
    sampled = partial(sample_rate, requirement, board, layout, settings=settings.samples)
    load = requirement.load
    serving = settings.serving
    return _sampling(load, layout.data, sampled, concurrency, most, settings=serving)


def is_load_kept(
    requirement: Requirement,
    board: Board,
    layout: Parallelism,
    available_bytes: float,
    settings: SizingSettings = _DEFAULTS,
) -> bool:
    """Whether a layout may serve the requested rate in time: a fast, optimistic check.

    For token models this only requires the number of requests running at that rate.
    """
    memory = ServingMemory(requirement, layout, settings.memory)
    load = requirement.load
    if not isinstance(requirement.model, Transformer) or requirement.model.is_encoder:
        return True
    server = Server(memory, board, available_bytes, settings.serving)
    requests = (load.units_per_second or 0.0) / units_per_request(requirement.model, load)
    return keeps_up(server, requests)


def _sampling(  # noqa: PLR0913 - as above.
    load: RequestLoad,
    replicas: int,
    sampled: Callable[[float | None], SampleRate],
    concurrency: float | None,
    most: int,
    *,
    settings: ServingModelSettings,
) -> PredictedRate:
    """Rate of batch models: the usual batch within memory and latencies."""
    rate = sampled(concurrency)
    most = max(replicas, most)
    kept = 1.0 - settings.latency_headroom_ratio
    first, answer = ((each or math.inf) * kept for each in (load.ttft_ms, load.latency_ms))
    while concurrency is None and rate.concurrency > replicas:
        batch_ms = rate.batch_seconds.value * 1e3
        is_late = batch_ms > first or load.answer_ms(batch_ms, None) > answer
        if rate.concurrency <= most and not is_late:
            break
        rate = sampled(max(float(replicas), min(float(most), rate.concurrency / 2.0)))
    return _soonest(load, rate, replicas, sampled, settings)


def _soonest(
    load: RequestLoad,
    largest: SampleRate,
    replicas: int,
    sampled: Callable[[float], SampleRate],
    settings: ServingModelSettings,
) -> PredictedRate:
    """Rate of the largest batch, and the latency of the one that answers an open load soonest.

    Batches fill as requests arrive. If none keeps up, or there is nothing to be in time for: the
    latency of the largest.
    """
    # A present batch, unless each request has a GPU of its own.
    found = largest
    waited = 1.0 if largest.concurrency > replicas else 0.0
    if load.is_open and load.has_targets:
        sizes = [largest]
        while sizes[-1].concurrency >= 2.0 * replicas:
            sizes.append(sampled(sizes[-1].concurrency / 2.0))
        waiting = [(each, _batches_waited(load, each, replicas, settings)) for each in sizes]
        soonest = min(waiting, key=lambda each: (1.0 + each[1]) * each[0].batch_seconds.value)
        found, waited = soonest if soonest[1] < math.inf else (found, waited)
    first_ms = found.batch_seconds.scaled(1e3)
    throughput = largest.samples_per_second
    return PredictedRate(throughput, found.concurrency, first_ms, batches_waited=waited)


def _batches_waited(
    load: RequestLoad, rate: SampleRate, replicas: int, settings: ServingModelSettings
) -> float:
    """Batches that a request waits for: a busy GPU's present one, if more than one fits in each."""
    burstiness = settings.burstiness if load.burstiness is None else load.burstiness
    batch = rate.concurrency / replicas
    percentile = load.latency_percentile or _ONE_PASS_PERCENTILE
    busy = (load.units_per_second or 0.0) / rate.samples_per_second.value
    # Of the batches' arrivals: that of many requests is steadier than that of one.
    waited = services_waited(replicas, busy, burstiness / batch, percentile / 100.0)
    return max(waited, 1.0 if batch > 1.0 else 0.0)


def _serving(requirement: Requirement, server: Server, concurrency: float | None) -> PredictedRate:
    """Rate of token models; if not even one request meets the latencies, that of one."""
    load = requirement.load
    replicas = server.memory.layout.data
    if concurrency is None and load.is_open and server.is_causal:
        return _arriving(requirement, server)
    most = float(best_concurrency(server) or replicas) if concurrency is None else concurrency
    largest = server.at(most)
    if server.is_causal:
        return _rate_of(requirement, largest, most)

    def batch(serving: Serving, requests: float) -> SampleRate:
        made = serving.tokens_per_second.scaled(units_per_token(requirement.model, load))
        return SampleRate(made, serving.ttft_ms.scaled(1e-3), requests)

    def sampled(requests: float) -> SampleRate:
        return batch(server.at(requests), requests)

    rate = _soonest(load, batch(largest, most), replicas, sampled, server.settings)
    return replace(rate, bound=str(largest.bound))


def _arriving(requirement: Requirement, server: Server) -> PredictedRate:
    """At the requested rate, or the maximum in time; if there is none, with the fewest requests."""
    model = requirement.model
    load = requirement.load
    each = units_per_request(model, load)
    most_at_once = most_running(server)
    most = server.answered(most_at_once)
    demand = (load.units_per_second or 0.0) / each
    if most and demand >= most:
        serving = server.busy_with(most_at_once)
    else:
        # Found by bisection, it may slightly exceed the maximum in time.
        at_once = server.running_at(min(demand, most))
        serving = server.busy_with(min(at_once, most_at_once or at_once), min(demand, most))
    throughput = most * max(1.0, load.output_tokens)
    by = serving.tokens_per_second.value
    shown = replace(serving, tokens_per_second=serving.tokens_per_second.scaled(throughput / by))
    return _rate_of(requirement, shown if most else serving, max(1.0, serving.running))


def _rate_of(requirement: Requirement, serving: Serving, concurrency: float) -> PredictedRate:
    throughput = serving.tokens_per_second.scaled(
        units_per_token(requirement.model, requirement.load)
    )
    first = serving.ttft_ms
    between = serving.tpot_ms
    bound = str(serving.bound)
    return PredictedRate(throughput, concurrency, first, between, bound=bound)


def too_slow(
    requirement: Requirement,
    rate: PredictedRate,
    layout: Parallelism,
    headroom: float,
    gpu_maximum: int,
) -> Iterator[Rejection]:
    """Yield unmet parts of the load; throughput does not matter if latencies are missed."""
    load = requirement.load
    is_late = tuple(late(load, rate, headroom))
    yield from is_late
    throughput = rate.units_per_second
    demand = load.units_per_second
    if (
        is_late
        or throughput is None
        or demand is None
        or throughput.value >= demand * (1.0 - _ROUNDING)
    ):
        return
    unit = work_unit(requirement.model)
    why = f"delivers {number(throughput.value)} {unit}/s, {number(demand)} asked for"
    if throughput.value > 0:
        gpus = math.ceil(demand / throughput.value) * layout.gpus
        why += f"; that would take {gpus:,} GPUs"
        if gpus > gpu_maximum:
            why += f", more than the {gpu_maximum:,} of sizing.plan.gpu_maximum"
    yield Rejection(CandidateFilter.THROUGHPUT, why)


def late(load: RequestLoad, rate: PredictedRate, headroom: float) -> Iterator[Rejection]:
    """Yield the latencies above their targets less headroom."""
    for by, figure, most_ms, text in _targets(load, rate):
        if figure.value > most_ms * (1.0 - headroom + _ROUNDING):
            free = f" ({percent_text(headroom)} headroom)" if headroom else ""
            yield Rejection(by, f"{text}, above {most_ms * (1.0 - headroom):g} ms{free}")


def targets_probability(load: RequestLoad, rate: PredictedRate) -> float | None:
    """Return the probability that all latency targets are met; `None` without any.

    Errors are taken as independent, which gives the lower bound.
    """
    met = [figure.met_probability(most_ms) for _, figure, most_ms, _ in _targets(load, rate)]
    return math.prod(met) if met else None


def load_probability(load: RequestLoad, rate: PredictedRate) -> float | None:
    """Return the probability that the requested rate is reached; `None` without one."""
    throughput = rate.units_per_second
    demand = load.units_per_second
    if throughput is None or demand is None:
        return None
    return 1.0 - throughput.met_probability(demand)


def expected_cost_ratio(
    load: RequestLoad,
    rate: PredictedRate,
    replicas: int,
    memory_probability: float = 1.0,
    paid: Callable[[int], float] = float,
) -> float:
    """Return the cost averaged over the possible rates, relative to that at the likeliest.

    Replicas are added or removed to reach the requested rate, at a cost of `paid` for so many; if
    memory does not suffice or latencies are missed, the cost is lost and an equally expensive
    attempt follows.
    """
    throughput = rate.units_per_second
    demand = load.units_per_second
    sure = memory_probability
    if rate.targets_probability is not None:
        sure *= rate.targets_probability
    if throughput is None or throughput.value <= 0.0:
        return 1.0 / max(_LEAST_SURE, sure)
    likely = throughput.equally_likely(_RATES)
    if demand is None:
        ratios = [throughput.value / each for each in likely]
    else:
        needed = (math.ceil(demand * replicas / each - _ROUNDING) for each in likely)
        ratios = [paid(max(1, each)) / paid(replicas) for each in needed]
    return sum(ratios) / _RATES / max(_LEAST_SURE, sure)


def _targets(load: RequestLoad, rate: PredictedRate) -> Iterator[_Target]:
    first = rate.ttft_ms
    between = rate.tpot_ms
    waited = rate.batches_waited
    if load.ttft_ms is not None and first is not None:
        why = f"first token after {first.value:.0f} ms{_percentile_text(load.ttft_percentile)}"
        yield CandidateFilter.COMPUTE, first, load.ttft_ms, why
    if load.tpot_ms is not None and between is not None:
        why = f"{between.value:.1f} ms between tokens{_percentile_text(load.tpot_percentile)}"
        yield CandidateFilter.BANDWIDTH, between, load.tpot_ms, why
    if load.latency_ms is None or first is None:
        return
    ends = [(getattr(first, end), getattr(between, end, None)) for end in ("value", "low", "high")]
    answer = EstimateInterval(*(load.answer_ms(*each, waited) for each in ends))
    included = ", waiting included" if between is None else ""
    why = f"answer after {answer.value:.4g} ms{_percentile_text(load.latency_percentile)}{included}"
    by = CandidateFilter.COMPUTE if between is None else CandidateFilter.BANDWIDTH
    yield by, answer, load.latency_ms, why


def _percentile_text(percentile: float | None) -> str:
    return "" if percentile is None else f" (p{percentile:g})"
