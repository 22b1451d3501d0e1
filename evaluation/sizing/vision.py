"""Images a second of networks in PyTorch, with families and boards left out of the fit.

The passes over layers' outputs are fitted anew without what is scored; beside them a share of the
board's peak that is fitted alike, which is what operations alone give.
"""

import csv
import gzip
import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from measured import quantile
from rightsizer.catalogue.board import Precision
from rightsizer.catalogue.catalogue import built_in
from rightsizer.model.table import table_rows
from rightsizer.planner.models import known_models
from rightsizer.sizing.models import ConvolutionalNetwork
from rightsizer.sizing.requirement import Parallelism, Requirement, VisionRuntime
from rightsizer.sizing.sample_rate import sample_rate
from rightsizer.sizing.settings import SampleSettings

_SHAPES: Final = "image_models.csv.gz"
_TRUTH: Final = "image_truth.csv.gz"
_FOLDS: Final = 5
_PASSES: Final = tuple(0.5 + 0.1 * step for step in range(90))
_SHARES: Final = tuple(0.02 * step for step in range(1, 51))
_FIELDS: Final = {
    (VisionRuntime.COMPILED, False): "compiled_output_passes",
    (VisionRuntime.COMPILED, True): "fused_transformer_output_passes",
    (VisionRuntime.EAGER, False): "eager_output_passes",
    (VisionRuntime.EAGER, True): "eager_transformer_output_passes",
}
_HEADING: Final = "| runtime | scored | rows | median | nine in ten | 90% intervals cover |"


class _Row(Struct, frozen=True):
    family: str
    board: str
    is_transformer: bool
    errors: tuple[float, ...]
    """Logarithms of predicted over measured rate, by the passes."""
    of_peak: tuple[float, ...]
    """The same of a share of the board's peak, by the share."""
    released: float
    without_outputs: float
    """The same with the outputs estimated from operations."""


_Scale = Callable[[_Row], Sequence[float]]


def _rows(folder: Path, runtime: VisionRuntime) -> Iterator[_Row]:
    with gzip.open(folder / _SHAPES, "rt") as lines:
        shapes = {(row["model"], row["image_pixels"]): row for row in csv.DictReader(lines)}
    named = table_rows(known_models.__file__, "image_models.csv")
    transformers = {row["model"] for row in named if row["transformer"]}
    with gzip.open(folder / _TRUTH, "rt") as lines:
        measured = [row for row in csv.DictReader(lines) if row["mode"] == str(runtime)]
    for row in measured:
        shape = shapes[row["model"], row["image_pixels"]]
        model = ConvolutionalNetwork(
            parameters=float(shape["parameters_millions"]) * 1e6,
            forward_flops=float(shape["forward_gmacs"]) * 2e9,
            image=int(row["image_pixels"]),
            outputs=float(shape["activations_millions"]) * 1e6,
            is_transformer=row["model"] in transformers,
        )
        yield _row(row, model, runtime)


def _row(row: dict[str, str], model: ConvolutionalNetwork, runtime: VisionRuntime) -> _Row:
    board = built_in().boards[row["gpu_key"]]
    images = float(row["images_per_second"])

    def error(model: ConvolutionalNetwork, settings: SampleSettings) -> float:
        requirement = Requirement(model, runtime=runtime)
        rate = sample_rate(requirement, board, Parallelism(), float(row["batch"]), settings)
        return math.log(rate.samples_per_second.value / images)

    at_peak = math.log((board.peak(Precision.BF16) or 1.0) / model.forward_flops / images)
    field = _FIELDS[runtime, model.is_transformer]
    settings = SampleSettings()
    fitted = (replace(settings, **{field: passes}) for passes in _PASSES)
    return _Row(
        row["model"].split("_")[0].rstrip("0123456789"),
        row["gpu_key"],
        model.is_transformer,
        tuple(error(model, changed) for changed in fitted),
        tuple(at_peak + math.log(share) for share in _SHARES),
        error(model, settings),
        error(replace(model, outputs=None), settings),
    )


def _left_out(groups: Sequence[Sequence[_Row]], scale: _Scale) -> list[float]:
    """Errors of each group with the step of a scale that fits the others best."""
    errors = list[float]()
    for group in groups:
        for is_transformer in (False, True):
            others = [
                scale(row)
                for other in groups
                for row in other
                if other is not group and row.is_transformer is is_transformer
            ]
            steps = zip(*others, strict=True)
            sizes = [median(map(abs, step)) for step in steps]
            best = sizes.index(min(sizes))
            errors += (scale(row)[best] for row in group if row.is_transformer is is_transformer)
    return errors


def _scores(name: str, errors: Sequence[float], covered: float) -> str:
    sizes = [abs(error) for error in errors]
    figures = f"{median(sizes):.3f} | {quantile(sizes, 0.9):.3f} | {covered:.0%}"
    return f"| {name} | {len(errors):,} | {figures} |"


def _within(errors: Sequence[float]) -> float:
    most = math.log(SampleSettings().image_error_factor)
    return sum(abs(error) <= most for error in errors) / len(errors)


def evaluate(folder: Path) -> Iterator[str]:
    """Yield the errors of each runtime."""
    yield f"{_HEADING}\n|---|---|---|---|---|---|"
    for runtime in (VisionRuntime.COMPILED, VisionRuntime.EAGER):
        rows = tuple(_rows(folder, runtime))
        families = sorted({row.family for row in rows})
        folds = [
            [row for row in rows if families.index(row.family) % _FOLDS == fold]
            for fold in range(_FOLDS)
        ]
        boards = sorted({row.board for row in rows})
        by_board = [[row for row in rows if row.board == board] for board in boards]
        table = {
            "as released": [row.released for row in rows],
            "families left out": _left_out(folds, lambda row: row.errors),
        }
        if len(boards) > 1:
            table["a board left out"] = _left_out(by_board, lambda row: row.errors)
        table["outputs estimated from operations"] = [row.without_outputs for row in rows]
        table["a share of the peak, families left out"] = _left_out(folds, lambda row: row.of_peak)
        for scored, errors in table.items():
            yield _scores(f"{runtime} | {scored}", errors, _within(errors))
