"""How far ratios are off that were fitted without a GPU, a benchmark or a round."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from evaluation.mlperf import Cell, Pair, pairs
from evaluation.ratio_fit import fit_cells
from rightsizer.catalogue.catalogue import built_in
from rightsizer.catalogue.ratio_table import RatioFit
from rightsizer.sizing.ratio import error_kind, is_no_worse, log_score
from rightsizer.sizing.workload_family import WorkloadActivity

__all__ = ["Judged", "error_of", "left_out"]


@dataclass(frozen=True, slots=True)
class Judged:
    """A pair, how it was left out, and how far the logarithm is off."""

    pair: Pair
    left_out: str
    kind: str
    log_error: float


def left_out(cells: Sequence[Cell], activity: WorkloadActivity) -> Iterator[Judged]:
    """Every pair under each of the three ways to leave it out of the fit."""
    for gpu in sorted({gpu for cell in cells for gpu in cell.logs}):
        fit = fit_cells([cell.without(gpu) for cell in cells], activity)
        for pair in pairs(cells):
            if gpu in {pair.gpu, pair.other}:
                yield _judged(pair, "GPU", fit)
    ways: tuple[tuple[str, Callable[[Cell], str]], ...] = (
        ("benchmark", lambda cell: cell.benchmark),
        ("round", lambda cell: cell.round),
    )
    for way, key in ways:
        for held in sorted({key(cell) for cell in cells}):
            fit = fit_cells([cell for cell in cells if key(cell) != held], activity)
            for pair in pairs([cell for cell in cells if key(cell) == held]):
                yield _judged(pair, way, fit)


def error_of(pair: Pair, fit: RatioFit) -> float:
    """Measured less predicted, as logarithms."""
    workload, boards = pair.cell.workload, built_in()
    board, other = boards.get(pair.gpu), boards.get(pair.other)
    log = log_score(fit, workload, other) - log_score(fit, workload, board)
    if is_no_worse(other, board):
        log = max(0.0, log)
    if is_no_worse(board, other):
        log = min(0.0, log)
    return pair.log_ratio - log


def _judged(pair: Pair, way: str, fit: RatioFit) -> Judged:
    boards = built_in()
    kind = error_kind(fit, pair.cell.workload, boards.get(pair.gpu), boards.get(pair.other))
    return Judged(pair, way, kind, error_of(pair, fit))
