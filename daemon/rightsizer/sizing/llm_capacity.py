"""What a board does for language models where none is given.

One is served with as many requests at a time as memory leaves room for, or a latency bound allows.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from rightsizer.catalogue.board import Board, Precision
from rightsizer.sizing.overhead import usable_bytes
from rightsizer.sizing.roofline import all_reduce_seconds
from rightsizer.sizing.settings import MemorySettings


@dataclass(frozen=True, slots=True)
class ServedModel:
    """A language model, and what it is asked."""

    parameters: float
    layers: int
    hidden: int
    cache_elements: float
    """Of one token."""
    prompt_tokens: float
    answer_tokens: float

    @property
    def context_tokens(self) -> float:
        """Of a request, on average over its answer."""
        return self.prompt_tokens + self.answer_tokens / 2.0

    @property
    def tokens_per_answer_token(self) -> float:
        """All that are computed, those of the prompt among them."""
        return 1.0 + self.prompt_tokens / self.answer_tokens


LARGE: Final = ServedModel(69e9, 80, 8192, 163840.0, 294.0, 294.0)
"""Llama 2 70B (its config.json) on OpenOrca, as MLPerf inference serves it."""
SMALL: Final = ServedModel(8e9, 32, 4096, 65536.0, 778.0, 80.0)
"""Llama 3.1 8B (its config.json) on summaries of CNN/DailyMail, as MLPerf inference serves it and
GPT-J before it."""
_ROOM_BYTES: Final = 2e9
"""For activations and libraries."""
_MOST_REQUESTS: Final = 1024.0
"""Of one GPU; more do not make it faster."""
_TENSOR: Final = (1, 2, 4, 8)
_WEIGHT_BYTES: Final = {Precision.FP4: 0.5625, Precision.FP8: 1.0, Precision.INT8: 1.0}
_READ_RATIO: Final = 0.8
_STAGES_RATIO: Final = 0.5
"""What a pipeline over GPUs without links leaves; assumed."""
_LEAST_REQUESTS: Final = 4.0
"""Of one GPU, where memory or latency has no room for as many: such a board serves a smaller model,
with as little room beside it."""


_DEFAULTS: Final = MemorySettings()


def llm_tokens_per_second(
    board: Board,
    formats: Iterable[Precision],
    model: ServedModel = LARGE,
    step_limit_seconds: float | None = None,
    memory_settings: MemorySettings = _DEFAULTS,
) -> float:
    """Answered tokens of one GPU in the best of these formats, at the best tensor parallel degree.

    Raises:
        ValueError: the board computes in none of them.
    """
    usable = usable_bytes(board.memory_bytes, memory_settings) - _ROOM_BYTES
    served = _Served(board, model, step_limit_seconds, usable)
    return max(
        served.rate(precision, gpus)
        for precision in formats
        if board.achieved(precision)
        for gpus in _TENSOR
    )


@dataclass(frozen=True, slots=True)
class _Served:
    """A model on a board."""

    board: Board
    model: ServedModel
    step_limit_seconds: float | None
    room_bytes: float
    """Of one GPU, for weights and caches."""

    def rate(self, precision: Precision, gpus: int) -> float:
        """Answered tokens of one of so many GPUs that hold the model together."""
        board, model, limit = self.board, self.model, self.step_limit_seconds
        weights = model.parameters * _WEIGHT_BYTES.get(precision, 2.0)
        element = 1.0 if precision in _WEIGHT_BYTES else 2.0
        cache = model.cache_elements * element * model.context_tokens
        bandwidth = gpus * _READ_RATIO * board.memory_bandwidth_bytes_per_second
        compute = gpus * (board.achieved(precision) or 0.0)
        flops = 2.0 * model.parameters * model.tokens_per_answer_token
        read, each = weights / bandwidth, cache / bandwidth + flops / compute
        room = (gpus * self.room_bytes - weights) / cache
        if limit is not None:
            room = min(room, (limit - read) / each)
        requests = min(max(room, _LEAST_REQUESTS * gpus), _MOST_REQUESTS * gpus)
        step = read + requests * each
        if gpus > 1:
            told = requests * model.tokens_per_answer_token * model.hidden * 2.0
            sums = 2.0 * model.layers * all_reduce_seconds(board, gpus, told)
            # Slow links are spared by stages, which wait for each other instead.
            step = min(step + sums, step / _STAGES_RATIO)
        return requests / (gpus * step)
