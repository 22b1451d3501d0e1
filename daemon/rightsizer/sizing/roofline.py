"""Roofline of a board: formats of weights, and parts of the time of a pass."""

import math
from enum import StrEnum
from functools import partial
from typing import Final

from msgspec import Struct

from rightsizer.catalogue.board import Board, Precision
from rightsizer.sizing.parameters import NumberFormat

_UNITS: Final = {
    NumberFormat.FP8: (Precision.FP8, "Ada, Hopper and later"),
    NumberFormat.INT8: (Precision.INT8, "Turing and later"),
    NumberFormat.NVFP4: (Precision.FP4, "Blackwell and later"),
}
"""Formats with activation quantization in engines, and boards that support them; all others except
fp32 are unpacked to 16 bits."""
_VENDOR_UNPACKING: Final = "NVIDIA"


class BoardFormat(Struct, frozen=True):
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
    precision = _UNITS[number_format][0] if number_format in _UNITS else usual
    return (
        precision if (board.achieved(precision) or 0.0) > (board.achieved(usual) or 0.0) else usual
    )


def matrix_flops_per_second(board: Board, number_format: NumberFormat) -> float:
    """Throughput of large products with such weights; infinite if the board's peak is unknown."""
    return board.achieved(compute_format(board, number_format)) or math.inf


class Bound(StrEnum):
    """Largest part of the time."""

    COMPUTE = "compute"
    BANDWIDTH = "bandwidth"
    COMMUNICATION = "communication"
    LATENCY = "latency"


class PassCost(Struct, frozen=True, gc=False):
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
        return max(Bound, key=partial(getattr, self))

    def plus(self, other: "PassCost", times: float = 1.0) -> "PassCost":
        """Sum with a multiple of another cost."""
        return PassCost(
            self.compute + times * other.compute,
            self.bandwidth + times * other.bandwidth,
            self.communication + times * other.communication,
            self.latency + times * other.latency,
        )
