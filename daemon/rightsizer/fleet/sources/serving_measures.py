"""Which metrics of serving engines tell of requests that wait, and how they add up.

The names are those that `telemetry.serving` reads of an engine's own page.
"""

from dataclasses import dataclass
from typing import Final

from rightsizer.domain.signal_name import Signal

__all__ = ["MEASURES", "Measure"]


@dataclass(frozen=True, slots=True)
class Measure:
    """One metric of one engine."""

    metric: str
    signal: Signal
    together: str = "sum"
    """How an engine's models and replicas add up: `sum`, or `max` for the fullest."""
    is_counter: bool = False
    factor_per_second: float = 0.0
    """For a counter of time that requests spent inside: leads to how many were inside."""

    @property
    def function(self) -> str:
        """What makes a stretch's value of its samples."""
        return "increase" if self.is_counter else "avg_over_time"


_WAITING: Final = Signal.REQUESTS_WAITING
_RUNNING: Final = Signal.REQUESTS_RUNNING
_CACHE: Final = Signal.KV_CACHE_USED

MEASURES: Final = (
    Measure("vllm:num_requests_waiting", _WAITING),
    # Until 0.9, requests whose cache was moved to the host waited in a queue of their own.
    Measure("vllm:num_requests_swapped", _WAITING),
    Measure("tgi_queue_size", _WAITING),
    Measure("sglang:num_queue_reqs", _WAITING),
    Measure("nv_inference_pending_request_count", _WAITING),
    # Triton before 23.10 has no count of what waits, but the time it took.
    Measure("nv_inference_queue_duration_us", _WAITING, is_counter=True, factor_per_second=1e-6),
    Measure("vllm:num_requests_running", _RUNNING),
    Measure("tgi_batch_current_size", _RUNNING),
    Measure("sglang:num_running_reqs", _RUNNING),
    Measure("vllm:kv_cache_usage_perc", _CACHE, "max"),
    Measure("vllm:gpu_cache_usage_perc", _CACHE, "max"),
    Measure("sglang:token_usage", _CACHE, "max"),
    Measure("vllm:num_preemptions_total", Signal.PREEMPTIONS, is_counter=True),
)
"""Those of one engine for one signal add up, but for the last of Triton's two."""
