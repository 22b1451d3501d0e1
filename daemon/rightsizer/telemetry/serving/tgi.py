"""Hugging Face's Text Generation Inference.

Names: huggingface.co/docs/text-generation-inference/reference/metrics, and router/src/infer.rs
and server.rs of huggingface/text-generation-inference (1.0 to 3.3). It tells neither its cache
nor the time to the first token, and its page is empty until the first request.
"""

from typing import Final

from rightsizer.domain.signal import Signal
from rightsizer.telemetry.serving.engine import Engine, mean, total
from rightsizer.telemetry.serving.settings import EngineName

__all__ = ["TGI"]

TGI: Final = Engine(
    name=EngineName.TGI,
    prefixes=("tgi_",),
    measures=(
        total(Signal.REQUESTS_RUNNING, "tgi_batch_current_size"),
        total(Signal.REQUESTS_WAITING, "tgi_queue_size"),
        mean(Signal.TIME_PER_OUTPUT_TOKEN_SECONDS, "tgi_request_mean_time_per_token_duration"),
        mean(Signal.REQUEST_LATENCY_SECONDS, "tgi_request_duration"),
    ),
)
