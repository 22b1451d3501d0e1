"""Ratio of throughputs of two GPUs or MIG slices at a kind of workload, without a profile."""

import math
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from itertools import product
from typing import Final

from rightsizer.catalogue.board import Board, Precision
from rightsizer.catalogue.ratio_table import RatioFit, RatioTable
from rightsizer.sizing.estimate import EstimateInterval
from rightsizer.sizing.mig import slice_rate
from rightsizer.sizing.place import GpuPlace
from rightsizer.sizing.roofline import LARGE, SERVER_GPUS, SMALL, llm_tokens_per_second
from rightsizer.sizing.settings import MemorySettings
from rightsizer.sizing.workload_family import (
    EXCHANGED_BYTES_PER_SECOND,
    ComparedWorkload,
    InferenceScenario,
    ModelKind,
    WorkloadActivity,
)

_DEFAULTS: Final = MemorySettings()
_EIGHT_BITS: Final = (Precision.FP8, Precision.BF16)
_INTEGER: Final = (Precision.INT8, Precision.BF16)
_NARROWEST: Final = (Precision.FP4, Precision.FP8, Precision.BF16)
_LARGE_SHARE: Final = 0.75
"""Of what is served: MLPerf has three benchmarks of a language model that takes several GPUs for
each of one that does not."""
_STEP_LIMIT_SECONDS: Final = 0.1
"""Between answered tokens on average, so that 99% of requests stay below MLPerf's 0.2 s."""
_LLM_FORMATS: Final = (_NARROWEST, (Precision.FP4, Precision.FP8, Precision.INT8, Precision.BF16))
"""Where there is no fp8, some models hold their accuracy in 8-bit integers and others do not."""
_SMALL_L2_BYTES: Final = 6e6
"""Of a board whose L2 is unknown; as most that came before 2020."""

Formats = tuple[tuple[Precision, ...], ...]
"""The best formats of several ways to run a family, best first; their mean counts."""

_FORMATS: Final[Mapping[tuple[WorkloadActivity, ModelKind], Formats]] = {
    (WorkloadActivity.INFERENCE, ModelKind.CNN): (_INTEGER,),
    (WorkloadActivity.INFERENCE, ModelKind.DETECTION): (_INTEGER,),
    (WorkloadActivity.INFERENCE, ModelKind.SEGMENTATION): (_INTEGER,),
    (WorkloadActivity.INFERENCE, ModelKind.RECOMMENDER): (_INTEGER,),
    # 8-bit integers hold 99% of the accuracy, 99.9% takes fp8 or 16 bits.
    (WorkloadActivity.INFERENCE, ModelKind.TRANSFORMER_ENCODER): (_INTEGER, _EIGHT_BITS),
    (WorkloadActivity.INFERENCE, ModelKind.DIFFUSION): (_EIGHT_BITS,),
    (WorkloadActivity.TRAINING, ModelKind.TRANSFORMER_ENCODER): (_EIGHT_BITS,),
    # fp4 is young: some train in it where it is offered.
    (WorkloadActivity.TRAINING, ModelKind.LLM): (_EIGHT_BITS, _NARROWEST),
}
"""What engines and recipes use, without which 16 bits (MLPerf's closed division)."""
_FALLBACK: Final = (Precision.BF16, Precision.FP32)
_ALIKE: Final = EstimateInterval(1.0, 1.0, 1.0)
_REFERENCE: Final[Mapping[str, float]] = {
    "compute": math.log(262e12),
    "bandwidth": math.log(2.039e12),
    "power": math.log(400.0),
}
"""An A100 SXM of 80 GB, at which exchanges are told and features are 0."""
_REFERENCE_MEMORY_BYTES: Final = 80e9
_GROUPS: Final = (1, 8)
"""Of GPUs that train together where the question does not say."""
_EXPOSED_SHARE: Final = 0.5
"""Of an exchange, that does not hide behind compute; as training of language models showed."""
_PCIE_SHARE: Final = 0.2
"""Of a slot's bandwidth, that GPUs behind it reach when all exchange: the geometric mean of sums
measured over 4 and 8 L40S (0.18, 0.05) and RTX PRO 6000 (0.42, 0.39)."""
_ALL_TO_ALL: Final = frozenset({ModelKind.RECOMMENDER, ModelKind.GRAPH})
"""Families whose GPUs send each other something else each; all others sum what all have."""


def board_features(
    board: Board, workload: ComparedWorkload, memory_settings: MemorySettings = _DEFAULTS
) -> Mapping[str, float]:
    """The features of a board, by the names of the fit's exponents, beside those of an A100."""
    formats = _FORMATS.get((workload.activity, workload.family), ((Precision.BF16,),))
    if workload.precision is not None and board.achieved(workload.precision):
        formats = ((workload.precision,),)
    features = {
        "power": math.log(board.power_limit_watts) - _REFERENCE["power"],
        "other_vendor": 0.0 if board.vendor == "NVIDIA" else 1.0,
    }
    if workload.activity is WorkloadActivity.INFERENCE and workload.family is ModelKind.LLM:
        features["llm"] = _llm_capacity(board, workload, memory_settings)
        return features
    compute = sum(_achieved(board, each) for each in formats) / len(formats)
    bandwidth = math.log(board.memory_bandwidth_bytes_per_second)
    features["compute"] = compute - _REFERENCE["compute"]
    features["bandwidth"] = bandwidth - _REFERENCE["bandwidth"]
    if workload.activity is WorkloadActivity.INFERENCE:
        features["l2"] = math.log(board.l2_bytes or _SMALL_L2_BYTES)
    return features


def _llm_capacity(board: Board, workload: ComparedWorkload, settings: MemorySettings) -> float:
    asked, scenarios = workload.precision, tuple(InferenceScenario)
    ways = _LLM_FORMATS if asked is None else ((asked, Precision.BF16),)
    limits = [
        None if each is InferenceScenario.OFFLINE else _STEP_LIMIT_SECONDS
        for each in ((workload.scenario,) if workload.scenario else scenarios)
    ]
    served, total = ((LARGE, _LARGE_SHARE), (SMALL, 1.0 - _LARGE_SHARE)), 0.0
    for (model, share), limit, way in product(served, limits, ways):
        made = llm_tokens_per_second(board, way, model, limit, settings)
        total += share * math.log(made) / (len(ways) * len(limits))
    return total


def _achieved(board: Board, formats: tuple[Precision, ...]) -> float:
    """In the fastest of these formats; a board that has fp8 instead of int8 takes that."""
    wanted = {*formats, *({Precision.FP8} if Precision.INT8 in formats else ())}
    return math.log(max(board.achieved(each) or 0.0 for each in (*wanted, *_FALLBACK)))


def throughput_ratio(
    workload: ComparedWorkload,
    board: Board,
    other: Board,
    table: RatioTable,
    memory_settings: MemorySettings = _DEFAULTS,
) -> EstimateInterval:
    """The throughput of the other board over that of the first, at equal count.

    A board that is no worse in any figure is never told to be slower, whatever was measured on it.
    """
    if board.key == other.key:
        return _ALIKE
    fit = table.fits[workload.activity]
    log, doubt = log_ratio(fit, workload, board, other, memory_settings)
    kind = error_kind(fit, workload, board, other)
    error = fit.errors.get(kind, fit.errors["across unmeasured"])
    return EstimateInterval.around(math.exp(log), math.exp(math.hypot(error, doubt)))


def log_ratio(
    fit: RatioFit,
    workload: ComparedWorkload,
    board: Board,
    other: Board,
    memory_settings: MemorySettings = _DEFAULTS,
) -> tuple[float, float]:
    """The logarithm of a ratio, and how far off it may be for the group that is left open."""
    groups = [workload]
    if workload.activity is WorkloadActivity.TRAINING and workload.gpus is None:
        groups = [replace(workload, gpus=each) for each in _GROUPS]
    score = partial(log_score, fit, memory_settings=memory_settings)
    logs = [score(each, other) - score(each, board) for each in groups]
    log = (max(logs) + min(logs)) / 2.0
    doubt = max(logs) - log
    log = max(0.0, log) if is_no_worse(other, board) else log
    return min(0.0, log) if is_no_worse(board, other) else log, doubt


def log_score(
    fit: RatioFit,
    workload: ComparedWorkload,
    board: Board,
    memory_settings: MemorySettings = _DEFAULTS,
) -> float:
    """The logarithm of a board's throughput, but for what is the same on all boards."""
    features, family = board_features(board, workload, memory_settings), workload.family
    by_figures = sum(fit.exponent(figure, family) * value for figure, value in features.items())
    beyond = fit.beyond(board.key, family) + fit.beyond_architecture(board.architecture, family)
    if workload.activity is WorkloadActivity.INFERENCE:
        return by_figures + beyond
    # Beside a second of the A100's computing, on this board.
    exposed = exchange_seconds(board, workload.family, workload.gpus or 1) * math.exp(by_figures)
    return by_figures + beyond - math.log1p(exposed)


def exchange_seconds(board: Board, family: ModelKind, gpus: int) -> float:
    """What GPUs that train together wait for each other, for a second's work of an A100.

    Those that links join sum among themselves first, so that each takes only its part of the sum
    beyond. A board with less memory takes smaller batches, and exchanges the same more often.
    """
    together = min(gpus, SERVER_GPUS)
    linked = min(board.linked_gpu_count or 1, together)
    within, beyond = (linked - 1) / linked, (together - linked) / (together * linked)
    if family in _ALL_TO_ALL:
        within, beyond = (linked - 1) / together, (together - linked) / together
    pcie = _PCIE_SHARE * board.pcie_bytes_per_second
    seconds_per_byte = within / max(board.link_bytes_per_second, pcie) + beyond / pcie
    steps = max(1.0, _REFERENCE_MEMORY_BYTES / (board.nominal_memory_bytes or board.memory_bytes))
    handed_on = 2.0 * EXCHANGED_BYTES_PER_SECOND[family] * steps
    return _EXPOSED_SHARE * handed_on * seconds_per_byte


def is_no_worse(board: Board, other: Board) -> bool:
    """Whether a board has no peak, bandwidth, memory or power limit less than another's."""
    figures = ("memory_bandwidth_bytes_per_second", "memory_bytes", "power_limit_watts")
    own, peaks = board.peak_per_second, other.peak_per_second.items()
    return all((own.get(precision) or 0.0) >= peak for precision, peak in peaks) and all(
        getattr(board, each) >= getattr(other, each) for each in figures
    )


def error_kind(fit: RatioFit, workload: ComparedWorkload, board: Board, other: Board) -> str:
    """What is known of a pair, as the table's errors are named."""
    near = "same" if board.architecture == other.architecture else "across"
    if workload.family is ModelKind.LLM and workload.activity is WorkloadActivity.INFERENCE:
        # A roofline of its own, and single submissions: how much is measured does not tell.
        return f"{near} llm"
    boards = (board.key, other.key)
    if all(fit.has_measured(key, workload.family) for key in boards):
        return f"{near} measured"
    return f"{near} {'other family' if all(map(fit.has_measured, boards)) else 'unmeasured'}"


def place_ratio(
    workload: ComparedWorkload, place: GpuPlace, other: GpuPlace, table: RatioTable
) -> EstimateInterval:
    """The throughput of the other place over that of the first, neighbors of slices idle."""
    settings = place.memory_settings
    boards = throughput_ratio(workload, place.board, other.board, table, settings)
    if place.name == other.name or (place.slice is None and other.slice is None):
        return boards
    rate, other_rate = _rate(workload, place), _rate(workload, other)
    ratio = boards.value * other_rate.value / rate.value
    # The three are wrong for reasons of their own.
    logs = [math.log(each.high / each.value) for each in (boards, rate, other_rate)]
    return EstimateInterval.around(ratio, math.exp(math.hypot(*logs)))


def _rate(workload: ComparedWorkload, place: GpuPlace) -> EstimateInterval:
    if place.slice is None:
        return _ALIKE
    is_bound = workload.scenario is InferenceScenario.SERVER
    asked = place.board, place.slice, workload.compute_share
    return slice_rate(*asked, is_latency_bound=is_bound)
