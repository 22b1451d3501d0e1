"""Which metrics of serving engines tell of requests that wait, and how they add up.

The names are those that `telemetry.serving` reads of an engine's own page, and those of
trtllm-serve: tensorrt_llm/metrics/collector.py of NVIDIA/TensorRT-LLM.
"""

from dataclasses import dataclass
from typing import Final

from rightsizer.domain.signal_name import Signal

__all__ = ["MEASURES", "Measure"]


@dataclass(frozen=True, slots=True)
class Measure:
    """One metric of one engine."""

    metric: str
    """As an engine writes it; relays, and SGLang of 2026, write `_` for `:`."""
    signal: Signal
    together: str = "sum"
    """How an engine's models and replicas add up: `sum`, or `max` for the fullest."""
    is_counter: bool = False
    factor_per_second: float = 0.0
    """For a counter of time that requests spent inside: leads to how many were inside."""
    matcher: str = ""
    """Where a label tells which of its series is meant."""

    @property
    def function(self) -> str:
        """What makes a stretch's value of its samples."""
        return "increase" if self.is_counter else "avg_over_time"


_WAITING: Final = Signal.REQUESTS_WAITING
_RUNNING: Final = Signal.REQUESTS_RUNNING
_CACHE: Final = Signal.KV_CACHE_USED


def _sglang(name: str, signal: Signal, together: str = "sum") -> tuple[Measure, Measure]:
    return (
        Measure(f"sglang:{name}", signal, together),
        Measure(f"sglang_{name}", signal, together),
    )


def _request_type(state: str) -> str:
    return f'request_type="{state}"'


MEASURES: Final = (
    Measure("vllm:num_requests_waiting", _WAITING),
    # Until 0.9, requests whose cache was moved to the host waited in a queue of their own.
    Measure("vllm:num_requests_swapped", _WAITING),
    Measure("tgi_queue_size", _WAITING),
    *_sglang("num_queue_reqs", _WAITING),
    # Prefill and decode on engines of their own queue for the other's cache memory too.
    *_sglang("num_prefill_bootstrap_queue_reqs", _WAITING),
    *_sglang("num_prefill_prealloc_queue_reqs", _WAITING),
    *_sglang("num_decode_prealloc_queue_reqs", _WAITING),
    Measure("nv_trt_llm_request_metrics", _WAITING, matcher=_request_type("waiting")),
    Measure("trtllm_num_requests_waiting", _WAITING),
    Measure("nv_inference_pending_request_count", _WAITING),
    # Triton before 23.10 has no count of what waits, but the time it took.
    Measure("nv_inference_queue_duration_us", _WAITING, is_counter=True, factor_per_second=1e-6),
    Measure("vllm:num_requests_running", _RUNNING),
    Measure("tgi_batch_current_size", _RUNNING),
    *_sglang("num_running_reqs", _RUNNING),
    Measure("nv_trt_llm_request_metrics", _RUNNING, matcher=_request_type("scheduled")),
    Measure("trtllm_num_requests_running", _RUNNING),
    Measure("vllm:kv_cache_usage_perc", _CACHE, "max"),
    Measure("vllm:gpu_cache_usage_perc", _CACHE, "max"),
    *_sglang("token_usage", _CACHE, "max"),
    Measure(
        "nv_trt_llm_kv_cache_block_metrics",
        _CACHE,
        "max",
        matcher='kv_cache_block_type="fraction"',
    ),
    Measure("trtllm_kv_cache_utilization", _CACHE, "max"),
    Measure("vllm:num_preemptions_total", Signal.PREEMPTIONS, is_counter=True),
    # A retraction: a running request gives up its cache and queues again.
    Measure("sglang:num_retracted_requests_total", Signal.PREEMPTIONS, is_counter=True),
    Measure("sglang_num_retracted_requests_total", Signal.PREEMPTIONS, is_counter=True),
)
"""Those of one engine for one signal add up, but for the last of Triton's two."""
