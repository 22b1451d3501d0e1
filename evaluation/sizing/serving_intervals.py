"""Coverage of the intervals of serving predictions, cross-validated."""

import math
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final, Self

from msgspec import Struct

from evaluation.sizing.serving_apart import server_of, set_apart
from evaluation.sizing.serving_offline import OFFLINE_FILE, best_rate, offline_rows
from evaluation.sizing.serving_published import published_mixtures, published_rates
from evaluation.sizing.serving_truth import FILE, read_rows
from measured import quantile, table
from rightsizer.catalogue.board import Board, OriginKind
from rightsizer.catalogue.catalogue import built_in
from rightsizer.sizing.estimate import EstimateInterval
from rightsizer.sizing.serving_settings import ServingModelSettings

_LEVEL: Final = 0.9
_DENSE = "dense"
_MIXTURE = "mixtures"
_ON_COVERAGE: Final = (
    "\nCovered: by the product's 90% intervals. Scale: factor of their widths that holds nine"
    " in ten. Left out: share of its rows within the intervals scaled by all others. Without"
    " files that are set apart.\n"
)


class IntervalError(Struct, frozen=True):
    """One figure that was measured and predicted."""

    kind: str
    model: str
    board: str
    source: str
    distance: float
    """Of the prediction, where the interval's end on that side is 1 away."""

    @classmethod
    def of(  # noqa: PLR0913, PLR0917 - a row's names and figures.
        cls,
        family: str,
        what: str,
        model: str,
        board: Board,
        source: str,
        measured: float,
        estimate: EstimateInterval,
    ) -> Self:
        """By whether it is a time or a rate."""
        is_assumed = board.origin("efficiency.weight_read.bf16").kind is OriginKind.ASSUMED
        first = what == "TTFT"
        kind = f"{family}, {'TTFT' if first else 'TPOT and tokens/s'}"
        if is_assumed:
            kind = "boards with assumed efficiencies"
        end = estimate.high if measured > estimate.value else estimate.low
        distance = math.log(measured / estimate.value) / math.log(end / estimate.value)
        return cls(kind, model, board.key, source, distance)


def interval_coverage(truth: Path | None) -> Iterator[str]:
    """A table by kind of figure; of published rows alone where there is no truth."""
    rows = [*_published(), *(_measured(truth) if truth else ())]
    cells = (_cells(kind, [row for row in rows if row.kind == kind]) for kind in _kinds(rows))
    left_out = ("model left out", "board left out", "source left out")
    yield table(cells, ("90% intervals", "rows", "covered", "scale", *left_out))
    yield _ON_COVERAGE


def _published() -> Iterator[IntervalError]:
    boards = built_in().boards
    for rate in published_rates():
        family = _MIXTURE if rate.is_mixture else _DENSE
        figure = ("tokens/s", rate.model, boards[rate.board], "TensorRT-LLM")
        yield IntervalError.of(family, *figure, rate.tokens_per_second, rate.predicted())
    for row in published_mixtures():
        source = row.source.partition(" ")[0]
        for what, measured, estimate in row.measures():
            figure = (what, row.model, boards[row.board], source)
            yield IntervalError.of(_MIXTURE, *figure, measured, estimate)


def _measured(truth: Path) -> Iterator[IntervalError]:
    rows = list(read_rows(truth / FILE))
    apart = set_apart(rows)
    for row in rows:
        if row.file not in apart:
            served = server_of(row).at(row.concurrency)
            names = (row.model_name, row.board, row.file)
            yield IntervalError.of(_DENSE, "TPOT", *names, row.tpot_ms, served.tpot_ms)
            yield IntervalError.of(_DENSE, "TTFT", *names, row.ttft_ms, served.ttft_ms)
    if (truth / OFFLINE_FILE).is_file():
        for offline in offline_rows(truth / OFFLINE_FILE):
            estimate = best_rate(offline.board, ServingModelSettings())
            figure = ("tokens/s", "Llama-2-70B", offline.board, "MLPerf")
            yield IntervalError.of(_DENSE, *figure, offline.tokens_per_second, estimate)


def _kinds(rows: Iterable[IntervalError]) -> list[str]:
    return list(dict.fromkeys(row.kind for row in rows))


def _cells(kind: str, rows: Sequence[IntervalError]) -> tuple[str, ...]:
    covered = sum(row.distance <= 1.0 for row in rows) / len(rows)
    names = ([row.model for row in rows], [row.board for row in rows], [row.source for row in rows])
    held = (_held_out(rows, of) for of in names)
    return kind, str(len(rows)), f"{covered:.0%}", f"{_scale(rows):.2f}", *held


def _held_out(rows: Sequence[IntervalError], names: Sequence[str]) -> str:
    """Coverage of each group by the scale of all others; empty for a single group."""
    if len(set(names)) == 1:
        return ""
    pairs = list(zip(rows, names, strict=True))
    held = 0
    for left in set(names):
        scale = _scale([row for row, name in pairs if name != left])
        held += sum(row.distance <= scale for row, name in pairs if name == left)
    return f"{held / len(rows):.0%}"


def _scale(rows: Iterable[IntervalError]) -> float:
    return quantile((row.distance for row in rows), _LEVEL)
