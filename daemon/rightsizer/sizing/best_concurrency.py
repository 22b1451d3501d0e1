"""How many requests in flight are best: the most that memory, engine and latencies allow."""

from collections.abc import Callable
from dataclasses import dataclass

from rightsizer.sizing.serving import Server, Serving

__all__ = ["BestConcurrency", "best_concurrency"]


@dataclass(frozen=True, slots=True)
class BestConcurrency:
    """The most requests in flight, and what they see."""

    requests: int
    """On all GPUs together; 0 where not even one for each replica is within the limits."""
    serving: Serving | None
    """`None` where there are no requests."""


def best_concurrency(server: Server) -> BestConcurrency:
    """The most requests in flight within memory and the latencies of the load.

    Throughput grows with every request, so that the same is best where no latency is asked for.
    """
    replicas = server.memory.layout.data
    by_memory = server.memory.largest_concurrency(server.available_bytes) // replicas

    def is_within(requests: int) -> bool:
        return _is_in_time(server.at(requests * replicas), server)

    best = _largest(min(by_memory, server.settings.requests_maximum), is_within)
    return BestConcurrency(best * replicas, server.at(best * replicas) if best else None)


def _is_in_time(serving: Serving, server: Server) -> bool:
    load = server.memory.requirement.load
    is_fluent = load.tpot_ms is None or serving.tpot_ms.value <= load.tpot_ms
    return is_fluent and (load.ttft_ms is None or serving.ttft_ms.value <= load.ttft_ms)


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
