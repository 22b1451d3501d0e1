"""Experts' kernels: condensed into the catalogue's table, and judged on what was left out.

`python evaluation/sizing/expert_kernels.py moe_kernels.csv.gz` writes expert_kernels.csv and
expert_shapes.csv of daemon/rightsizer/catalogue. The cells are the kernel tables of
aiconfigurator-core 0.12.0 (Apache-2.0), with experts whole on each GPU or cut over a group. Cells
whose experts are divided stay out: those of vLLM and SGLang do not take the share of the time that
evenly routed tokens would.
"""

import csv
import gzip
import math
import operator
import sys
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[2] / "tests" / "support"))
    sys.path.insert(0, str(Path(__file__).parents[2]))

from measured import quantile, table
from rightsizer.catalogue import expert_kernels as kernels
from rightsizer.catalogue.board import Board
from rightsizer.catalogue.catalogue import built_in
from rightsizer.sizing.engine import ServingEngine
from rightsizer.sizing.forward_pass import ForwardPass
from rightsizer.sizing.models import Transformer
from rightsizer.sizing.parameters import NumberFormat
from rightsizer.sizing.requirement import Parallelism, Precisions
from rightsizer.sizing.roofline import compute_format
from rightsizer.sizing.serving_settings import ServingModelSettings

_FILE: Final = "moe_kernels.csv.gz"
_ENGINES: Final = {
    "vllm": ServingEngine.VLLM,
    "sglang": ServingEngine.SGLANG,
    "trtllm": ServingEngine.TENSORRT_LLM,
}
_UNEVEN: Final = "latency_skewed_us"
_EVEN: Final = "latency_balanced_us"
_BLACKWELL: Final = (10, 0)
_RTX_PRO: Final = (12, 0)
_PLAIN_EXPERTS: Final = frozenset({22, 6})
"""Experts per token of models whose experts have two matrices (Nemotron 3)..."""
_PLAIN_WIDTHS: Final = frozenset({1856, 2688, 5120})
"""...and the widths of these."""
_SMOOTHNESS: Final = 3.0
"""Weight of second differences along the table, in cells. Of 1 to 30 the errors of shapes that are
left out differ by less than .02."""
_SHRINKAGE: Final = 2.0
"""Cells without a deviation that each corner of a shape is taken to have beside its own."""
_NODES: Final = tuple(
    np.log(each) for each in (kernels.READS_SECONDS, kernels.ROWS, kernels.WIDTHS)
)
_SIZES: Final = tuple(len(each) for each in _NODES)
_HEADINGS: Final = (
    "kernels of experts",
    "cells",
    "table",
    "p90",
    "model left out",
    "p90",
    "board left out",
    "p90",
    "formula",
    "p90",
    "roofline",
    "p90",
)
_ON_CELLS: Final = (
    "\nTime of a layer's experts on one GPU, uneven tokens. *Table*: in use, fitted to all cells;"
    " *left out*: fitted to the other models' shapes, or to the other boards of the compute"
    " capability. *Formula*: without a table, some of its constants fitted to the same cells."
    " *Roofline*: the longer of reads and products. int4 in vLLM has no table in use, as it tells"
    " models that are left out no better than the formula.\n"
)

_Floats = NDArray[np.float64]
_Key = tuple[ServingEngine, NumberFormat, str]


class Cell(NamedTuple):
    """Question of which the time of a layer's experts on one GPU was measured."""

    board: str
    shape: kernels.ExpertShape
    tensor: int
    tokens: int


class Cells:
    """Cells of one engine, format and compute capability, as columns."""

    def __init__(self, number_format: NumberFormat, measured: Sequence[tuple[Cell, float]]) -> None:
        self.number_format = number_format
        self.cells = cells = [cell for cell, _ in measured]
        self.every = np.full(len(cells), fill_value=True)
        self.boards = np.array([cell.board for cell in cells])
        self.shapes = np.array([" ".join(map(str, cell.shape)) for cell in cells])
        rooflines = np.array([_roofline(cell, number_format) for cell in cells])
        self.reading, self.computing, rows, width = rooflines.T
        self.measured = np.log([seconds for _, seconds in measured])
        self.expected = np.log(np.hypot(self.reading, self.computing) + kernels.FIXED_SECONDS)
        places = tuple(np.log(each) for each in (self.reading, rows, width))
        self.places, self.weights = _blended(places, _NODES)
        cut = tuple(
            np.log(each) for each in zip(*((c.tensor, c.tokens) for c in cells), strict=True)
        )
        corners, weights = _blended(cut, (np.log(kernels.GROUPS), np.log(kernels.TOKENS)))
        self.corners = np.zeros_like(weights)
        """Weights of whole and cut experts, each with few and with many tokens."""
        np.put_along_axis(self.corners, corners, weights, axis=1)

    def fitted(self, chosen: NDArray[np.bool_]) -> _Floats:
        """Return logarithms of factors at each node, least squares over the chosen cells."""
        size = math.prod(_SIZES)
        normal = _roughness()
        right = np.zeros(size)
        places = self.places[chosen]
        weights = self.weights[chosen]
        target = (self.measured - self.expected)[chosen]
        for one in range(places.shape[1]):
            np.add.at(right, places[:, one], weights[:, one] * target)
            for other in range(places.shape[1]):
                both = weights[:, one] * weights[:, other]
                np.add.at(normal, (places[:, one], places[:, other]), both)
        return np.asarray(np.linalg.solve(normal, right))

    def errors(self, factors: _Floats) -> _Floats:
        """Return logarithms of predicted over measured time."""
        beyond = (self.weights * factors[self.places]).sum(axis=1)
        return np.asarray(self.expected + beyond - self.measured)

    def deviations(
        self, errors: _Floats, chosen: NDArray[np.bool_]
    ) -> Iterator[tuple[str, _Floats]]:
        """Logarithms by which measured shapes deviate, by `GROUPS` and `TOKENS`."""
        for shape in np.unique(self.shapes[chosen]):
            corners = self.corners[chosen & (self.shapes == shape)]
            target = -errors[chosen & (self.shapes == shape)]
            normal = corners.T @ corners + _SHRINKAGE * np.eye(corners.shape[1])
            yield shape, np.linalg.solve(normal, corners.T @ target)

    def judged(self, chosen: NDArray[np.bool_]) -> _Floats:
        """Return errors of all cells by a fit to the chosen ones."""
        errors = self.errors(self.fitted(chosen))
        corrected = errors.copy()
        for shape, deviation in self.deviations(errors, chosen):
            is_alike = self.shapes == shape
            corrected[is_alike] += self.corners[is_alike] @ deviation
        return corrected

    def left_out(self, names: NDArray[np.str_]) -> _Floats:
        """Return the errors of each group by the fit to all others; NaN for a single group."""
        errors = np.full(len(names), np.nan)
        groups = np.unique(names)
        for name in groups if len(groups) > 1 else ():
            is_left = names == name
            errors[is_left] = self.judged(~is_left)[is_left]
        return errors

    def by_formula(self) -> _Floats:
        """Return errors of the formula for boards without a table."""
        seconds = [_formula_seconds(cell, self.number_format) for cell in self.cells]
        return np.asarray(np.log(seconds) - self.measured)

    def by_roofline(self) -> _Floats:
        """Return errors of the longer of reads and products."""
        return np.asarray(np.log(np.maximum(self.reading, self.computing)) - self.measured)


def evaluate(folder: Path) -> Iterator[str]:
    """Errors by engine and format, of the table and beside it."""
    if not (folder / _FILE).is_file():
        yield f"Skipped: no `{_FILE}`.\n"
        return
    groups = defaultdict[str, list[Sequence[_Floats]]](list)
    for (engine, number_format, _), cells in read_cells(folder / _FILE).items():
        judged = (
            cells.judged(cells.every),
            cells.left_out(cells.shapes),
            cells.left_out(cells.boards),
            cells.by_formula(),
            cells.by_roofline(),
        )
        for name in (f"{engine}, {number_format}", "all"):
            groups[name].append(judged)
    yield table(
        (_line(name, group) for name, group in sorted(groups.items(), key=_all_last)), _HEADINGS
    )
    yield _ON_CELLS


def condensed(path: Path) -> dict[str, Sequence[str]]:
    """Lines of the catalogue's files, by name."""
    tables = ["engine,format,compute_capability,width,read_us,factors"]
    shapes = ["engine,format,compute_capability,shape,factors"]
    measured = read_cells(path)
    helped = _helped(measured)
    for key, cells in sorted(measured.items()):
        if key[:2] not in helped:
            continue
        name = ",".join(key)
        logarithms = cells.fitted(cells.every)
        factors = np.exp(logarithms).reshape(_SIZES)
        for place, width in enumerate(kernels.WIDTHS):
            for down, seconds in enumerate(kernels.READS_SECONDS):
                row = _spelled(factors[down, :, place])
                tables.append(f"{name},{width},{1e6 * seconds:g},{row}")
        for shape, deviation in cells.deviations(cells.errors(logarithms), cells.every):
            shapes.append(f"{name},{shape},{_spelled(np.exp(deviation))}")
    return {kernels.TABLE: tables, kernels.SHAPES: shapes}


def _helped(measured: Mapping[_Key, Cells]) -> Collection[tuple[ServingEngine, NumberFormat]]:
    """Return engines and formats whose table tells models that are left out better than nothing."""
    errors = defaultdict[tuple[ServingEngine, NumberFormat], list[tuple[_Floats, _Floats]]](list)
    for (engine, number_format, _), cells in measured.items():
        errors[engine, number_format].append((cells.left_out(cells.shapes), cells.by_formula()))
    return {
        name
        for name, pairs in errors.items()
        if operator.lt(*map(_median, zip(*pairs, strict=True)))
    }


def _median(errors: Sequence[_Floats]) -> float:
    return float(np.nanmedian(np.abs(np.concatenate(errors))))


def _spelled(factors: _Floats) -> str:
    return " ".join(f"{factor:.3g}" for factor in factors)


def read_cells(path: Path) -> dict[_Key, Cells]:
    """All cells with experts that are not divided, by what has a table of its own."""
    grouped = defaultdict[_Key, list[tuple[Cell, float]]](list)
    boards = built_in().boards
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for row in csv.DictReader(lines):
            engine = _ENGINES[row["engine"]]
            board = boards[row["gpu_key"]]
            number_format = _number_format(engine, row["format"], board)
            if row["moe_expert"] == "1" and number_format is not None:
                capability = ".".join(map(str, board.compute_capability))
                measured = (_cell(row), 1e-6 * float(row[_UNEVEN] or row[_EVEN]))
                grouped[engine, number_format, capability].append(measured)
    return {key: Cells(key[1], cells) for key, cells in grouped.items()}


def _number_format(engine: ServingEngine, name: str, board: Board) -> NumberFormat | None:
    """Return the format of weights that an engine multiplies by such kernels, if it is the usual.

    In 8 bits, checkpoints for vLLM and SGLang have scales by block, as those of DeepSeek and Qwen,
    and NVIDIA's for TensorRT-LLM by tensor. vLLM's by tensor take five times as long on Hopper, and
    are all there is for RTX PRO. 4 bits (mxfp4) are multiplied in 8 where boards have units for it.
    """
    is_plain = engine is ServingEngine.TENSORRT_LLM or (
        engine is ServingEngine.VLLM and board.compute_capability >= _RTX_PRO
    )
    is_unpacked = board.compute_capability < _BLACKWELL
    unpacked = ("int4_wo", "w4a16_mxfp4", "w4afp8") if is_unpacked else ("w4a8_mxfp4_mxfp8",)
    formats = {
        "bfloat16": NumberFormat.BF16,
        "fp8" if is_plain else "fp8_block": NumberFormat.FP8,
        "nvfp4": NumberFormat.NVFP4,
        **dict.fromkeys(unpacked, NumberFormat.INT4),
    }
    return formats.get(name)


def _cell(row: dict[str, str]) -> Cell:
    names = ("hidden", "expert_intermediate", "experts_per_token", "experts")
    hidden, width, chosen, experts = (int(row[name]) for name in names)
    tensor = int(row["moe_tensor"])
    shape = kernels.ExpertShape(hidden, width, chosen, experts)
    return Cell(row["gpu_key"], shape, tensor, int(row["tokens"]))


def _matrices(cell: Cell) -> int:
    _, width, chosen, _ = cell.shape
    return 2 if width in _PLAIN_WIDTHS and chosen in _PLAIN_EXPERTS else 3


def _roofline(cell: Cell, number_format: NumberFormat) -> tuple[float, float, float, float]:
    """Return seconds of reads and of products, tokens of a used expert, and its part's width."""
    hidden, width, chosen, experts = cell.shape
    board = built_in().boards[cell.board]
    part = width / cell.tensor
    used = experts * (1.0 - (1.0 - chosen / experts) ** cell.tokens)
    parameters = _matrices(cell) * hidden * part
    copies = cell.tokens * chosen
    peak = board.peak(compute_format(board, number_format)) or math.nan
    reading = used * parameters * number_format.bytes_per_parameter
    reading /= board.memory_bandwidth_bytes_per_second
    return reading, 2.0 * parameters * copies / peak, copies / used, part


def _formula_seconds(cell: Cell, number_format: NumberFormat) -> float:
    hidden, width, chosen, experts = cell.shape
    model = Transformer(
        layers=1,
        hidden=hidden,
        heads=1,
        vocab=1,
        ffn=width,
        gated_ffn=_matrices(cell) == 3,
        experts=experts,
        experts_per_token=chosen,
    )
    layout = Parallelism(tensor=cell.tensor)
    board = built_in().boards[cell.board]
    precision = Precisions(number_format)
    forward = ForwardPass(model, precision, board, layout, ServingModelSettings())
    return forward.chosen_experts(cell.tokens, number_format.bytes_per_parameter).seconds


def _blended(
    columns: Sequence[_Floats], axes: Sequence[_Floats]
) -> tuple[NDArray[np.int64], _Floats]:
    """Return nodes around each cell and the weights of each, which sum to 1."""
    count = len(columns[0])
    places = np.zeros((count, 1), dtype=np.int64)
    weights = np.ones((count, 1))
    for values, nodes in zip(columns, axes, strict=True):
        place = np.clip(np.searchsorted(nodes, values, side="right") - 1, 0, len(nodes) - 2)
        share = np.clip((values - nodes[place]) / (nodes[place + 1] - nodes[place]), 0.0, 1.0)
        first = places * len(nodes) + place[:, None]
        places = np.concatenate([first, first + 1], axis=1)
        nearer = weights * (1.0 - share)[:, None]
        weights = np.concatenate([nearer, weights * share[:, None]], axis=1)
    return places, weights


def _roughness() -> _Floats:
    """Return the quadratic form of second differences, and a trace of first ones."""
    size = math.prod(_SIZES)
    form = 1e-6 * np.eye(size)
    nodes = np.arange(size).reshape(_SIZES)
    for axis in range(len(_SIZES)):
        for order, weight in ((2, _SMOOTHNESS), (1, 0.02 * _SMOOTHNESS)):
            differences = np.diff(np.eye(size)[nodes], n=order, axis=axis).reshape(-1, size)
            form += weight * differences.T @ differences
    return np.asarray(form)


def _all_last(item: tuple[str, object]) -> tuple[bool, str]:
    return item[0] == "all", item[0]


def _line(name: str, groups: Sequence[Sequence[_Floats]]) -> Iterator[str]:
    yield name
    yield str(sum(len(judged[0]) for judged in groups))
    for errors in zip(*groups, strict=True):
        together = np.abs(np.concatenate(errors))
        known = [float(each) for each in together if math.isfinite(each)]
        yield from (f"{quantile(known, share):.3f}" if known else "" for share in (0.5, 0.9))


if __name__ == "__main__":
    for name, lines in condensed(Path(sys.argv[1])).items():
        text = "\n".join((*lines, ""))
        Path(kernels.__file__).with_name(name).write_text(text, encoding="utf-8")
