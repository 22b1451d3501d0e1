"""How fast a requirement is on given GPUs, whatever its model and task: one door to all rates."""

from typing import Final

from rightsizer.catalogue.board import Board
from rightsizer.sizing.best_concurrency import best_concurrency
from rightsizer.sizing.candidates import Rate
from rightsizer.sizing.models import Transformer
from rightsizer.sizing.requirement import Parallelism, Requirement
from rightsizer.sizing.sample_rate import SampleRate, sample_rate
from rightsizer.sizing.serving import Server
from rightsizer.sizing.serving_memory import serving_memory
from rightsizer.sizing.settings import SizingSettings
from rightsizer.sizing.training import train

__all__ = ["predict_rate"]

_DEFAULTS: Final = SizingSettings()


def predict_rate(  # noqa: PLR0913 - the search's question, and what a site knows better.
    requirement: Requirement,
    board: Board,
    layout: Parallelism,
    concurrency: float | None,
    available_bytes: float,
    *,
    settings: SizingSettings = _DEFAULTS,
) -> Rate:
    """The rate of a layout.

    Args:
        requirement: The model, its task and load.
        board: One of the GPUs.
        layout: How the model is spread over them.
        concurrency: Requests in flight on all of them together; the most that latencies and
            memory allow where it is not given.
        available_bytes: Of each GPU, headroom already taken off.
        settings: What is taken for granted of the software.
    """
    if requirement.task.trains:
        return _training(requirement, board, layout, settings)
    memory = serving_memory(requirement, layout, settings.memory)
    if isinstance(requirement.model, Transformer):
        return _serving(Server.of(memory, board, available_bytes, settings.serving), concurrency)
    most = memory.largest_concurrency(available_bytes)
    return _sampling(requirement, board, layout, concurrency, most)


def _training(
    requirement: Requirement, board: Board, layout: Parallelism, settings: SizingSettings
) -> Rate:
    trained = train(requirement, board, layout, settings.training)
    return Rate(
        tokens_per_second=trained.tokens_per_second,
        training_hours=trained.hours,
        mfu_ratio=trained.mfu_ratio,
    )


def _sampling(
    requirement: Requirement,
    board: Board,
    layout: Parallelism,
    concurrency: float | None,
    most: int,
) -> Rate:
    """Of a model that answers a batch at a time: as many as is usual and memory and time allow."""
    rate = sample_rate(requirement, board, layout, concurrency)
    if concurrency is None:
        most = max(layout.data, most)
        while _is_too_much(rate, most, requirement.load.ttft_ms, layout):
            fewer = max(float(layout.data), min(float(most), rate.concurrency / 2.0))
            rate = sample_rate(requirement, board, layout, fewer)
    return Rate(
        tokens_per_second=rate.samples_per_second,
        concurrency=rate.concurrency,
        ttft_ms=rate.batch_seconds.scaled(1e3),
    )


def _is_too_much(rate: SampleRate, most: int, asked_ms: float | None, layout: Parallelism) -> bool:
    if rate.concurrency <= layout.data:
        return False
    is_late = asked_ms is not None and rate.batch_seconds.value * 1e3 > asked_ms
    return rate.concurrency > most or is_late


def _serving(server: Server, concurrency: float | None) -> Rate:
    """Of a model of tokens; where not even one request meets the latencies, those of one."""
    if concurrency is None:
        best = best_concurrency(server)
        concurrency, serving = float(best.requests or server.memory.layout.data), best.serving
    else:
        serving = None
    serving = serving or server.at(concurrency)
    return Rate(
        tokens_per_second=serving.tokens_per_second,
        concurrency=concurrency,
        ttft_ms=serving.ttft_ms,
        tpot_ms=serving.tpot_ms,
        bound=str(serving.bound),
    )
