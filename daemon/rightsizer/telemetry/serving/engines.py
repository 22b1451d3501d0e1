"""Metrics of the supported engines: vLLM, SGLang, TGI, Triton."""

from typing import Final

from rightsizer.model.signal import Signal
from rightsizer.telemetry.serving.engine import (
    EngineDefinition,
    EngineMeasure,
    MeasureKind,
    MeasurePart,
    largest,
    mean,
    occupancy,
    total,
)
from rightsizer.telemetry.serving.settings import EngineName

VLLM: Final = EngineDefinition(
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


SGLANG: Final = EngineDefinition(
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


TGI: Final = EngineDefinition(
    name=EngineName.TGI,
    prefixes=("tgi_",),
    measures=(
        total(Signal.REQUESTS_RUNNING, "tgi_batch_current_size"),
        total(Signal.REQUESTS_WAITING, "tgi_queue_size"),
        mean(Signal.TIME_PER_OUTPUT_TOKEN_SECONDS, "tgi_request_mean_time_per_token_duration"),
        mean(Signal.REQUEST_LATENCY_SECONDS, "tgi_request_duration"),
    ),
)


_MICROSECONDS: Final = 1e-6
_MILLISECONDS: Final = 1e-3


def _requests(state: str) -> MeasurePart:
    return MeasurePart("nv_trt_llm_request_metrics", (("request_type", state),))


_HANDLED: Final = MeasurePart("nv_inference_request_duration_us", factor=_MICROSECONDS)
_QUEUED: Final = MeasurePart("nv_inference_queue_duration_us", factor=_MICROSECONDS)
_NOT_QUEUED: Final = MeasurePart("nv_inference_queue_duration_us", factor=-_MICROSECONDS)

TRITON: Final = EngineDefinition(
    name=EngineName.TRITON,
    prefixes=("nv_inference_", "nv_gpu_", "nv_cpu_", "nv_pinned_memory_", "nv_trt_llm_"),
    measures=(
        total(Signal.REQUESTS_RUNNING, _requests("scheduled"), "vllm:num_requests_running"),
        occupancy(Signal.REQUESTS_RUNNING, _HANDLED, _NOT_QUEUED),
        # What has left Triton's queue may wait in the backend's own.
        total(
            Signal.REQUESTS_WAITING,
            "nv_inference_pending_request_count",
            _requests("waiting"),
            "vllm:num_requests_waiting",
        ),
        occupancy(Signal.REQUESTS_WAITING, _QUEUED),
        largest(
            Signal.KV_CACHE_USED,
            MeasurePart(
                "nv_trt_llm_kv_cache_block_metrics", (("kv_cache_block_type", "fraction"),)
            ),
        ),
        mean(
            Signal.TIME_TO_FIRST_TOKEN_SECONDS,
            "nv_inference_first_response_histogram_ms",
            _MILLISECONDS,
        ),
        EngineMeasure(
            Signal.REQUEST_LATENCY_SECONDS,
            MeasureKind.MEAN,
            (_HANDLED,),
            (MeasurePart("nv_inference_request_success"),),
        ),
        *VLLM.measures,
    ),
)


ENGINES: Final[tuple[EngineDefinition, ...]] = (TRITON, VLLM, SGLANG, TGI)
"""Triton before vLLM, whose metrics its backend writes on the same page."""
