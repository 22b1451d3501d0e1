"""What a board does for language models where none is given.

A large one is served, with as many requests at a time as memory leaves room for.
"""

from collections.abc import Iterable
from typing import Final

from rightsizer.catalogue.board import Board
from rightsizer.catalogue.precision import Precision
from rightsizer.sizing.collective import all_reduce_seconds
from rightsizer.sizing.memory_settings import MemorySettings
from rightsizer.sizing.overhead import usable_bytes

__all__ = ["llm_tokens_per_second"]

_PARAMETERS: Final = 69e9
_LAYERS: Final = 80
_HIDDEN: Final = 8192
_CACHE_ELEMENTS: Final = 163840.0
"""Of one token. All four: Llama 2 70B (its config.json), which MLPerf serves."""
_CONTEXT_TOKENS: Final = 400.0
"""Of a request on average: prompts and answers of the OpenOrca set, about 300 each."""
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
"""Of one GPU, where memory has no room for as many: such a board serves a smaller model, with as
little room beside it."""


def llm_tokens_per_second(board: Board, formats: Iterable[Precision]) -> float:
    """Of one GPU in the best of these formats, at the best tensor parallel degree.

    Raises:
        ValueError: the board computes in none of them.
    """
    return max(
        _rate(board, precision, gpus)
        for precision in formats
        if board.achieved(precision)
        for gpus in _TENSOR
    )


def _rate(board: Board, precision: Precision, gpus: int) -> float:
    weights = _PARAMETERS * _WEIGHT_BYTES.get(precision, 2.0)
    element = 1.0 if precision in _WEIGHT_BYTES else 2.0
    cache = _CACHE_ELEMENTS * element * _CONTEXT_TOKENS
    usable = usable_bytes(board.memory_bytes, MemorySettings()) - _ROOM_BYTES
    room = (gpus * usable - weights) / cache
    requests = min(max(room, _LEAST_REQUESTS * gpus), _MOST_REQUESTS * gpus)
    bandwidth = gpus * _READ_RATIO * board.memory_bandwidth_bytes_per_second
    compute = gpus * (board.achieved(precision) or 0.0)
    step = (weights + requests * cache) / bandwidth + 2.0 * _PARAMETERS * requests / compute
    if gpus > 1:
        told = 2.0 * _LAYERS * all_reduce_seconds(board, gpus, requests * _HIDDEN * 2.0)
        # Slow links are spared by stages, which wait for each other instead.
        step = min(step + told, step / _STAGES_RATIO)
    return requests / (gpus * step)
