"""Errors of ratios fitted without a GPU, a family, a benchmark or a round."""

from collections.abc import Callable, Iterator, Sequence

from msgspec import Struct

from evaluation.sizing.mlperf import Cell, Pair, pairs
from evaluation.sizing.ratio_fit import fit_cells
from rightsizer.catalogue.catalogue import built_in
from rightsizer.catalogue.ratio_table import RatioFit
from rightsizer.sizing.ratio import error_kind, log_ratio
from rightsizer.sizing.workload_family import WorkloadActivity


class Judged(Struct, frozen=True):
    """A pair, how it was left out, and how far the logarithm is off."""

    pair: Pair
    left_out: str
    held: str
    """The GPU, family, benchmark or round that was."""
    kind: str
    log_error: float

    def tells_of(self, held: str) -> bool:
        """Whether it has to do with a GPU, family, benchmark or round."""
        cell = self.pair.cell
        family = str(cell.workload.family)
        return held in {self.pair.gpu, self.pair.other, family, cell.benchmark, cell.round}


def left_out(cells: Sequence[Cell], activity: WorkloadActivity) -> Iterator[Judged]:
    """Every pair under each of the ways to leave it out of the fit."""
    for gpu in sorted({gpu for cell in cells for gpu in cell.logs}):
        fit = fit_cells([cell.without(gpu) for cell in cells], activity)
        for pair in pairs(cells):
            if gpu in {pair.gpu, pair.other}:
                yield _judged(pair, "GPU", gpu, fit)
    ways: tuple[tuple[str, Callable[[Cell], str]], ...] = (
        ("family", lambda cell: str(cell.workload.family)),
        ("benchmark", lambda cell: cell.benchmark),
        ("round", lambda cell: cell.round),
    )
    for way, key in ways:
        for held in sorted({key(cell) for cell in cells}):
            fit = fit_cells([cell for cell in cells if key(cell) != held], activity)
            for pair in pairs([cell for cell in cells if key(cell) == held]):
                yield _judged(pair, way, held, fit)


def error_of(pair: Pair, fit: RatioFit) -> float:
    """Measured less predicted, as logarithms."""
    boards = built_in()
    log, _ = log_ratio(fit, pair.cell.workload, boards.get(pair.gpu), boards.get(pair.other))
    return pair.log_ratio - log


def _judged(pair: Pair, way: str, held: str, fit: RatioFit) -> Judged:
    boards = built_in()
    kind = error_kind(fit, pair.cell.workload, boards.get(pair.gpu), boards.get(pair.other))
    return Judged(pair, way, held, kind, error_of(pair, fit))
