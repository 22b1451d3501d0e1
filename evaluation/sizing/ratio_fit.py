"""Fits the exponents and boards' own ways of `catalogue/ratios.yaml` on cells of MLPerf.

Ridge regression about a priori exponents, each cell with a level of its own. The exponents of a
board's figures sum to 1, so that a board twice as good in everything is twice as fast; what a
family's differ by is a priori. Errors beyond a limit count less (Huber), as single submissions are
off by factors. An architecture's and a board's own ways belong to the family they were measured in
and are shrunk to nothing by as many measurements as the penalty says, so that one submission does
not make them; cells of one benchmark and round are one measurement. Language models have none: what
one of them does on a board told nothing of another.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from statistics import median
from typing import Final

from evaluation.sizing.mlperf import Cell
from rightsizer.catalogue.catalogue import built_in
from rightsizer.catalogue.ratio_table import RatioFit
from rightsizer.sizing.ratio import board_features, log_score
from rightsizer.sizing.workload_family import (
    COMPUTE_SHARES,
    USUAL_COMPUTE_SHARE,
    ComparedWorkload,
    ModelKind,
    WorkloadActivity,
)

_VENDOR: Final = "other_vendor"
PRIORS: Final[Mapping[WorkloadActivity, Mapping[str, float]]] = {
    WorkloadActivity.INFERENCE: {
        "compute": 0.42,
        "bandwidth": 0.27,
        "power": 0.22,
        "l2": 0.09,
        _VENDOR: -0.2,
        "llm": 1.0,
    },
    WorkloadActivity.TRAINING: {
        "compute": 1 / 3,
        "bandwidth": 1 / 3,
        "power": 1 / 3,
        _VENDOR: -0.2,
    },
}
"""Where the fit starts. A language model's capacity is a roofline already, so that it counts in
full; what is not NVIDIA's is not what engines are tuned on."""
_EXPONENT_PER_SHARE: Final = 0.6
"""That moves from bandwidth to compute with a part of the time; with a benchmark left out the same
does well for both activities."""
_OF_FIGURE: Final = {WorkloadActivity.INFERENCE: 30.0, WorkloadActivity.TRAINING: 1.0}
"""Trainings are told better by less, whatever is left out; inference is not."""
_PENALTIES: Final = {"board": 3.0, "architecture": 3.0, "vendor": 1.0}
"""A vendor's constant is no exponent, so that few measurements tell it."""
_HUBER_LOG: Final = 0.1
_ROUNDS: Final = 3
_REST: Final = "power"
"""The figure whose exponent is what the others leave of 1."""

Name = tuple[str, ...]
"""A kind (figure, vendor, board or architecture), its name, and for the latter two a family."""
Features = dict[Name, float]


def fit_cells(cells: Sequence[Cell], activity: WorkloadActivity) -> RatioFit:
    """The fit, without errors."""
    cells = [cell for cell in cells if len(cell.logs) > 1]
    before = _a_priori(activity)
    rows = [_rows(cell, before) for cell in cells]
    names = sorted({name for cell in rows for features, _ in cell for name in features})
    repeats = Counter(map(_measurement, cells))
    shares = [1.0 / repeats[_measurement(cell)] for cell in cells]
    weights = [[share] * len(cell) for share, cell in zip(shares, rows, strict=True)]
    penalties = {"figure": _OF_FIGURE[activity], **_PENALTIES}
    found: dict[Name, float] = {}
    for _ in range(_ROUNDS):
        found = _solved(rows, weights, {name: penalties[name[0]] for name in names})
        weights = [_weights(cell, found, share) for cell, share in zip(rows, shares, strict=True)]
    return _as_fit(found, before)


def _measurement(cell: Cell) -> tuple[str, str, int | None]:
    """Scenarios and accuracy targets repeat each other."""
    return (cell.round, cell.benchmark, cell.workload.gpus)


def _a_priori(activity: WorkloadActivity) -> RatioFit:
    tilts = {str(family): _tilt(activity, family) for family in COMPUTE_SHARES[activity]}
    return RatioFit(PRIORS[activity], {family: tilt for family, tilt in tilts.items() if tilt})


def _tilt(activity: WorkloadActivity, family: ModelKind) -> dict[str, float]:
    share = COMPUTE_SHARES[activity].get(family, USUAL_COMPUTE_SHARE)
    moved = _EXPONENT_PER_SHARE * (share - USUAL_COMPUTE_SHARE)
    return {"compute": moved, "bandwidth": -moved} if moved else {}


@cache
def _figures(gpu: str, workload: ComparedWorkload) -> Mapping[str, float]:
    """Figures of a board relative to the one whose exponent follows from the others."""
    known = board_features(built_in().get(gpu), workload)
    free = {name: value - known[_REST] for name, value in known.items() if name != _REST}
    free[_VENDOR] = known[_VENDOR]
    if workload.family is ModelKind.LLM and workload.activity is WorkloadActivity.INFERENCE:
        return {_VENDOR: free[_VENDOR]}
    return free


def _rows(cell: Cell, before: RatioFit) -> list[tuple[Features, float]]:
    """Residuals of the starting exponents, and the figures that may explain them."""
    family = str(cell.workload.family)
    rows = []
    for gpu, log in cell.logs.items():
        board = built_in().get(gpu)
        features: Features = {
            ("vendor" if figure == _VENDOR else "figure", figure): value
            for figure, value in _figures(gpu, cell.workload).items()
        }
        if family != ModelKind.LLM:
            features["board", gpu, family] = 1.0
            features["architecture", board.architecture, family] = 1.0
        rows.append((features, log - log_score(before, cell.workload, board)))
    return rows


def _solved(
    rows: Sequence[Sequence[tuple[Features, float]]],
    weights: Sequence[Sequence[float]],
    penalties: Mapping[Name, float],
) -> dict[Name, float]:
    at = {name: index for index, name in enumerate(penalties)}
    left = [[0.0] * len(at) for _ in at]
    right = [0.0] * len(at)
    for name, index in at.items():
        left[index][index] = penalties[name]
    for cell, weighted in zip(rows, weights, strict=True):
        for weight, centered, level in _centered(cell, weighted):
            items = [(at[name], value) for name, value in centered.items() if value]
            for index, value in items:
                right[index] += weight * value * level
                line = left[index]
                for other, also in items:
                    line[other] += weight * value * also
    return dict(zip(at, _eliminated(left, right), strict=True))


def _centered(
    cell: Sequence[tuple[Features, float]], weights: Sequence[float]
) -> Iterable[tuple[float, Features, float]]:
    whole = sum(weights)
    mean: Features = {}
    level = 0.0
    for (features, log), weight in zip(cell, weights, strict=True):
        level += weight * log / whole
        for name, value in features.items():
            mean[name] = mean.get(name, 0.0) + weight * value / whole
    for (features, log), weight in zip(cell, weights, strict=True):
        yield weight, {n: features.get(n, 0.0) - m for n, m in mean.items()}, log - level


def _weights(
    cell: Sequence[tuple[Features, float]], found: Mapping[Name, float], share: float
) -> list[float]:
    off = [log - sum(found[n] * v for n, v in features.items()) for features, log in cell]
    middle = median(off)
    return [share / max(1.0, abs(each - middle) / _HUBER_LOG) for each in off]


def _eliminated(left: list[list[float]], right: list[float]) -> list[float]:
    """Gauss; the matrix is symmetric and positive definite, so that it needs no pivots."""
    count = len(right)
    for at in range(count):
        line = left[at]
        pivot = left[at][at]
        for below in range(at + 1, count):
            factor = left[below][at] / pivot
            if factor:
                target = left[below]
                left[below] = target[:at] + [
                    value - factor * above
                    for value, above in zip(target[at:], line[at:], strict=True)
                ]
                right[below] -= factor * right[at]
    solution = [0.0] * count
    for at in reversed(range(count)):
        known = sum(left[at][after] * solution[after] for after in range(at + 1, count))
        solution[at] = (right[at] - known) / left[at][at]
    return solution


def _as_fit(found: Mapping[Name, float], before: RatioFit) -> RatioFit:
    exponents = dict(before.exponents)
    own: dict[str, dict[str, dict[str, float]]] = {"board": {}, "architecture": {}}
    for (kind, name, *family), value in found.items():
        if kind in own:
            own[kind].setdefault(name, {})[family[0]] = value
            continue
        exponents[name] += value
        exponents[_REST] -= value if kind == "figure" else 0.0
    return RatioFit(exponents, before.family_exponents, own["board"], own["architecture"])
