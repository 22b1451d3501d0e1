"""SGLang, with `--enable-metrics`.

Names: python/sglang/srt/metrics/collector.py, later observability/metrics_collector.py, of
sgl-project/sglang. Routers and releases of 2026 write `sglang_` for `sglang:`.

Every rank may report (`--enable-metrics-for-all-schedulers`): ranks of one `dp_rank` count the
same requests. With priority scheduling the series with `priority=""` is the total, and those
with a number are its parts.
"""

from typing import Final

from rightsizer.domain.signal import Signal
from rightsizer.telemetry.serving.engine import Engine, largest, mean, total
from rightsizer.telemetry.serving.settings import EngineName

__all__ = ["SGLANG"]

SGLANG: Final = Engine(
    name=EngineName.SGLANG,
    prefixes=("sglang_",),
    copies=frozenset({"tp_rank", "pp_rank", "moe_ep_rank"}),
    breakdowns=frozenset({"priority"}),
    measures=(
        total(Signal.REQUESTS_RUNNING, "sglang:num_running_reqs"),
        # Prefill and decode on engines of their own queue for the other's cache memory too.
        total(
            Signal.REQUESTS_WAITING,
            "sglang:num_queue_reqs",
            "sglang:num_prefill_bootstrap_queue_reqs",
            "sglang:num_prefill_prealloc_queue_reqs",  # The same, in 2025.
            "sglang:num_decode_prealloc_queue_reqs",
        ),
        largest(Signal.KV_CACHE_USED, "sglang:token_usage"),
        # A retraction: a running request gives up its cache and queues again.
        total(Signal.PREEMPTIONS, "sglang:num_retracted_requests_total"),
        mean(Signal.TIME_TO_FIRST_TOKEN_SECONDS, "sglang:time_to_first_token_seconds"),
        mean(Signal.TIME_PER_OUTPUT_TOKEN_SECONDS, "sglang:inter_token_latency_seconds"),
        mean(Signal.TIME_PER_OUTPUT_TOKEN_SECONDS, "sglang:time_per_output_token_seconds"),
        mean(Signal.REQUEST_LATENCY_SECONDS, "sglang:e2e_request_latency_seconds"),
    ),
)
