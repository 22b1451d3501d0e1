"""What format a board multiplies in, and how fast, by the format that weights are kept in."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from rightsizer.catalogue.board import Board
from rightsizer.catalogue.precision import Precision
from rightsizer.sizing.number_format import NumberFormat

__all__ = ["compute_format", "matrix_flops_per_second"]

_UNITS: Final[Mapping[NumberFormat, Precision]] = MappingProxyType(
    {
        NumberFormat.FP32: Precision.FP32,
        NumberFormat.FP8: Precision.FP8,
        NumberFormat.INT8: Precision.INT8,
        NumberFormat.NVFP4: Precision.FP4,
    }
)
"""Of formats whose engines quantize activations too; all others are unpacked to 16 bits."""


def compute_format(board: Board, number_format: NumberFormat) -> Precision:
    """That of the weights where the board has units for it and they are faster, else 16 bits."""
    precision = _UNITS.get(number_format, Precision.BF16)
    if precision is Precision.FP32 and board.peak(precision) is not None:
        return precision
    own, usual = board.achieved(precision) or 0.0, board.achieved(Precision.BF16) or 0.0
    return precision if own > usual else Precision.BF16


def matrix_flops_per_second(board: Board, number_format: NumberFormat) -> float:
    """What large products of such weights reach; 0 where the board's peak is not known."""
    return board.achieved(compute_format(board, number_format)) or 0.0
