"""What of a board its throughput goes by, as logarithms."""

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from rightsizer.catalogue.board import Board
from rightsizer.catalogue.precision import Precision
from rightsizer.sizing.llm_capacity import llm_tokens_per_second
from rightsizer.sizing.workload_family import Activity, Family, Workload

__all__ = ["board_features"]

_PLAIN: Final = (Precision.BF16,)
_EIGHT_BITS: Final = (Precision.FP8, Precision.BF16)
_INTEGER: Final = (Precision.INT8, Precision.BF16)
_NARROWEST: Final = (Precision.FP4, Precision.FP8, Precision.BF16)
_SMALL_L2_BYTES: Final = 6e6
"""Of a board whose L2 nobody knows; as most that came before 2020."""

Formats = tuple[tuple[Precision, ...], ...]
"""The best formats of several ways to run a family, best first; their mean counts."""

_FORMATS: Final[Mapping[tuple[Activity, Family], Formats]] = MappingProxyType(
    {
        (Activity.INFERENCE, Family.CNN): (_INTEGER,),
        (Activity.INFERENCE, Family.DETECTION): (_INTEGER,),
        (Activity.INFERENCE, Family.SEGMENTATION): (_INTEGER,),
        (Activity.INFERENCE, Family.RECOMMENDER): (_INTEGER,),
        # 8-bit integers hold 99 % of the accuracy, 99.9 % takes fp8 or 16 bits.
        (Activity.INFERENCE, Family.TRANSFORMER_ENCODER): (
            (Precision.INT8, Precision.BF16),
            _EIGHT_BITS,
        ),
        (Activity.INFERENCE, Family.DIFFUSION): (_EIGHT_BITS,),
        (Activity.TRAINING, Family.TRANSFORMER_ENCODER): (_EIGHT_BITS,),
        # fp4 is young: some train in it where it is offered.
        (Activity.TRAINING, Family.LLM): (_EIGHT_BITS, _NARROWEST),
    }
)
"""What engines and recipes use, without which 16 bits (MLPerf's closed division)."""


def board_features(
    board: Board, workload: Workload, precision: Precision | None = None
) -> Mapping[str, float]:
    """The features of a board, by the names of the fit's exponents.

    Args:
        board: The board.
        workload: What runs on it.
        precision: The format to run in; the best that is usable where it is not given or the
            board does not compute in it.
    """
    formats = _formats(board, workload, precision)
    features = {
        "power": math.log(board.power_limit_watts),
        "other_vendor": 0.0 if board.vendor == "NVIDIA" else 1.0,
    }
    if workload.activity is Activity.INFERENCE and workload.family is Family.LLM:
        best = _NARROWEST if precision is None else (precision, Precision.BF16)
        features["llm"] = math.log(llm_tokens_per_second(board, best))
        return features
    features["compute"] = _mean([_achieved(board, each) for each in formats])
    features["bandwidth"] = math.log(board.memory_bandwidth_bytes_per_second)
    if workload.activity is Activity.TRAINING:
        link = max(board.link_bytes_per_second, board.pcie_bytes_per_second)
        features["link"] = math.log(link)
    else:
        features["l2"] = math.log(board.l2_bytes or _SMALL_L2_BYTES)
    return features


def _formats(board: Board, workload: Workload, precision: Precision | None) -> Formats:
    if precision is not None and board.achieved(precision):
        return ((precision,),)
    return _FORMATS.get((workload.activity, workload.family), (_PLAIN,))


def _achieved(board: Board, formats: tuple[Precision, ...]) -> float:
    """In the fastest of these formats; a board that has fp8 instead of int8 takes that."""
    wanted = {*formats, *({Precision.FP8} if Precision.INT8 in formats else ())}
    return math.log(max(board.achieved(each) or 0.0 for each in (*wanted, *_FALLBACK)))


_FALLBACK: Final = (Precision.BF16, Precision.FP32)


def _mean(values: list[float]) -> float:
    return sum(values) / len(values)
