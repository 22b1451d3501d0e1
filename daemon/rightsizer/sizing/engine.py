"""Serving engines: default limits on concurrent requests and on prompt tokens per pass."""

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from rightsizer.catalogue.board import Board
from rightsizer.model.units import GIB
from rightsizer.sizing.serving_settings import ServingModelSettings

TAKEN_RATIO: Final = 0.9
"""Of the memory of a GPU, what servers take ahead: vLLM's `gpu_memory_utilization`, TensorRT-LLM's
`free_gpu_memory_fraction`; SGLang's `mem_fraction_static` is near it."""
_LARGE_BYTES: Final = 70 * GIB


class ServingEngine(StrEnum):
    """Server of a language model, or of speech alone."""

    VLLM = "vllm"
    SGLANG = "sglang"
    TENSORRT_LLM = "tensorrt-llm"
    FASTER_WHISPER = "faster-whisper"
    WHISPER_CPP = "whisper.cpp"

    @property
    def hears_alone(self) -> bool:
        """Whether it serves speech only, one sound after the other."""
        return self in {ServingEngine.FASTER_WHISPER, ServingEngine.WHISPER_CPP}


class EngineDefaults(Struct, frozen=True):
    """Defaults of an engine."""

    version: str
    """Version with these defaults."""
    requests_maximum: Callable[[Board], int]
    """Maximum number of concurrent requests per replica."""
    chunk_tokens: Callable[[Board], int]
    """Prompt tokens in one pass."""
    is_cache_quantized: bool = False
    """Whether keys and values have 8 bits if weights have 8 or 4 bits."""
    balances_experts: bool = True
    """Whether experts that replicas share are copied and moved until all GPUs have as much to do
    (EPLB), and are multiplied by grouped kernels (DeepGEMM)."""


_OVERLAPPED_RATIO: Final = 0.3
"""Share of vLLM's time per request in engines that prepare a step during the one before: with a
board left out 0.2 to 0.4 on 141 published rates of TensorRT-LLM 1.0, x1.10 off, x1.11 with 1."""
_BALANCED_RATIO: Final = 1.2
"""Tokens of the fullest GPU, relative to the mean, if experts are balanced: with all alike SGLang
takes prompts of DeepSeek-V3 1.18 times as fast on 32 H100 (lmsys.org blog, 2025-05-05)."""
_ALONE_ERROR_FACTOR: Final = 1.6
"""Whisper large by faster-whisper on an RTX 3090 and 5090, A100, V100S and T4: x1.22 off, x1.49 at
most."""


def _is_large(board: Board) -> bool:
    """Criterion of vLLM, whose developers saw A100 lose with large batches of prompts."""
    return board.memory_bytes >= _LARGE_BYTES and "A100" not in board.key


def _sglang_chunk(board: Board) -> int:
    sizes = ((35, 2048), (60, 4096), (160, 8192))
    return next(
        (size for memory_gib, size in sizes if board.memory_bytes < memory_gib * GIB), 16384
    )


ENGINES: Final[Mapping[ServingEngine, EngineDefaults]] = {
    ServingEngine.VLLM: EngineDefaults(
        version="0.12",
        requests_maximum=lambda board: 1024 if _is_large(board) else 256,
        chunk_tokens=lambda board: 8192 if _is_large(board) else 2048,
    ),
    ServingEngine.SGLANG: EngineDefaults("0.5", lambda _: 2048, _sglang_chunk),
    ServingEngine.TENSORRT_LLM: EngineDefaults(
        "1.0", lambda _: 2048, lambda _: 8192, is_cache_quantized=True, balances_experts=False
    ),
    ServingEngine.FASTER_WHISPER: EngineDefaults("1.2", lambda _: 1, lambda _: 1500),
    ServingEngine.WHISPER_CPP: EngineDefaults("1.8", lambda _: 1, lambda _: 1500),
}
"""From vLLM's `max_num_seqs` and `max_num_batched_tokens`, SGLang's `max_running_requests` and
`chunked_prefill_size`, TensorRT-LLM's `max_batch_size` and `max_num_tokens`, and
`kv_cache_quant_algo` in NVIDIA's checkpoints for it."""


def engine_settings(
    settings: ServingModelSettings, engine: ServingEngine, board: Board
) -> ServingModelSettings:
    """Fill in missing limits with the engine's defaults for a board."""
    defaults = ENGINES[engine]
    requests = settings.requests_maximum or defaults.requests_maximum(board)
    chunk = settings.chunk_tokens or defaults.chunk_tokens(board)
    if engine.hears_alone:
        errors = replace(settings.errors, encoder_decoder_factor=_ALONE_ERROR_FACTOR)
        seconds = settings.encoder_decoder_layer_seconds
        settings = replace(settings, errors=errors, layer_seconds=seconds)
    if defaults.balances_experts:
        settings = replace(settings, expert_imbalance_ratio=_BALANCED_RATIO)
    else:
        plain = settings.expert_compute_ratio
        settings = replace(settings, shared_expert_compute_ratio=plain)
    if engine is not ServingEngine.VLLM:
        seconds = _OVERLAPPED_RATIO * settings.request_layer_seconds
        settings = replace(settings, request_layer_seconds=seconds)
    return replace(settings, requests_maximum=requests, chunk_tokens=chunk)
