"""NVIDIA Triton Inference Server, its TensorRT-LLM and vLLM backends included.

Names: docs/user_guide/metrics.md of triton-inference-server/server (the pending request count
since 23.10); custom_metrics_reporter.cc of TensorRT-LLM's backend; src/utils/metrics.py of
triton-inference-server/vllm_backend, which writes vLLM's own names on Triton's page.

Durations and successes count the same requests. An ensemble counts beside the models it is
made of, so that what runs is an upper bound there.
"""

from typing import Final

from rightsizer.domain.signal import Signal
from rightsizer.telemetry.serving.engine import (
    Engine,
    Kind,
    Measure,
    Part,
    largest,
    mean,
    occupancy,
    total,
)
from rightsizer.telemetry.serving.settings import EngineName
from rightsizer.telemetry.serving.vllm import VLLM

__all__ = ["TRITON"]

_MICROSECONDS: Final = 1e-6
_MILLISECONDS: Final = 1e-3


def _requests(state: str) -> Part:
    return Part("nv_trt_llm_request_metrics", (("request_type", state),))


_HANDLED: Final = Part("nv_inference_request_duration_us", factor=_MICROSECONDS)
_QUEUED: Final = Part("nv_inference_queue_duration_us", factor=_MICROSECONDS)
_NOT_QUEUED: Final = Part("nv_inference_queue_duration_us", factor=-_MICROSECONDS)

TRITON: Final = Engine(
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
            Part("nv_trt_llm_kv_cache_block_metrics", (("kv_cache_block_type", "fraction"),)),
        ),
        mean(
            Signal.TIME_TO_FIRST_TOKEN_SECONDS,
            "nv_inference_first_response_histogram_ms",
            _MILLISECONDS,
        ),
        Measure(
            Signal.REQUEST_LATENCY_SECONDS,
            Kind.MEAN,
            (_HANDLED,),
            (Part("nv_inference_request_success"),),
        ),
        *VLLM.measures,
    ),
)
