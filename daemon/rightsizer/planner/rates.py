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
from rightsizer.sizing.serving import (
    Server,
    Serving,
    best_concurrency,
    keeps_up,
    lateness,
    most_running,
    servers_needed,
)
from rightsizer.sizing.serving_memory import ServingMemory
from rightsizer.sizing.serving_settings import ServingModelSettings
from rightsizer.sizing.settings import SizingSettings
from rightsizer.sizing.training import training_rate

_DEFAULTS: Final = SizingSettings()
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
        return serving_rate(requirement, server, concurrency)
    largest_concurrency = memory.largest_concurrency(available_bytes)
    sampled = partial(sample_rate, requirement, board, layout, settings=settings.samples)
    load = requirement.load
    serving = settings.serving
    return _sampling(load, layout.data, sampled, concurrency, largest_concurrency, settings=serving)


def is_load_kept(requirement: Requirement, server: Server) -> bool:
    """Whether the requested rate may be served in time: a fast, optimistic check.

    It only requires the number of requests running at that rate. Encoders pass, and so does any
    server if no load is given.
    """
    concurrency = requirement.load.concurrency
    if server.is_causal and concurrency is not None:
        return lateness(server, server.at(concurrency)) <= 1.0
    return not _is_arriving(requirement, server) or keeps_up(
        server, _requests_per_second(requirement)
    )


def least_servers(requirement: Requirement, server: Server) -> int:
    """Return a number of equal servers below which that check of arriving requests fails."""
    return servers_needed(server, _requests_per_second(requirement))


def _is_arriving(requirement: Requirement, server: Server) -> bool:
    return server.is_causal and requirement.load.is_open


def _requests_per_second(requirement: Requirement) -> float:
    load = requirement.load
    return (load.units_per_second or 0.0) / units_per_request(requirement.model, load)


def _sampling(  # noqa: PLR0913 - as above.
    load: RequestLoad,
    replicas: int,
    sampled: Callable[[float | None], SampleRate],
    concurrency: float | None,
    largest_concurrency: int,
    *,
    settings: ServingModelSettings,
) -> PredictedRate:
    """Rate of batch models: the usual batch within memory and latencies."""
    rate = sampled(concurrency)
    largest_concurrency = max(replicas, largest_concurrency)
    headroom = settings.latency_headroom_ratio
    while concurrency is None and rate.concurrency > replicas:
        batch = rate.batch_seconds.scaled(1e3)
        answer = load.answer_interval(batch, None)
        asked = ((load.ttft_ms, batch), (load.latency_ms, answer))
        is_late = any(target and load.is_late(took, target, headroom) for target, took in asked)
        if rate.concurrency <= largest_concurrency and not is_late:
            break
        rate = sampled(
            max(float(replicas), min(float(largest_concurrency), rate.concurrency / 2.0))
        )
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
    rate = largest
    waited = 1.0 if largest.concurrency > replicas else 0.0
    if load.is_open and load.has_targets:
        sizes = [largest]
        while sizes[-1].concurrency >= 2.0 * replicas:
            sizes.append(sampled(sizes[-1].concurrency / 2.0))
        waiting = [(size, _batches_waited(load, size, replicas, settings)) for size in sizes]
        soonest = min(waiting, key=lambda option: (1.0 + option[1]) * option[0].batch_seconds.value)
        rate, waited = soonest if soonest[1] < math.inf else (rate, waited)
    first_ms = rate.batch_seconds.scaled(1e3)
    throughput = largest.samples_per_second
    return PredictedRate(throughput, rate.concurrency, first_ms, batches_waited=waited)


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


def serving_rate(
    requirement: Requirement, server: Server, concurrency: float | None
) -> PredictedRate:
    """Predict the rate of a served token model.

    If not even one request meets the latencies, that of one.
    """
    load = requirement.load
    replicas = server.replicas
    if concurrency is None and _is_arriving(requirement, server):
        return _arriving(requirement, server)
    in_flight = float(best_concurrency(server) or replicas) if concurrency is None else concurrency
    largest = server.at(in_flight)
    if server.is_causal:
        return _rate_of(requirement, largest, in_flight)

    def batch(serving: Serving, requests: float) -> SampleRate:
        made = serving.tokens_per_second.scaled(units_per_token(requirement.model, load))
        return SampleRate(made, serving.ttft_ms.scaled(1e-3), requests)

    def sampled(requests: float) -> SampleRate:
        return batch(server.at(requests), requests)

    rate = _soonest(load, batch(largest, in_flight), replicas, sampled, server.settings)
    return replace(rate, bound=str(largest.bound))


def _arriving(requirement: Requirement, server: Server) -> PredictedRate:
    """At the requested rate, or the maximum in time; if there is none, with the fewest requests."""
    load = requirement.load
    most_at_once = most_running(server)
    capacity_rate = server.answered(most_at_once)
    demand = _requests_per_second(requirement)
    if capacity_rate and demand >= capacity_rate:
        serving = server.busy_with(most_at_once)
    else:
        # Found by bisection, it may slightly exceed the maximum in time.
        at_once = server.running_at(min(demand, capacity_rate))
        serving = server.busy_with(
            min(at_once, most_at_once or at_once), min(demand, capacity_rate)
        )
    throughput = capacity_rate * max(1.0, load.output_tokens)
    by = serving.tokens_per_second.value
    shown = replace(serving, tokens_per_second=serving.tokens_per_second.scaled(throughput / by))
    return _rate_of(requirement, shown if capacity_rate else serving, max(1.0, serving.running))


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
    if is_late or throughput is None or demand is None or not load.is_short(throughput):
        return
    unit = work_unit(requirement.model)
    why = f"delivers {number(throughput.value)} {unit}/s, {number(demand)} asked for"
    if throughput.value > 0:
        gpus = math.ceil(demand / throughput.value) * layout.gpus
        why += f"; that would take {gpus:,} GPUs"
        if gpus > gpu_maximum:
            why += f", more than the {gpu_maximum:,} of sizing.plan.gpu_maximum"
    lack = demand / throughput.value if throughput.value > 0 else math.inf
    yield Rejection(CandidateFilter.THROUGHPUT, why, lack)


def late(load: RequestLoad, rate: PredictedRate, headroom: float) -> Iterator[Rejection]:
    """Yield the latencies above their targets less headroom."""
    for by, figure, most_ms, text in _targets(load, rate):
        if load.is_late(figure, most_ms, headroom):
            free = f" ({percent_text(headroom)} headroom)" if headroom else ""
            limit_ms = most_ms * (1.0 - headroom)
            yield Rejection(by, f"{text}, above {limit_ms:g} ms{free}", figure.value / limit_ms)


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
    answer = load.answer_interval(first, between, waited)
    included = ", waiting included" if between is None else ""
    why = f"answer after {answer.value:.4g} ms{_percentile_text(load.latency_percentile)}{included}"
    by = CandidateFilter.COMPUTE if between is None else CandidateFilter.BANDWIDTH
    yield by, answer, load.latency_ms, why


def _percentile_text(percentile: float | None) -> str:
    return "" if percentile is None else f" (p{percentile:g})"
