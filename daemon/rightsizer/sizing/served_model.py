"""Output tokens per second of language models of MLPerf on a board, by its roofline."""

from collections.abc import Iterable
from typing import Final

from msgspec import Struct

from rightsizer.catalogue.board import Board, Precision
from rightsizer.sizing.collectives import all_reduce_seconds
from rightsizer.sizing.memory_estimate import usable_bytes
from rightsizer.sizing.settings import MemorySettings

_WORKING_BYTES: Final = 2e9
"""For activations and libraries."""
_MOST_REQUESTS: Final = 1024.0
"""Per GPU; more do not increase throughput."""
_TENSOR: Final = (1, 2, 4, 8)
_WEIGHT_BYTES: Final = {Precision.FP4: 0.5625, Precision.FP8: 1.0, Precision.INT8: 1.0}
_READ_RATIO: Final = 0.8
_STAGES_RATIO: Final = 0.5
"""Efficiency of a pipeline over GPUs without links; assumed."""
_LEAST_REQUESTS: Final = 4.0
"""Per GPU, if memory or latency allows fewer: such a board serves a smaller model with equally
little free memory."""
_DEFAULTS: Final = MemorySettings()


class ServedModel(Struct, frozen=True):
    """Language model and its load."""

    parameters: float
    layers: int
    hidden: int
    cache_elements: float
    """Per token."""
    prompt_tokens: float
    answer_tokens: float

    @property
    def context_tokens(self) -> float:
        """Tokens in context per request, averaged over its answer."""
        return self.prompt_tokens + self.answer_tokens / 2.0

    @property
    def tokens_per_answer_token(self) -> float:
        """Computed tokens per output token, including the prompt's."""
        return 1.0 + self.prompt_tokens / self.answer_tokens


LARGE: Final = ServedModel(69e9, 80, 8192, 163840.0, 294.0, 294.0)
"""Llama 2 70B (its config.json) on OpenOrca, as in MLPerf inference."""
SMALL: Final = ServedModel(8e9, 32, 4096, 65536.0, 778.0, 80.0)
"""Llama 3.1 8B (its config.json) on summaries of CNN/DailyMail, as in MLPerf inference, earlier
with GPT-J."""


def llm_tokens_per_second(
    board: Board,
    formats: Iterable[Precision],
    model: ServedModel = LARGE,
    step_limit_seconds: float | None = None,
    memory_settings: MemorySettings = _DEFAULTS,
) -> float:
    """Output tokens per GPU in the best of these formats, at the best tensor parallel degree.

    Raises:
        ValueError: the board supports none of them.
    """
    free = usable_bytes(board.memory_bytes, memory_settings) - _WORKING_BYTES

    def rate(precision: Precision, gpus: int) -> float:
        weights = model.parameters * _WEIGHT_BYTES.get(precision, 2.0)
        element = 1.0 if precision in _WEIGHT_BYTES else 2.0
        cache = model.cache_elements * element * model.context_tokens
        bandwidth = gpus * _READ_RATIO * board.memory_bandwidth_bytes_per_second
        compute = gpus * (board.achieved(precision) or 0.0)
        flops = 2.0 * model.parameters * model.tokens_per_answer_token
        read = weights / bandwidth
        request_seconds = cache / bandwidth + flops / compute
        request_maximum = (gpus * free - weights) / cache
        if step_limit_seconds is not None:
            request_maximum = min(request_maximum, (step_limit_seconds - read) / request_seconds)
        requests = min(max(request_maximum, _LEAST_REQUESTS * gpus), _MOST_REQUESTS * gpus)
        step = read + requests * request_seconds
        if gpus > 1:
            payload = requests * model.tokens_per_answer_token * model.hidden * 2.0
            sums = 2.0 * model.layers * all_reduce_seconds(board, gpus, payload)
            # Pipeline stages avoid slow links, at the cost of waiting for each other.
            step = min(step + sums, step / _STAGES_RATIO)
        return requests / (gpus * step)

    usable = [precision for precision in formats if board.achieved(precision)]
    return max(rate(precision, gpus) for precision in usable for gpus in _TENSOR)
