"""Throughput ratio of two GPUs or MIG slices for a kind of workload, without a profile."""

import math
from collections.abc import Mapping
from functools import partial
from itertools import product
from typing import Final

from msgspec.structs import replace

from rightsizer.catalogue.board import Board, Precision
from rightsizer.catalogue.ratio_table import RatioFit, RatioTable
from rightsizer.sizing.collectives import SERVER_GPUS
from rightsizer.sizing.estimate import EstimateInterval
from rightsizer.sizing.mig import slice_rate
from rightsizer.sizing.place import GpuPlace
from rightsizer.sizing.served_model import LARGE, SMALL, llm_tokens_per_second
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
"""Weight in serving: MLPerf has three benchmarks with language models that need several GPUs per
benchmark with one that does not."""
_STEP_LIMITS_SECONDS: Final = {InferenceScenario.OFFLINE: None, InferenceScenario.SERVER: 0.1}
"""Average time between output tokens that keeps 99% of requests below MLPerf's 0.2 s."""
_LLM_FORMATS: Final = (_NARROWEST, (Precision.FP4, Precision.FP8, Precision.INT8, Precision.BF16))
"""Without fp8, some models keep their accuracy in 8-bit integers and others do not."""
_SMALL_L2_BYTES: Final = 6e6
"""Default for boards with unknown L2 size, as on most before 2020."""
_FORMATS: Final[Mapping[tuple[WorkloadActivity, ModelKind], tuple[tuple[Precision, ...], ...]]] = {
    (WorkloadActivity.INFERENCE, ModelKind.CNN): (_INTEGER,),
    (WorkloadActivity.INFERENCE, ModelKind.DETECTION): (_INTEGER,),
    (WorkloadActivity.INFERENCE, ModelKind.SEGMENTATION): (_INTEGER,),
    (WorkloadActivity.INFERENCE, ModelKind.RECOMMENDER): (_INTEGER,),
    # 8-bit integers keep 99% of the accuracy, 99.9% requires fp8 or 16 bits.
    (WorkloadActivity.INFERENCE, ModelKind.TRANSFORMER_ENCODER): (_INTEGER, _EIGHT_BITS),
    (WorkloadActivity.INFERENCE, ModelKind.DIFFUSION): (_EIGHT_BITS,),
    (WorkloadActivity.TRAINING, ModelKind.TRANSFORMER_ENCODER): (_EIGHT_BITS,),
    # fp4 is new: some train in it if supported.
    (WorkloadActivity.TRAINING, ModelKind.LLM): (_EIGHT_BITS, _NARROWEST),
}
"""Formats used by engines and recipes, each best first, the mean of several ways to run a family;
16 bits for all others (MLPerf's closed division)."""
_FALLBACK: Final = (Precision.BF16, Precision.FP32)
_ALIKE: Final = EstimateInterval(1.0, 1.0, 1.0)
_REFERENCE: Final[Mapping[str, float]] = {
    "compute": math.log(262e12),
    "bandwidth": math.log(2.039e12),
    "power": math.log(400.0),
}
"""An A100 SXM 80 GB, the reference for exchange times, with all features 0."""
_REFERENCE_MEMORY_BYTES: Final = 80e9
_GROUPS: Final = (1, 8)
"""Group sizes in training if unspecified."""
_EXPOSED_SHARE: Final = 0.5
"""Fraction of an exchange not hidden behind compute, from training of language models."""
_PCIE_SHARE: Final = 0.2
"""Fraction of slot bandwidth reached per GPU when all exchange: geometric mean of all-reduces
measured over 4 and 8 L40S (0.18, 0.05) and RTX PRO 6000 (0.42, 0.39)."""
_ALL_TO_ALL: Final = frozenset({ModelKind.RECOMMENDER, ModelKind.GRAPH})
"""Families with all-to-all exchange between GPUs; all others use all-reduce."""
_FIXED_SECONDS: Final = 0.03
"""Time per second of work on an A100 that no figure of a board shortens, launches and the host:
4 ms of a step of 0.13 s. Steps of MLPerf, by the batch of a GPU, leave 5 ms with ResNet-50."""
_LONG_STEPS: Final = frozenset({ModelKind.LLM, ModelKind.DIFFUSION})
"""Families whose steps take seconds, so that this time is negligible."""


def board_features(
    board: Board, workload: ComparedWorkload, memory_settings: MemorySettings = _DEFAULTS
) -> Mapping[str, float]:
    """Features of a board relative to an A100, by the names of the fit's exponents."""
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
    compute = sum(_achieved(board, precisions) for precisions in formats) / len(formats)
    bandwidth = math.log(board.memory_bandwidth_bytes_per_second)
    features["compute"] = compute - _REFERENCE["compute"]
    features["bandwidth"] = bandwidth - _REFERENCE["bandwidth"]
    if workload.activity is WorkloadActivity.INFERENCE:
        features["l2"] = math.log(board.l2_bytes or _SMALL_L2_BYTES)
    return features


def _llm_capacity(board: Board, workload: ComparedWorkload, settings: MemorySettings) -> float:
    asked = workload.precision
    ways = _LLM_FORMATS if asked is None else ((asked, Precision.BF16),)
    scenarios = (workload.scenario,) if workload.scenario else InferenceScenario
    limits = [_STEP_LIMITS_SECONDS[scenario] for scenario in scenarios]
    served = ((LARGE, _LARGE_SHARE), (SMALL, 1.0 - _LARGE_SHARE))
    total = 0.0
    for (model, share), limit, way in product(served, limits, ways):
        made = llm_tokens_per_second(board, way, model, limit, settings)
        total += share * math.log(made) / (len(ways) * len(limits))
    return total


def _achieved(board: Board, formats: tuple[Precision, ...]) -> float:
    """Log throughput in the fastest of these formats; boards with fp8 instead of int8 use fp8."""
    wanted = {*formats, *({Precision.FP8} if Precision.INT8 in formats else ())}
    return math.log(max(board.achieved(precision) or 0.0 for precision in (*wanted, *_FALLBACK)))


def throughput_ratio(
    workload: ComparedWorkload,
    board: Board,
    other: Board,
    table: RatioTable,
    memory_settings: MemorySettings = _DEFAULTS,
) -> EstimateInterval:
    """Throughput of the other board divided by that of the first, per GPU.

    A board with no worse figure is never rated slower, regardless of measured workloads.
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
    """Log ratio, and its uncertainty due to an unspecified group size."""
    groups = [workload]
    if workload.activity is WorkloadActivity.TRAINING and workload.gpus is None:
        groups = [replace(workload, gpus=group) for group in _GROUPS]
    score = partial(log_score, fit, memory_settings=memory_settings)
    logs = [score(group, other) - score(group, board) for group in groups]
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
    """Log throughput of a board, up to terms common to all boards."""
    features = board_features(board, workload, memory_settings)
    family = workload.family
    by_figures = sum(fit.exponent(figure, family) * value for figure, value in features.items())
    beyond = fit.beyond(board.key, family) + fit.beyond_architecture(board.architecture, family)
    if workload.activity is WorkloadActivity.INFERENCE:
        return by_figures + beyond
    # Relative to a second of compute on the A100, on this board.
    overhead = overhead_seconds(board, family, workload.gpus or 1)
    return by_figures + beyond - math.log1p(overhead * math.exp(by_figures))


def overhead_seconds(board: Board, family: ModelKind, gpus: int) -> float:
    """Time of training spent waiting for other GPUs and the host, per second of work on an A100.

    Linked GPUs first reduce among themselves, so that each handles only its part of the remaining
    exchange. A board with less memory uses smaller batches, so it does the same more often.
    """
    together = min(gpus, SERVER_GPUS)
    linked = min(board.linked_gpu_count or 1, together)
    within = (linked - 1) / linked
    beyond = (together - linked) / (together * linked)
    if family in _ALL_TO_ALL:
        within = (linked - 1) / together
        beyond = (together - linked) / together
    pcie = _PCIE_SHARE * board.pcie_bytes_per_second
    seconds_per_byte = within / max(board.link_bytes_per_second, pcie) + beyond / pcie
    steps = max(1.0, _REFERENCE_MEMORY_BYTES / (board.nominal_memory_bytes or board.memory_bytes))
    exchange = _EXPOSED_SHARE * 2.0 * EXCHANGED_BYTES_PER_SECOND[family] * seconds_per_byte
    return steps * (exchange + (0.0 if family in _LONG_STEPS else _FIXED_SECONDS))


def is_no_worse(board: Board, other: Board) -> bool:
    """Whether no achieved throughput, bandwidth, memory or power limit is below that of another."""
    figures = ("memory_bandwidth_bytes_per_second", "memory_bytes", "power_limit_watts")
    return all(
        (board.achieved(precision) or 0.0) >= (other.achieved(precision) or 0.0)
        for precision in other.peak_per_second
    ) and all(getattr(board, figure) >= getattr(other, figure) for figure in figures)


def error_kind(fit: RatioFit, workload: ComparedWorkload, board: Board, other: Board) -> str:
    """Kind of knowledge about a pair, as in the names of the table's errors."""
    near = "same" if board.architecture == other.architecture else "across"
    if workload.family is ModelKind.LLM and workload.activity is WorkloadActivity.INFERENCE:
        # Based on a separate roofline and single submissions, independent of the number of
        # measurements.
        return f"{near} llm"
    boards = (board.key, other.key)
    if all(fit.has_measured(key, workload.family) for key in boards):
        return f"{near} measured"
    return f"{near} {'other family' if all(map(fit.has_measured, boards)) else 'unmeasured'}"


def place_ratio(
    workload: ComparedWorkload, place: GpuPlace, other: GpuPlace, table: RatioTable
) -> EstimateInterval:
    """Throughput of the other place divided by that of the first, with idle neighbors of slices."""
    settings = place.memory_settings
    boards = throughput_ratio(workload, place.board, other.board, table, settings)
    if place.name == other.name or (place.slice is None and other.slice is None):
        return boards
    rate = _rate(workload, place)
    other_rate = _rate(workload, other)
    ratio = boards.value * other_rate.value / rate.value
    # The three errors are independent.
    logs = [math.log(interval.high / interval.value) for interval in (boards, rate, other_rate)]
    return EstimateInterval.around(ratio, math.exp(math.hypot(*logs)))


def _rate(workload: ComparedWorkload, place: GpuPlace) -> EstimateInterval:
    if place.slice is None:
        return _ALIKE
    is_bound = workload.scenario is InferenceScenario.SERVER
    return slice_rate(place.board, place.slice, workload.compute_share, is_latency_bound=is_bound)
