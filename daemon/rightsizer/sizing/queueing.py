"""How many requests an engine runs at a time, and how long a prompt waits for its turn."""

import math
from dataclasses import dataclass
from typing import Self

from rightsizer.sizing.serving_memory import ServingMemory

__all__ = ["Capacity", "Running", "bunch"]


@dataclass(frozen=True, slots=True)
class Running:
    """Requests of one replica."""

    asked: float
    running: float
    """As many as the KV cache holds; the others wait for one of them to end."""

    def queue_seconds(self, residence_seconds: float) -> float:
        """What a request waits, by what it takes once it runs (Little's law)."""
        return max(0.0, self.asked / self.running - 1.0) * residence_seconds


@dataclass(frozen=True, slots=True)
class Capacity:
    """How many requests the memory of one replica holds; never less than one."""

    requests: float

    @classmethod
    def of(cls, memory: ServingMemory, available_bytes: float) -> Self:
        """That of each GPU's memory.

        Engines hand out the cache as tokens come, so that it holds as many requests as are half
        done on average. Where not even one fits, one is taken to run.
        """
        replicas, load = memory.layout.data, memory.requirement.load
        surely = memory.largest_concurrency(available_bytes) / replicas
        each = memory.cache.request_bytes(load.input_tokens + load.output_tokens / 2.0)
        if not surely or not each:
            return cls(max(1.0, surely))
        fullest = memory.at(surely * replicas)
        left = available_bytes - (fullest.total_bytes - fullest.kv_cache_bytes)
        return cls(max(surely, left / each))

    def share(self, asked: float) -> Running:
        """Of so many requests in flight those that run; a replica has at least one."""
        asked = max(1.0, asked)
        return Running(asked, min(asked, self.requests))


def bunch(requests: float, bunching_ratio: float) -> float:
    """Prompts that one finds before it, its own included.

    Requests that began together end together, and the next ones begin together again; lengths that
    differ and bursts that end draw them apart, so that a bunch grows with the root of their number.
    """
    return 1.0 + bunching_ratio * (math.sqrt(max(1.0, requests)) - 1.0)
