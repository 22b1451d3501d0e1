"""Fits the exponents and boards' own ways of `catalogue/ratios.yaml` on cells of MLPerf.

Ridge regression about a priori exponents, each cell with a level of its own. Errors beyond a limit
count less (Huber), as single submissions are off by factors. An architecture's and a board's own
ways are shrunk to nothing by as many measurements as the penalty says, so that one submission does
not make them; cells of one benchmark and round are one measurement.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from statistics import median
from typing import Final

from evaluation.mlperf import Cell
from rightsizer.catalogue.catalogue import built_in
from rightsizer.catalogue.ratio_table import RatioFit
from rightsizer.sizing.ratio import board_features
from rightsizer.sizing.workload_family import (
    COMPUTE_SHARES,
    USUAL_COMPUTE_SHARE,
    ComparedWorkload,
    ModelKind,
    WorkloadActivity,
)

__all__ = ["PRIORS", "fit_cells"]

PRIORS: Final[Mapping[WorkloadActivity, Mapping[str, float]]] = {
    WorkloadActivity.INFERENCE: {
        "compute": 0.46,
        "bandwidth": 0.29,
        "power": 0.25,
        "l2": 0.09,
        "other_vendor": -0.2,
        "llm": 1.0,
    },
    WorkloadActivity.TRAINING: {
        "compute": 0.45,
        "bandwidth": 0.4,
        "power": 0.3,
        "other_vendor": -0.2,
        "link": 0.1,
    },
}
"""Where the fit starts. A language model's capacity is a roofline already, so that it counts in
full; what is not NVIDIA's is not what engines are tuned on."""
_EXPONENT_PER_SHARE: Final = 0.4
"""That moves from bandwidth to compute with a part of the time; with a benchmark left out the same
does well for both activities."""
_OF_ALL: Final = 30.0
_OF_FAMILY: Final = 30.0
_OF_BOARD: Final = 12.0
_OF_BOARD_AND_FAMILY: Final = 3.0
_OF_ARCHITECTURE: Final = 6.0
_HUBER_LOG: Final = 0.1
_ROUNDS: Final = 3

Name = tuple[str, ...]
"""A kind (figure, board or architecture), a name of it, and a family where it is of one."""
Features = dict[Name, float]


def fit_cells(cells: Sequence[Cell], activity: WorkloadActivity) -> RatioFit:
    """The fit, without errors."""
    cells = [cell for cell in cells if len(cell.logs) > 1]
    rows = [_rows(cell) for cell in cells]
    names = sorted({name for cell in rows for features, _ in cell for name in features})
    priors = {name: _prior(name, activity) for name in names}
    repeats = Counter(map(_measurement, cells))
    shares = [1.0 / repeats[_measurement(cell)] for cell in cells]
    weights = [[share] * len(cell) for share, cell in zip(shares, rows, strict=True)]
    found: dict[Name, float] = {}
    for _ in range(_ROUNDS):
        found = _solved(rows, weights, priors)
        weights = [_weights(cell, found, share) for cell, share in zip(rows, shares, strict=True)]
    return _as_fit(found, activity)


def _measurement(cell: Cell) -> tuple[str, ...]:
    """Scenarios and accuracy targets repeat each other."""
    return (cell.round, cell.benchmark, cell.count)


def _prior(name: Name, activity: WorkloadActivity) -> float:
    if name[0] != "figure":
        return 0.0
    if len(name) == 2:
        return PRIORS[activity][name[1]]
    return _tilt(name[1], activity, ModelKind(name[2]))


def _tilt(figure: str, activity: WorkloadActivity, family: ModelKind) -> float:
    share = COMPUTE_SHARES[activity].get(family, USUAL_COMPUTE_SHARE)
    moved = _EXPONENT_PER_SHARE * (share - USUAL_COMPUTE_SHARE)
    return {"compute": moved, "bandwidth": -moved}.get(figure, 0.0)


@cache
def _figures(gpu: str, workload: ComparedWorkload) -> Mapping[str, float]:
    return board_features(built_in().get(gpu), workload)


def _rows(cell: Cell) -> list[tuple[Features, float]]:
    family = str(cell.workload.family)
    rows = []
    for gpu, log in cell.logs.items():
        architecture = built_in().get(gpu).architecture
        features: Features = {
            ("board", gpu): 1.0,
            ("board", gpu, family): 1.0,
            ("architecture", architecture): 1.0,
            ("architecture", architecture, family): 1.0,
        }
        for figure, value in _figures(gpu, cell.workload).items():
            features["figure", figure] = features["figure", figure, family] = value
        rows.append((features, log))
    return rows


def _penalty(name: Name) -> float:
    if name[0] == "figure":
        return _OF_ALL if len(name) == 2 else _OF_FAMILY
    if name[0] == "architecture":
        return _OF_ARCHITECTURE
    return _OF_BOARD if len(name) == 2 else _OF_BOARD_AND_FAMILY


def _solved(
    rows: Sequence[Sequence[tuple[Features, float]]],
    weights: Sequence[Sequence[float]],
    priors: Mapping[Name, float],
) -> dict[Name, float]:
    at = {name: index for index, name in enumerate(priors)}
    left = [[0.0] * len(priors) for _ in priors]
    right = [0.0] * len(priors)
    for name, index in at.items():
        left[index][index] = _penalty(name)
        right[index] = _penalty(name) * priors[name]
    for cell, weighted in zip(rows, weights, strict=True):
        for weight, centered, level in _centered(cell, weighted):
            items = [(at[name], value) for name, value in centered.items() if value]
            for index, value in items:
                right[index] += weight * value * level
                line = left[index]
                for other, also in items:
                    line[other] += weight * value * also
    return dict(zip(priors, _eliminated(left, right), strict=True))


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
        line, pivot = left[at], left[at][at]
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


def _as_fit(found: Mapping[Name, float], activity: WorkloadActivity) -> RatioFit:
    exponents = dict(PRIORS[activity])
    families = {
        str(family): {
            figure: tilt for figure in exponents if (tilt := _tilt(figure, activity, family))
        }
        for family in COMPUTE_SHARES[activity]
    }
    own: dict[str, dict[str, dict[str, float]]] = {"board": {}, "architecture": {}}
    for (kind, name, *family), value in found.items():
        if kind != "figure":
            own[kind].setdefault(name, {})[family[0] if family else "all"] = value
        elif family:
            families.setdefault(family[0], {})[name] = value
        else:
            exponents[name] = value
    return RatioFit(exponents, families, own["board"], own["architecture"])
