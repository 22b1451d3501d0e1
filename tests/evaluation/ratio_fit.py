"""Fits the exponents and boards' own ways of `catalogue/ratios.yaml` on cells of MLPerf.

Ridge regression about a priori exponents, each cell with a level of its own. Errors beyond a limit
count less (Huber), as single submissions are off by factors. A board's own way is shrunk to nothing
by as many cells as the penalty says, so that one submission does not make it.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from statistics import median
from typing import Final

from evaluation.mlperf import Cell
from rightsizer.catalogue.catalogue import built_in
from rightsizer.catalogue.ratio_table import RatioFit
from rightsizer.sizing.ratio_features import board_features
from rightsizer.sizing.workload_family import Activity, Workload

__all__ = ["PRIORS", "fit_cells"]

PRIORS: Final[Mapping[Activity, Mapping[str, float]]] = {
    Activity.INFERENCE: {
        "compute": 0.46,
        "bandwidth": 0.29,
        "power": 0.25,
        "l2": 0.09,
        "other_vendor": -0.2,
        "llm": 1.0,
    },
    Activity.TRAINING: {
        "compute": 0.5,
        "bandwidth": 0.35,
        "power": 0.3,
        "other_vendor": -0.2,
        "link": 0.1,
    },
}
"""Where the fit starts. A language model's capacity is a roofline already, so that it counts in
full; what is not NVIDIA's is not what engines are tuned on."""
_OF_ALL: Final = 30.0
_OF_FAMILY: Final = 30.0
_OF_BOARD: Final = 6.0
_OF_BOARD_AND_FAMILY: Final = 3.0
_HUBER_LOG: Final = 0.15
_ROUNDS: Final = 3

Name = tuple[str, ...]
"""`("figure", name)`, `("figure", name, family)`, `("board", key)`, `("board", key, family)`."""
Features = dict[Name, float]


def fit_cells(cells: Sequence[Cell], activity: Activity) -> RatioFit:
    """The fit, without errors."""
    rows = [_rows(cell) for cell in cells if len(cell.logs) > 1]
    names = sorted({name for cell in rows for features, _ in cell for name in features})
    weights = [[1.0] * len(cell) for cell in rows]
    found: dict[Name, float] = {}
    for _ in range(_ROUNDS):
        found = _solved(rows, weights, names, PRIORS[activity])
        weights = [_weights(cell, found) for cell in rows]
    return _as_fit(found, PRIORS[activity])


@cache
def _figures(gpu: str, workload: Workload) -> Mapping[str, float]:
    return board_features(built_in().get(gpu), workload)


def _rows(cell: Cell) -> list[tuple[Features, float]]:
    family = str(cell.workload.family)
    rows = []
    for gpu, log in cell.logs.items():
        features: Features = {("board", gpu): 1.0, ("board", gpu, family): 1.0}
        for figure, value in _figures(gpu, cell.workload).items():
            features["figure", figure] = features["figure", figure, family] = value
        rows.append((features, log))
    return rows


def _penalty(name: Name) -> float:
    if name[0] == "figure":
        return _OF_ALL if len(name) == 2 else _OF_FAMILY
    return _OF_BOARD if len(name) == 2 else _OF_BOARD_AND_FAMILY


def _solved(
    rows: Sequence[Sequence[tuple[Features, float]]],
    weights: Sequence[Sequence[float]],
    names: Sequence[Name],
    prior: Mapping[str, float],
) -> dict[Name, float]:
    at = {name: index for index, name in enumerate(names)}
    left = [[0.0] * len(names) for _ in names]
    right = [0.0] * len(names)
    for name, index in at.items():
        left[index][index] = _penalty(name)
        if len(name) == 2 and name[0] == "figure":
            right[index] = _penalty(name) * prior[name[1]]
    for cell, weighted in zip(rows, weights, strict=True):
        for weight, centered, level in _centered(cell, weighted):
            items = [(at[name], value) for name, value in centered.items() if value]
            for index, value in items:
                right[index] += weight * value * level
                line = left[index]
                for other, also in items:
                    line[other] += weight * value * also
    return dict(zip(names, _eliminated(left, right), strict=True))


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


def _weights(cell: Sequence[tuple[Features, float]], found: Mapping[Name, float]) -> list[float]:
    off = [log - sum(found[n] * v for n, v in features.items()) for features, log in cell]
    middle = median(off)
    return [1.0 / max(1.0, abs(each - middle) / _HUBER_LOG) for each in off]


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


def _as_fit(found: Mapping[Name, float], prior: Mapping[str, float]) -> RatioFit:
    exponents = {name[1]: value for name, value in found.items() if _is(name, "figure", 2)}
    families: dict[str, dict[str, float]] = {}
    boards: dict[str, dict[str, float]] = {}
    for name, value in found.items():
        if _is(name, "figure", 3):
            families.setdefault(name[2], {})[name[1]] = value
        elif _is(name, "board", 2):
            boards.setdefault(name[1], {})["all"] = value
        elif _is(name, "board", 3):
            boards.setdefault(name[1], {})[name[2]] = value
    return RatioFit({**prior, **exponents}, families, boards)


def _is(name: Name, kind: str, length: int) -> bool:
    return name[0] == kind and len(name) == length
