"""What of a board its throughput goes by, as logarithms."""

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from rightsizer.catalogue.board import Board
from rightsizer.catalogue.precision import Precision
from rightsizer.sizing.llm_capacity import LARGE, SMALL, llm_tokens_per_second
from rightsizer.sizing.memory_settings import MemorySettings
from rightsizer.sizing.workload_family import Activity, Family, Scenario, Workload

__all__ = ["board_features"]

_DEFAULTS: Final = MemorySettings()
_PLAIN: Final = (Precision.BF16,)
_EIGHT_BITS: Final = (Precision.FP8, Precision.BF16)
_INTEGER: Final = (Precision.INT8, Precision.BF16)
_NARROWEST: Final = (Precision.FP4, Precision.FP8, Precision.BF16)
_LARGE_SHARE: Final = 0.75
"""Of what is served: MLPerf has three benchmarks of a language model that takes several GPUs for
each of one that does not."""
_STEP_LIMIT_SECONDS: Final = 0.1
"""Between answered tokens on average, so that 99 % of requests stay below MLPerf's 0.2 s."""
_LLM_FORMATS: Final = (_NARROWEST, (Precision.FP4, Precision.FP8, Precision.INT8, Precision.BF16))
"""Where there is no fp8, some models hold their accuracy in 8-bit integers and others do not."""
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
    board: Board,
    workload: Workload,
    precision: Precision | None = None,
    memory_settings: MemorySettings = _DEFAULTS,
) -> Mapping[str, float]:
    """The features of a board, by the names of the fit's exponents.

    Args:
        board: The board.
        workload: What runs on it.
        precision: The format to run in; the best that is usable where it is not given or the
            board does not compute in it.
        memory_settings: What of its memory nobody can have.
    """
    formats = _formats(board, workload, precision)
    features = {
        "power": math.log(board.power_limit_watts),
        "other_vendor": 0.0 if board.vendor == "NVIDIA" else 1.0,
    }
    if workload.activity is Activity.INFERENCE and workload.family is Family.LLM:
        features["llm"] = _llm_capacity(board, workload.scenario, precision, memory_settings)
        return features
    features["compute"] = _mean([_achieved(board, each) for each in formats])
    features["bandwidth"] = math.log(board.memory_bandwidth_bytes_per_second)
    if workload.activity is Activity.TRAINING:
        link = max(board.link_bytes_per_second, board.pcie_bytes_per_second)
        features["link"] = math.log(link)
    else:
        features["l2"] = math.log(board.l2_bytes or _SMALL_L2_BYTES)
    return features


def _llm_capacity(
    board: Board,
    scenario: Scenario | None,
    precision: Precision | None,
    memory_settings: MemorySettings,
) -> float:
    ways = _LLM_FORMATS if precision is None else ((precision, Precision.BF16),)
    limits = [
        None if each is Scenario.OFFLINE else _STEP_LIMIT_SECONDS
        for each in ((scenario,) if scenario else Scenario)
    ]
    served = ((LARGE, _LARGE_SHARE), (SMALL, 1.0 - _LARGE_SHARE))
    return sum(
        share
        * math.log(llm_tokens_per_second(board, way, model, limit, memory_settings))
        / (len(ways) * len(limits))
        for model, share in served
        for limit in limits
        for way in ways
    )


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
