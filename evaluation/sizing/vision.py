"""Images a second of networks in PyTorch, with families and boards left out of the fit.

The passes over layers' outputs are fitted anew without what is scored; beside them the rate that
operations alone give.
"""

import csv
import gzip
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from rightsizer.catalogue.board import Board
from rightsizer.catalogue.catalogue import built_in
from rightsizer.sizing.models import ConvolutionalNetwork
from rightsizer.sizing.requirement import Parallelism, Requirement, VisionRuntime
from rightsizer.sizing.sample_rate import sample_rate
from rightsizer.sizing.settings import SampleSettings

_SHAPES: Final = "image_models.csv.gz"
_TRUTH: Final = "image_truth.csv.gz"
_FOLDS: Final = 5
_PASSES: Final = tuple(1.0 + 0.25 * step for step in range(37))
_FIELDS: Final = {
    VisionRuntime.COMPILED: "compiled_output_passes",
    VisionRuntime.EAGER: "eager_output_passes",
}


class _Row(Struct, frozen=True):
    family: str
    board: str
    errors: tuple[float, ...]
    """Logarithms of predicted over measured rate, by the passes."""
    released: float
    without_outputs: float
    """The same with the outputs estimated from operations."""


class _Run(Struct, frozen=True):
    board: Board
    runtime: VisionRuntime
    batch: float
    images_per_second: float

    def error(self, model: ConvolutionalNetwork, settings: SampleSettings) -> float:
        """Return the logarithm of predicted over measured rate."""
        requirement = Requirement(model, runtime=self.runtime)
        rate = sample_rate(requirement, self.board, Parallelism(), self.batch, settings)
        return math.log(rate.samples_per_second.value / self.images_per_second)


def _rows(folder: Path, runtime: VisionRuntime) -> Iterator[_Row]:
    boards = built_in().boards
    with gzip.open(folder / _SHAPES, "rt") as lines:
        shapes = {(row["model"], row["image_pixels"]): row for row in csv.DictReader(lines)}
    with gzip.open(folder / _TRUTH, "rt") as lines:
        measured = [row for row in csv.DictReader(lines) if row["mode"] == str(runtime)]
    for row in measured:
        shape = shapes[row["model"], row["image_pixels"]]
        model = ConvolutionalNetwork(
            parameters=float(shape["parameters_millions"]) * 1e6,
            forward_flops=float(shape["forward_gmacs"]) * 2e9,
            image=int(row["image_pixels"]),
            outputs=float(shape["activations_millions"]) * 1e6,
        )
        board = boards[row["gpu_key"]]
        run = _Run(board, runtime, float(row["batch"]), float(row["images_per_second"]))
        fitted = (replace(SampleSettings(), **{_FIELDS[runtime]: each}) for each in _PASSES)
        yield _Row(
            row["model"].split("_")[0].rstrip("0123456789"),
            row["gpu_key"],
            tuple(run.error(model, settings) for settings in fitted),
            run.error(model, SampleSettings()),
            run.error(replace(model, outputs=None), SampleSettings()),
        )


def _left_out(rows: Sequence[_Row], groups: Sequence[Sequence[_Row]]) -> list[float]:
    """Errors of each group with the passes that fit the others best."""
    errors = list[float]()
    for group in groups:
        inside = set(map(id, group))
        others = [row for row in rows if id(row) not in inside]
        best = min(
            range(len(_PASSES)), key=lambda place: median(abs(row.errors[place]) for row in others)
        )
        errors += (row.errors[best] for row in group)
    return errors


def _scores(errors: Sequence[float]) -> str:
    sizes = sorted(map(abs, errors))
    return f"{median(sizes):.3f} | {sizes[int(0.9 * len(sizes))]:.3f}"


def evaluate(folder: Path) -> Iterator[str]:
    """Yield the errors of each runtime."""
    yield "| runtime | scored | rows | median | nine in ten |\n|---|---|---|---|---|"
    for runtime in _FIELDS:
        rows = tuple(_rows(folder, runtime))
        families = sorted({row.family for row in rows})
        folds = [
            [row for row in rows if families.index(row.family) % _FOLDS == fold]
            for fold in range(_FOLDS)
        ]
        boards = sorted({row.board for row in rows})
        table = {
            "as released": [row.released for row in rows],
            "families left out": _left_out(rows, folds),
        }
        if len(boards) > 1:
            by_board = [[row for row in rows if row.board == board] for board in boards]
            table["a board left out"] = _left_out(rows, by_board)
        table["outputs estimated from operations"] = [row.without_outputs for row in rows]
        for scored, errors in table.items():
            yield f"| {runtime} | {scored} | {len(rows):,} | {_scores(errors)} |"
