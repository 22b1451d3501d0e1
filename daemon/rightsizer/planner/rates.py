"""Rates of a requirement on given GPUs, and whether they meet latencies and throughput."""

import math
from collections.abc import Iterator
from typing import Final

from rightsizer.catalogue.board import Board
from rightsizer.planner.candidate import CandidateFilter, PredictedRate, Rejection
from rightsizer.sizing.models import Transformer
from rightsizer.sizing.requirement import Parallelism, RequestLoad, Requirement
from rightsizer.sizing.sample_rate import sample_rate
from rightsizer.sizing.serving import Server, best_concurrency
from rightsizer.sizing.serving_memory import serving_memory
from rightsizer.sizing.settings import SizingSettings
from rightsizer.sizing.training import training_rate
from rightsizer.sizing.work_unit import units_per_token, work_unit

_DEFAULTS: Final = SizingSettings()
_ROUNDING: Final = 1e-9


def predict_rate(  # noqa: PLR0913 - the search's question, and what a site knows better.
    requirement: Requirement,
    board: Board,
    layout: Parallelism,
    concurrency: float | None,
    available_bytes: float,
    *,
    settings: SizingSettings = _DEFAULTS,
) -> PredictedRate:
    """The rate of a layout.

    `concurrency`: requests in flight on all GPUs together, `None` for the most that latencies and
    memory allow; `available_bytes`: of each GPU, headroom already taken off.
    """
    if requirement.task.trains:
        trained = training_rate(requirement, board, layout, settings.training)
        return PredictedRate(
            tokens_per_second=trained.tokens_per_second,
            training_hours=trained.hours,
            mfu_ratio=trained.mfu_ratio,
        )
    memory = serving_memory(requirement, layout, settings.memory)
    if isinstance(requirement.model, Transformer):
        server = Server.of(memory, board, available_bytes, settings.serving)
        return _serving(requirement, server, concurrency)
    most = memory.largest_concurrency(available_bytes)
    return _sampling(requirement, board, layout, concurrency, most)


def _sampling(
    requirement: Requirement,
    board: Board,
    layout: Parallelism,
    concurrency: float | None,
    most: int,
) -> PredictedRate:
    """Of a model that answers a batch at a time: as many as is usual and memory and time allow."""
    load, rate = requirement.load, sample_rate(requirement, board, layout, concurrency)
    most = max(layout.data, most)
    while concurrency is None and rate.concurrency > layout.data:
        batch_ms = rate.batch_seconds.value * 1e3
        is_late = _is_over(batch_ms, load.ttft_ms) or _is_over(
            load.answer_ms(batch_ms, None), load.latency_ms
        )
        if rate.concurrency <= most and not is_late:
            break
        fewer = max(float(layout.data), min(float(most), rate.concurrency / 2.0))
        rate = sample_rate(requirement, board, layout, fewer)
    return PredictedRate(
        tokens_per_second=rate.samples_per_second,
        concurrency=rate.concurrency,
        ttft_ms=rate.batch_seconds.scaled(1e3),
    )


def _is_over(milliseconds: float, most: float | None) -> bool:
    return most is not None and milliseconds > most


def _serving(requirement: Requirement, server: Server, concurrency: float | None) -> PredictedRate:
    """Of a model of tokens; where not even one request meets the latencies, those of one."""
    serving = None
    if concurrency is None:
        best = best_concurrency(server)
        concurrency, serving = float(best.requests or server.memory.layout.data), best.serving
    serving = serving or server.at(concurrency)
    return PredictedRate(
        tokens_per_second=serving.tokens_per_second.scaled(
            units_per_token(requirement.model, requirement.load)
        ),
        concurrency=concurrency,
        ttft_ms=serving.ttft_ms,
        tpot_ms=serving.tpot_ms if server.forward.attention.is_causal else None,
        bound=str(serving.bound),
    )


def too_slow(
    requirement: Requirement, rate: PredictedRate, layout: Parallelism
) -> Iterator[Rejection]:
    """What of the load is not kept; how much it makes does not matter once it is late."""
    load = requirement.load
    is_late = tuple(late(load, rate))
    yield from is_late
    made, asked = rate.tokens_per_second, load.tokens_per_second
    if is_late or made is None or asked is None or made.value >= asked * (1.0 - _ROUNDING):
        return
    unit = work_unit(requirement.model)
    why = f"delivers {made.value:,.4g} {unit}/s, {asked:,g} asked for"
    if made.value > 0:
        why += f"; that would take {math.ceil(asked / made.value) * layout.gpus} GPUs"
    yield Rejection(CandidateFilter.THROUGHPUT, why)


def late(load: RequestLoad, rate: PredictedRate) -> Iterator[Rejection]:
    """The latencies that are above what is asked for."""
    first, between = rate.ttft_ms, rate.tpot_ms
    if load.ttft_ms is not None and first is not None and first.value > load.ttft_ms:
        why = f"first token after {first.value:.0f} ms, {load.ttft_ms:g} ms asked for"
        yield Rejection(CandidateFilter.COMPUTE, why)
    if load.tpot_ms is not None and between is not None and between.value > load.tpot_ms:
        why = f"{between.value:.1f} ms between tokens, {load.tpot_ms:g} ms asked for"
        yield Rejection(CandidateFilter.BANDWIDTH, why)
    if load.latency_ms is None or first is None:
        return
    answer_ms = load.answer_ms(first.value, None if between is None else between.value)
    if answer_ms > load.latency_ms:
        waited = ", the batch before it included" if between is None else ""
        why = f"answer after {answer_ms:.4g} ms{waited}, {load.latency_ms:g} ms asked for"
        by = CandidateFilter.COMPUTE if between is None else CandidateFilter.BANDWIDTH
        yield Rejection(by, why)
