"""How many requests in flight are best: the most that memory, engine and latencies allow."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from rightsizer.catalogue.board import Board
from rightsizer.sizing.requirement import Parallelism, Requirement
from rightsizer.sizing.serving import Server, Serving
from rightsizer.sizing.serving_memory import serving_memory
from rightsizer.sizing.serving_settings import ServingSettings

__all__ = ["BestConcurrency", "Limit", "best_concurrency", "search_concurrency"]

_DEFAULTS: Final = ServingSettings()


class Limit(StrEnum):
    """What keeps more requests out."""

    MEMORY = "memory"
    TPOT = "tpot"
    TTFT = "ttft"
    ENGINE = "engine"


@dataclass(frozen=True, slots=True)
class BestConcurrency:
    """The most requests in flight, and what they see."""

    requests: int
    """On all GPUs together; 0 where not even one for each replica is within the limits."""
    serving: Serving | None
    """`None` where there are no requests."""
    limit: Limit
    """What the next request would break."""
    reaches_target: bool | None
    """Whether the tokens a second that were asked for are reached; `None` where none were."""


def best_concurrency(
    requirement: Requirement,
    board: Board,
    layout: Parallelism,
    available_bytes: float,
    settings: ServingSettings = _DEFAULTS,
) -> BestConcurrency:
    """The most requests in flight within memory and the latencies of the load.

    Throughput grows with every request, so that the same is best where no latency is asked for.
    """
    memory = serving_memory(requirement, layout)
    return search_concurrency(Server.of(memory, board, available_bytes, settings))


def search_concurrency(server: Server) -> BestConcurrency:
    """The same for a server at hand."""
    memory, load = server.memory, server.memory.requirement.load
    replicas = memory.layout.data
    by_memory = memory.largest_concurrency(server.available_bytes) // replicas
    by_engine = server.settings.requests_maximum
    most = min(by_memory, by_engine)

    def is_within(requests: int) -> bool:
        return _broken(server.at(requests * replicas), server) is None

    best = _largest(most, is_within)
    limit = Limit.MEMORY if by_memory <= by_engine else Limit.ENGINE
    if best < most:
        limit = _broken(server.at((best + 1) * replicas), server) or limit
    serving = server.at(best * replicas) if best else None
    target = load.tokens_per_second
    reaches = None
    if target is not None:
        reaches = serving is not None and serving.tokens_per_second.value >= target
    return BestConcurrency(best * replicas, serving, limit, reaches)


def _broken(serving: Serving, server: Server) -> Limit | None:
    load = server.memory.requirement.load
    if load.tpot_ms is not None and serving.tpot_ms.value > load.tpot_ms:
        return Limit.TPOT
    if load.ttft_ms is not None and serving.ttft_ms.value > load.ttft_ms:
        return Limit.TTFT
    return None


def _largest(most: int, is_within: Callable[[int], bool]) -> int:
    """The largest count that is within, where all below it are too; 0 where none is."""
    low, high = 0, most
    while low < high:
        middle = (low + high + 1) // 2
        if is_within(middle):
            low = middle
        else:
            high = middle - 1
    return low
