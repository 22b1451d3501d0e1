"""How much faster one GPU is than another at a kind of workload, without a measured profile."""

import math
from typing import Final

from rightsizer.catalogue.board import Board
from rightsizer.catalogue.precision import Precision
from rightsizer.catalogue.ratio_table import RatioFit, RatioTable
from rightsizer.sizing.estimate import Interval
from rightsizer.sizing.memory_settings import MemorySettings
from rightsizer.sizing.ratio_features import board_features
from rightsizer.sizing.workload_family import Family, Workload

__all__ = ["error_kind", "is_no_worse", "log_score", "throughput_ratio"]

_DEFAULTS: Final = MemorySettings()
_ALIKE: Final = Interval(1.0, 1.0, 1.0)


def throughput_ratio(  # noqa: PLR0913 - the question, and what a site knows better.
    workload: Workload,
    board: Board,
    other: Board,
    table: RatioTable,
    precision: Precision | None = None,
    *,
    memory_settings: MemorySettings = _DEFAULTS,
) -> Interval:
    """The throughput of the other board over that of the first, at equal count.

    Each runs in its best usable format, or in the one given where it can. A board that is no worse
    in any figure is never told to be slower, whatever was measured on it.
    """
    if board.key == other.key:
        return _ALIKE
    fit = table.fits[workload.activity]
    theirs, own = (
        log_score(fit, workload, each, precision, memory_settings) for each in (other, board)
    )
    log = theirs - own
    if is_no_worse(other, board):
        log = max(0.0, log)
    if is_no_worse(board, other):
        log = min(0.0, log)
    return Interval.around(math.exp(log), math.exp(_error(fit, workload, board, other)))


def log_score(
    fit: RatioFit,
    workload: Workload,
    board: Board,
    precision: Precision | None = None,
    memory_settings: MemorySettings = _DEFAULTS,
) -> float:
    """The logarithm of a board's throughput, but for what is the same on all boards."""
    features = board_features(board, workload, precision, memory_settings)
    by_figures = sum(
        fit.exponent(figure, workload.family) * value for figure, value in features.items()
    )
    return (
        by_figures
        + fit.beyond(board.key, workload.family)
        + fit.beyond_architecture(board.architecture, workload.family)
    )


def is_no_worse(board: Board, other: Board) -> bool:
    """Whether a board has no peak, bandwidth, memory or power limit less than another's."""
    peaks = all(
        (board.peak_per_second.get(precision) or 0.0) >= peak
        for precision, peak in other.peak_per_second.items()
    )
    return (
        peaks
        and board.memory_bandwidth_bytes_per_second >= other.memory_bandwidth_bytes_per_second
        and board.memory_bytes >= other.memory_bytes
        and board.power_limit_watts >= other.power_limit_watts
    )


def error_kind(fit: RatioFit, workload: Workload, board: Board, other: Board) -> str:
    """What is known of a pair, as the table's errors are named."""
    near = "same" if board.architecture == other.architecture else "across"
    if workload.family is Family.LLM:
        # A roofline of its own, and single submissions: how much is measured does not tell.
        return f"{near} llm"
    boards = (board.key, other.key)
    if all(fit.has_measured(key, workload.family) for key in boards):
        return f"{near} measured"
    return f"{near} {'other family' if all(map(fit.has_measured, boards)) else 'unmeasured'}"


def _error(fit: RatioFit, workload: Workload, board: Board, other: Board) -> float:
    kind = error_kind(fit, workload, board, other)
    return fit.errors.get(kind, fit.errors["across unmeasured"])
