"""Throughput ratios of GPUs against MLPerf, beside the plain ratios of datasheet figures.

Run as a program with the folder of the truth, it prints `catalogue/ratios.yaml` as fitted there.
"""

import math
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).parents[2] / "tests" / "support"))
sys.path.insert(0, str(Path(__file__).parents[2]))

from evaluation.options import Options
from evaluation.sizing.mlperf import FILE, Cell, Pair, pairs, read_cells
from evaluation.sizing.ratio_errors import Judged, left_out
from evaluation.sizing.ratio_fit import fit_cells
from measured import as_rows, quantile, summarized, with_rows
from rightsizer.catalogue.board import Board, Precision
from rightsizer.catalogue.catalogue import built_in
from rightsizer.io.yaml import dump_yaml
from rightsizer.sizing.workload_family import WorkloadActivity

HEADER: Final = """\
# What throughput goes by, beyond datasheets. Fitted on results of the closed division (`make eval`
# prints the errors; evaluation/sizing/ratios.py prints this file).
#
#   exponents         of a board's figures; other_vendor is a logarithm, llm the capacity for a
#                     large language model
#   family_exponents  what a family's differ by, a priori
#   boards            logarithms of what a board does beyond its figures, in families measured on it
#   architectures     the same that all boards of an architecture have in common
#   errors            logarithms of the factor that 90% of pairs are within, left out of the fit
"""
_SOURCE: Final = (
    "derived from MLCommons results of MLPerf inference v0.7 to v5.1 and training v2.1 to v5.1, "
    "closed division; ratios are not verified by MLCommons"
)
_LEVEL: Final = 0.9
_DIGITS: Final = 4
Figure = Callable[[Board], float]


def _peak(board: Board) -> float:
    return board.peak(Precision.BF16) or 1.0


_BASELINES: Final[Mapping[str, Figure]] = {
    "ratio 1": lambda _: 1.0,
    "16-bit peak": _peak,
    "bandwidth": lambda board: board.memory_bandwidth_bytes_per_second,
    "power limit": lambda board: board.power_limit_watts,
    "root of peak and bandwidth": lambda board: math.sqrt(
        _peak(board) * board.memory_bandwidth_bytes_per_second
    ),
    "cube root with power": lambda board: (
        (_peak(board) * board.memory_bandwidth_bytes_per_second * board.power_limit_watts)
        ** (1 / 3)
    ),
}

_SHOWN: Final = ("ratio 1", "cube root with power")
"""The simplest of them and the best."""


def evaluate(options: Options) -> Iterator[str]:
    """Errors with a GPU, a family, a benchmark or a round left out, and what intervals cover."""
    if options.truth is None or not (options.truth / FILE).is_file():
        yield f"Skipped: RIGHTSIZER_TRUTH does not name a folder with `{FILE}`.\n"
        return
    for activity in WorkloadActivity:
        cells = read_cells(options.truth / FILE, activity)
        judged = list(left_out(cells, activity))
        for title, scenarios in _tables(activity, cells):
            lines = [
                *_baselines([cell for cell in cells if cell.scenario in scenarios]),
                *_fitted(judged, scenarios),
            ]
            headings = (title, "pairs", "median", "p90", "90% intervals cover")
            text = summarized(lines, headings, sums_up=_is_shown) + "\n"
            yield as_rows(with_rows(text)) if "samples" in title else text


def _is_shown(line: Sequence[str]) -> bool:
    """Whether a row is ours, or of others that the page shows."""
    return line[0].startswith("**") or line[0] in _SHOWN


def _tables(activity: str, cells: Sequence[Cell]) -> Iterator[tuple[str, frozenset[str]]]:
    """Trainings by what was measured of them, inference as a whole."""
    scenarios = frozenset(cell.scenario for cell in cells)
    if activity == WorkloadActivity.INFERENCE:
        yield activity, scenarios
        return
    for scenario in sorted(scenarios, reverse=True):
        yield f"{activity}, {scenario}", frozenset({scenario})


def fitted_errors(judged: Sequence[Judged]) -> dict[str, float]:
    """Of each kind of pair, the logarithm that 90% of errors are within."""
    kinds = sorted({each.kind for each in judged})
    errors = {
        kind: quantile((abs(each.log_error) for each in judged if each.kind == kind), _LEVEL)
        for kind in kinds
    }
    for near in ("same", "across"):
        # No less is known of a board for having measured it.
        other = f"{near} other family"
        unmeasured = f"{near} unmeasured"
        if other in errors and unmeasured in errors:
            errors[unmeasured] = max(errors[unmeasured], errors[other])
    return errors


def packaged_form(file: Path) -> dict[str, Any]:
    """The packaged file as fitted on a file of results."""
    activities = {}
    for activity in WorkloadActivity:
        cells = read_cells(file, activity)
        fit = fit_cells(cells, activity)
        activities[str(activity)] = {
            "exponents": _rounded(fit.exponents),
            "family_exponents": _rounded_each(fit.family_exponents),
            "boards": _rounded_each(fit.boards),
            "architectures": _rounded_each(fit.architectures),
            "errors": _rounded(fitted_errors(list(left_out(cells, activity)))),
        }
    return {"source": _SOURCE, "activities": activities}


def _rounded(values: Mapping[str, float]) -> dict[str, float]:
    rounded = {name: round(value, _DIGITS) for name, value in values.items()}
    return {name: value for name, value in rounded.items() if value}


def _rounded_each(values: Mapping[str, Mapping[str, float]]) -> dict[str, dict[str, float]]:
    return {name: _rounded(values[name]) for name in sorted(values)}


def _fitted(judged: Sequence[Judged], scenarios: Collection[str]) -> Iterator[tuple[str, ...]]:
    for way in ("GPU", "family", "benchmark", "round"):
        ways = [each for each in judged if each.left_out == way]
        group = [each for each in ways if each.pair.cell.scenario in scenarios]
        name = f"**ours, {way} left out**"
        yield _row(name, [each.log_error for each in group], _covered(group, judged))


def _covered(group: Sequence[Judged], judged: Sequence[Judged]) -> float:
    """The part that lies in intervals set without what was left out."""
    covered = 0
    for held in {each.held for each in group}:
        errors = fitted_errors([each for each in judged if not each.tells_of(held)])
        widest = max(errors.values())
        covered += sum(
            abs(each.log_error) <= errors.get(each.kind, widest)
            for each in group
            if each.held == held
        )
    return covered / len(group)


def _baselines(cells: Sequence[Cell]) -> Iterator[tuple[str, ...]]:
    for name, figure in _BASELINES.items():
        yield _row(name, [pair.log_ratio - _log(pair, figure) for pair in pairs(cells)])


def _log(pair: Pair, figure: Figure) -> float:
    boards = built_in()
    return math.log(figure(boards.get(pair.other)) / figure(boards.get(pair.gpu)))


def _row(name: str, errors: Sequence[float], covered: float | None = None) -> tuple[str, ...]:
    sizes = [abs(error) for error in errors]
    middle = quantile(sizes, 0.5)
    tail = quantile(sizes, _LEVEL)
    return (
        name,
        str(len(sizes)),
        f"x{math.exp(middle):.3f}",
        f"x{math.exp(tail):.3f}",
        "" if covered is None else f"{covered:.1%}",
    )


if __name__ == "__main__":
    print(HEADER + dump_yaml(packaged_form(Path(sys.argv[1]) / FILE)), end="")
