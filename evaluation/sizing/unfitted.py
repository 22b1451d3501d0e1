"""Predictions of every kind against published figures that nothing was fitted to.

Each row of unfitted_figures.csv asks in the words of a plan file, or of `rightsizer compare`. Rows
that were `seen` were looked at while formulas and widths of intervals were chosen; those `opened`
were kept apart until then, and three widths followed from them; those `kept` came after that.
"""

import csv
import math
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from evaluation.options import Options
from measured import quantile, table
from rightsizer.catalogue.catalogue import built_in
from rightsizer.catalogue.ratio_table import built_in_ratios
from rightsizer.io.yaml import load_yaml
from rightsizer.planner.plan_file import read_plan_file
from rightsizer.planner.planner import boards_of
from rightsizer.planner.question_file import read_questions
from rightsizer.planner.rates import predict_rate
from rightsizer.sizing.estimate import EstimateInterval
from rightsizer.sizing.memory import available_bytes, training_memory
from rightsizer.sizing.memory_estimate import communication_bytes
from rightsizer.sizing.place import GpuPlace
from rightsizer.sizing.ratio import place_ratio
from rightsizer.sizing.requirement import Parallelism, Requirement
from rightsizer.sizing.settings import MemorySettings, SizingSettings
from rightsizer.sizing.workload_family import parse_precision, parse_workload

_FILE: Final = Path(__file__).with_name("unfitted_figures.csv")
_PARTS: Final = ("seen", "opened", "kept")
_RATIO: Final = "ratio"
_MEMORY_SETTINGS: Final = MemorySettings()
_ON_DEVICE: Final = "memory of training on the device"
_CACHED: Final = tuple(0.05 * step for step in range(15))
"""Ratios of kept blocks that are tried."""
_PARTED: Final = (0.5, 0.9)
_MEMORY: Final = {"memory_bytes", "allocated_bytes", "reserved_bytes"}
"""Of a training: what nvidia-smi shows, what the allocator counts, and what it holds."""
_HEADINGS: Final = ("published figures", "rows", "covered", "bias", "median", "p90", "width")
_ON_FIGURES: Final = (
    "\nFigures and sources: `evaluation/sizing/unfitted_figures.csv`. Covered: by the 90% "
    "intervals. Bias: median of predicted over published. Width: median factor from an interval's "
    "middle to its ends. Widths were chosen by the rows *seen*, and three by those *opened*, "
    "after 78% of these were covered; none by those *kept*.\n\n"
    "Spread of sources: ResNet-50 trains x1.56 as fast on an A100 by one as by another; "
    "faster-whisper is x1.40 as fast on a T4 as on an RTX 3090. Measured kernels of experts for "
    "the formula: *serving mixtures* x1.18, nine in ten x1.57; engines' differ by x1.7 and x5.8.\n"
)


class UnfittedFigure(Struct, frozen=True):
    """A row of the table."""

    domain: str
    part: str
    """`seen`, `opened` or `kept`."""
    question: str
    quantity: str
    published: float
    source: str


class Prediction(Struct, frozen=True):
    """Prediction of a row."""

    figure: UnfittedFigure
    predicted: EstimateInterval

    @property
    def error(self) -> float:
        """The logarithm of predicted by published."""
        return math.log(self.predicted.value / self.figure.published)

    @property
    def is_covered(self) -> bool:
        """Whether the interval holds what was published."""
        return self.predicted.low <= self.figure.published <= self.predicted.high

    @property
    def width(self) -> float:
        """The logarithm of the factor from the middle of the interval to its ends."""
        return math.log(self.predicted.high / self.predicted.low) / 2.0


@cache
def unfitted_figures() -> tuple[UnfittedFigure, ...]:
    """All rows."""
    with _FILE.open(encoding="utf-8", newline="") as file:
        return tuple(
            UnfittedFigure(**{**row, "published": float(row["published"])})  # type: ignore[arg-type]
            for row in csv.DictReader(file)
        )


def predictions(
    domain: str = "", memory: MemorySettings = _MEMORY_SETTINGS
) -> Iterator[Prediction]:
    """Of all rows, or those of a domain; those of plans first."""
    figures = [
        unfitted_figure
        for unfitted_figure in unfitted_figures()
        if domain in {"", unfitted_figure.domain}
    ]
    planned = [each for each in figures if each.quantity != _RATIO]
    compared = [each for each in figures if each.quantity == _RATIO]
    with TemporaryDirectory() as folder:
        file = Path(folder) / "questions.yaml"
        _write(planned, file)
        for figure, item in zip(planned, read_plan_file(file).items, strict=True):
            assert item.requirement is not None, item.error
            yield Prediction(figure, _planned(item.requirement, figure.quantity, memory))
        if not compared:
            return
        _write(compared, file)
        asked = read_questions(file, "")
        for figure, question in zip(compared, asked.questions, strict=True):
            yield Prediction(figure, _ratio(question.values))


def _write(figures: Sequence[UnfittedFigure], file: Path) -> None:
    file.write_text("".join(f"- {figure.question}\n" for figure in figures), "utf-8")


def _planned(requirement: Requirement, quantity: str, memory: MemorySettings) -> EstimateInterval:
    """On the board and in the layout that were measured, whether or not the memory would do."""
    (board,) = boards_of(requirement.gpus, built_in())
    layout = requirement.parallel or Parallelism()
    settings = SizingSettings()
    if quantity in _MEMORY:
        return _trained(requirement, layout, quantity, memory)
    room = available_bytes(requirement, board.memory_bytes, settings.memory)
    rate = predict_rate(requirement, board, layout, requirement.load.concurrency, room)
    found: EstimateInterval | None = getattr(rate, quantity)
    assert found is not None, quantity
    return found


def _trained(
    requirement: Requirement, layout: Parallelism, quantity: str, settings: MemorySettings
) -> EstimateInterval:
    memory = training_memory(requirement, layout, settings)
    device = memory.device
    assert device is not None, quantity
    if quantity == "allocated_bytes":
        return memory.allocated
    if quantity == "reserved_bytes":
        outside = settings.context_bytes + communication_bytes(layout, settings, trains=True)
        return device.scaled((device.value - outside) / device.value)
    return device


def _ratio(asked: Mapping[str, str]) -> EstimateInterval:
    place, other = (GpuPlace(built_in().boards[asked[end]]) for end in ("from", "to"))
    workload = parse_workload(asked["workload"])
    precision = asked.get("precision")
    if precision is not None:
        workload = replace(workload, precision=parse_precision(precision))
    return place_ratio(workload, place, other, built_in_ratios())


def evaluate(_: Options) -> Iterator[str]:
    """Table by domain, of held-out rows and of all."""
    found = list(predictions())
    domains = dict.fromkeys(each.figure.domain for each in found)
    groups = {name: [each for each in found if each.figure.domain == name] for name in domains}
    groups |= {part: [e for e in found if e.figure.part == part] for part in _PARTS}
    yield table((_cells(*group) for group in (*groups.items(), ("all", found))), _HEADINGS)
    yield _ON_FIGURES
    yield _kept_blocks()


def _kept_blocks() -> str:
    """Errors of memory on the device, its only constant fitted to other models and tasks."""
    errors: dict[tuple[str, str], list[list[float]]] = {}
    for ratio in _CACHED:
        settings = replace(_MEMORY_SETTINGS, cached_ratio=ratio)
        by_run: dict[tuple[str, str], list[float]] = {}
        for row in predictions(_ON_DEVICE, settings):
            asked = load_yaml(row.figure.question, "").data
            by_run.setdefault((asked["model"], asked["task"]), []).append(row.error)
        for run, found in by_run.items():
            errors.setdefault(run, []).append(found)
    plain = [abs(error) for steps in errors.values() for error in steps[0]]
    left = list[float]()
    for run, steps in errors.items():
        others = [other for name, other in errors.items() if name != run]
        sizes = [
            quantile([abs(error) for other in others for error in other[step]], 0.5)
            for step in range(len(_CACHED))
        ]
        left += map(abs, steps[sizes.index(min(sizes))])
    told = [f"x{math.exp(quantile(each, part)):.2f}" for each in (left, plain) for part in _PARTED]
    return (
        f"Memory of training on the device, its ratio of kept blocks fitted to other models and "
        f"tasks: {told[0]}, nine in ten {told[1]}; without such blocks {told[2]} and {told[3]}.\n"
    )


def _cells(name: str, rows: Sequence[Prediction]) -> tuple[str, ...]:
    errors = [abs(row.error) for row in rows]
    covered = sum(row.is_covered for row in rows) / len(rows)
    figures = (
        quantile((row.error for row in rows), 0.5),
        quantile(errors, 0.5),
        quantile(errors, 0.9),
        quantile((row.width for row in rows), 0.5),
    )
    factors = (f"x{math.exp(figure):.2f}" for figure in figures)
    return name, str(len(rows)), f"{covered:.0%}", *factors
