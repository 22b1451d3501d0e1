"""vLLM, engine versions 0 and 1.

Names: vllm/engine/metrics.py (0.5 to 0.9) and vllm/v1/metrics/loggers.py (0.8 on) of
vllm-project/vllm, and docs.vllm.ai, "Production Metrics", up to 0.32. Data-parallel engines
are told apart by the label `engine`.
"""

from typing import Final

from rightsizer.domain.signal import Signal
from rightsizer.telemetry.serving.engine import Engine, largest, mean, total
from rightsizer.telemetry.serving.settings import EngineName

__all__ = ["VLLM"]

VLLM: Final = Engine(
    name=EngineName.VLLM,
    prefixes=("vllm_",),
    measures=(
        total(Signal.REQUESTS_RUNNING, "vllm:num_requests_running"),
        # Until 0.9, requests whose cache was moved to the host waited in a queue of their own.
        total(Signal.REQUESTS_WAITING, "vllm:num_requests_waiting", "vllm:num_requests_swapped"),
        largest(Signal.KV_CACHE_USED, "vllm:kv_cache_usage_perc"),
        largest(Signal.KV_CACHE_USED, "vllm:gpu_cache_usage_perc"),  # Until 0.9; 1 is full too.
        total(Signal.PREEMPTIONS, "vllm:num_preemptions_total"),
        mean(Signal.TIME_TO_FIRST_TOKEN_SECONDS, "vllm:time_to_first_token_seconds"),
        mean(Signal.TIME_PER_OUTPUT_TOKEN_SECONDS, "vllm:inter_token_latency_seconds"),
        mean(Signal.TIME_PER_OUTPUT_TOKEN_SECONDS, "vllm:time_per_output_token_seconds"),
        mean(Signal.TIME_PER_OUTPUT_TOKEN_SECONDS, "vllm:request_time_per_output_token_seconds"),
        mean(Signal.REQUEST_LATENCY_SECONDS, "vllm:e2e_request_latency_seconds"),
    ),
)
