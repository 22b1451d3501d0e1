"""Format that a board runs weights in: the one asked for, one in its place, or none."""

from collections.abc import Mapping
from typing import Final

from rightsizer.catalogue.board import Board, Precision
from rightsizer.model.frozen import dataclass
from rightsizer.sizing.parameters import NumberFormat

_UNITS: Final[Mapping[NumberFormat, tuple[Precision, str]]] = {
    NumberFormat.FP8: (Precision.FP8, "Ada, Hopper and later"),
    NumberFormat.INT8: (Precision.INT8, "Turing and later"),
    NumberFormat.NVFP4: (Precision.FP4, "Blackwell and later"),
}
"""Formats that are computed in where a board has units for them, and which boards those are."""
_VENDOR_UNPACKING: Final = "NVIDIA"


@dataclass(frozen=True, slots=True)
class BoardFormat:
    """What becomes of weights in a format on a board."""

    name: str
    """What it runs in: `fp8`, `fp16`, or `fp8 as bf16` where weights are unpacked."""
    note: str = ""
    """What differs from the format asked for."""
    fault: str = ""
    """Why it cannot run them at all."""


def board_format(board: Board, asked: NumberFormat, *, trains: bool) -> BoardFormat:
    """The format of a board where weights in another are asked for.

    Before Ampere there is no bf16, and engines take fp16, of the same size. Kernels that unpack
    weights of 8 and 4 bits to 16 bits as they read them (Marlin in vLLM and SGLang) need Ampere.
    """
    if asked is NumberFormat.BF16:
        if board.computes_in_bf16:
            return BoardFormat(asked)
        scaled = "; scale the loss" if trains else ""
        return BoardFormat(
            NumberFormat.FP16,
            f"fp16 in place of bf16, which comes with Ampere: the largest number is 65,504{scaled}",
        )
    precision, since = _UNITS.get(asked, (None, ""))
    if precision is None or board.peak(precision) is not None:
        return BoardFormat(asked)
    if trains or not board.computes_in_bf16 or board.vendor != _VENDOR_UNPACKING:
        remedy = "bf16" if board.computes_in_bf16 else "fp16"
        return BoardFormat(asked, fault=f"no {asked}, which {since} have; ask for int4 or {remedy}")
    return BoardFormat(
        f"{asked} as bf16",
        f"{asked} unpacked to bf16, as {since} have units for it: that saves memory and no"
        " computing, in engines that do it",
    )
