"""Roofline of a board: formats, time of a pass, and language models on it."""

import math
from collections.abc import Iterable
from enum import StrEnum
from typing import Final, NamedTuple

from rightsizer.catalogue.board import Board, Precision
from rightsizer.model.frozen import dataclass
from rightsizer.sizing.collectives import all_reduce_seconds
from rightsizer.sizing.memory_estimate import usable_bytes
from rightsizer.sizing.parameters import NumberFormat
from rightsizer.sizing.settings import MemorySettings

_UNITS: Final = {
    NumberFormat.FP8: (Precision.FP8, "Ada, Hopper and later"),
    NumberFormat.INT8: (Precision.INT8, "Turing and later"),
    NumberFormat.NVFP4: (Precision.FP4, "Blackwell and later"),
}
"""Formats with activation quantization in engines, and boards that support them; all others except
fp32 are unpacked to 16 bits."""
_VENDOR_UNPACKING: Final = "NVIDIA"
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


@dataclass(frozen=True, slots=True)
class BoardFormat:
    """Execution of a weight format on a board."""

    name: str
    """Effective format: `fp8`, `fp16`, or `fp8 as bf16` if weights are unpacked."""
    note: str = ""
    """Difference from the requested format."""
    fault: str = ""
    """Reason if the format is unsupported."""


def board_format(board: Board, asked: NumberFormat, *, trains: bool) -> BoardFormat:
    """Format that a board uses for weights in a requested format.

    Boards before Ampere lack bf16, so engines use fp16 with the same size. Kernels that unpack
    8-bit and 4-bit weights to 16 bits as they read them (Marlin in vLLM and SGLang) need Ampere.
    """
    if asked is NumberFormat.BF16:
        if board.computes_in_bf16:
            return BoardFormat(asked)
        scaled = "; scale the loss" if trains else ""
        return BoardFormat(
            NumberFormat.FP16,
            f"fp16 in place of bf16, which comes with Ampere: the largest number is 65,504{scaled}",
        )
    if asked not in _UNITS or board.peak(_UNITS[asked][0]) is not None:
        return BoardFormat(asked)
    since = _UNITS[asked][1]
    if trains or not board.computes_in_bf16 or board.vendor != _VENDOR_UNPACKING:
        remedy = "bf16" if board.computes_in_bf16 else "fp16"
        return BoardFormat(asked, fault=f"no {asked}, which {since} have; ask for int4 or {remedy}")
    return BoardFormat(
        f"{asked} as bf16",
        f"{asked} unpacked to bf16, as {since} have units for it: that saves memory and no"
        " computing, in engines that do it",
    )


def compute_format(board: Board, number_format: NumberFormat) -> Precision:
    """Format of the weights if the board computes faster in it, else 16 bits."""
    usual = Precision.BF16
    if number_format is NumberFormat.FP32 and board.peak(Precision.FP32) is not None:
        return Precision.FP32
    own = _UNITS[number_format][0] if number_format in _UNITS else usual
    return own if (board.achieved(own) or 0.0) > (board.achieved(usual) or 0.0) else usual


def matrix_flops_per_second(board: Board, number_format: NumberFormat) -> float:
    """Throughput of large products with such weights; infinite if the board's peak is unknown."""
    return board.achieved(compute_format(board, number_format)) or math.inf


class Bound(StrEnum):
    """Largest part of the time."""

    COMPUTE = "compute"
    BANDWIDTH = "bandwidth"
    COMMUNICATION = "communication"
    LATENCY = "latency"


class PassCost(NamedTuple):
    """Additive parts of the time of a pass; overlapping work is split by its share."""

    compute: float = 0.0
    bandwidth: float = 0.0
    communication: float = 0.0
    latency: float = 0.0

    @property
    def seconds(self) -> float:
        """Total time."""
        return self.compute + self.bandwidth + self.communication + self.latency

    @property
    def bound(self) -> Bound:
        """Largest part."""
        return tuple(Bound)[self.index(max(self))]

    def plus(self, other: "PassCost", times: float = 1.0) -> "PassCost":
        """Sum with a multiple of another cost."""
        return PassCost(
            self.compute + times * other.compute,
            self.bandwidth + times * other.bandwidth,
            self.communication + times * other.communication,
            self.latency + times * other.latency,
        )


@dataclass(frozen=True, slots=True)
class ServedModel:
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
        read, each = weights / bandwidth, cache / bandwidth + flops / compute
        most = (gpus * free - weights) / cache
        if step_limit_seconds is not None:
            most = min(most, (step_limit_seconds - read) / each)
        requests = min(max(most, _LEAST_REQUESTS * gpus), _MOST_REQUESTS * gpus)
        step = read + requests * each
        if gpus > 1:
            payload = requests * model.tokens_per_answer_token * model.hidden * 2.0
            sums = 2.0 * model.layers * all_reduce_seconds(board, gpus, payload)
            # Pipeline stages avoid slow links, at the cost of waiting for each other.
            step = min(step + sums, step / _STAGES_RATIO)
        return requests / (gpus * step)

    usable = [precision for precision in formats if board.achieved(precision)]
    return max(rate(precision, gpus) for precision in usable for gpus in _TENSOR)
