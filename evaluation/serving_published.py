"""Serving predictions against the throughput that TensorRT-LLM's makers publish.

NVIDIA/TensorRT-LLM, docs/source/performance/perf-overview.md @00f3768 (release 1.0, Apache-2.0):
output tokens a second under the highest load, of NVIDIA's quantized checkpoints. Replicas of
Qwen3-235B-A22B share their experts, as the commands there have it.
"""

import csv
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import cache
from pathlib import Path
from statistics import median
from typing import Final

from measured import quantile, table
from rightsizer.catalogue.catalogue import built_in
from rightsizer.planner.plan_file import plan_of_flags
from rightsizer.sizing.estimate import EstimateInterval
from rightsizer.sizing.memory import available_bytes
from rightsizer.sizing.requirement import Parallelism
from rightsizer.sizing.serving import Server, best_concurrency
from rightsizer.sizing.serving_memory import ServingMemory
from rightsizer.sizing.settings import ServingModelSettings

__all__ = ["PublishedRate", "published_errors", "published_rates"]

_FILE: Final = Path(__file__).with_name("published_throughput.csv")
_SHARED_EXPERTS: Final = "Qwen3-235B-A22B"
_IMBALANCES: Final = (1.0, 1.2, 1.4, 1.6, 1.8, 2.0, 2.2, 2.4)
_ON_PUBLISHED: Final = (
    "\nThe most output tokens a second that TensorRT-LLM 1.0's makers publish, each model asked for"
    " as its checkpoint is. Of these rows one figure is fitted, `expert_imbalance_ratio`, to those"
    " whose replicas share experts; below it is fitted with a board left out and judged on that.\n"
)


@dataclass(frozen=True, slots=True)
class PublishedRate:
    """A row of the table."""

    model: str
    board: str
    gpus: int
    format: str
    input_tokens: int
    output_tokens: int
    tokens_per_second: float

    def predicted(self, settings: ServingModelSettings | None = None) -> EstimateInterval:
        """What the planner says of the same layout at its best."""
        settings = settings or ServingModelSettings()
        asked = {"model": self.model, "precision": self.format, "engine": "tensorrt-llm"}
        sizes = {"in": str(self.input_tokens), "out": str(self.output_tokens)}
        requirement = plan_of_flags(asked | sizes).items[0].requirement
        assert requirement is not None
        layout = Parallelism(tensor=self.gpus)
        if self.model == _SHARED_EXPERTS:
            layout = Parallelism(data=self.gpus, expert=self.gpus)
        board = built_in().boards[self.board]
        room = available_bytes(requirement, board.memory_bytes)
        server = Server(ServingMemory(requirement, layout), board, room, settings)
        return server.at(best_concurrency(server)).tokens_per_second

    def error(self, settings: ServingModelSettings | None = None) -> float:
        """The distance of the prediction, |ln|."""
        return abs(math.log(self.predicted(settings).value / self.tokens_per_second))


@cache
def published_rates() -> tuple[PublishedRate, ...]:
    """All rows."""
    kinds = {each.name: each.type for each in fields(PublishedRate)}
    with _FILE.open(encoding="utf-8", newline="") as file:
        return tuple(
            PublishedRate(**{name: kinds[name](cell) for name, cell in row.items()})
            for row in csv.DictReader(file)
        )


def published_errors() -> Iterator[str]:
    """Tables of errors by model and board, and of the one figure that is fitted."""
    rows = published_rates()
    groups = {(row.model, row.format, row.board, row.gpus): list[PublishedRate]() for row in rows}
    for row in rows:
        groups[row.model, row.format, row.board, row.gpus].append(row)
    cells = [
        (f"{model}, {form}, {gpus} x {board}", *_cells(group))
        for (model, form, board, gpus), group in groups.items()
    ]
    cells.append(("all", *_cells(rows)))
    yield table(cells, ("published throughput", "rows", "median", "p90", "in the range"))
    yield _ON_PUBLISHED
    shared = [row for row in rows if row.model == _SHARED_EXPERTS]
    yield table(_left_out(shared), ("left out", "fitted", "off", "without it"))
    yield ""


def _cells(rows: Sequence[PublishedRate]) -> Iterator[str]:
    predicted = [(row.predicted(), row.tokens_per_second) for row in rows]
    errors = [abs(math.log(each.value / said)) for each, said in predicted]
    yield str(len(rows))
    yield from (f"x{math.exp(quantile(errors, share)):.2f}" for share in (0.5, 0.9))
    yield str(sum(each.low <= said <= each.high for each, said in predicted))


def _left_out(rows: Sequence[PublishedRate]) -> Iterator[tuple[str, ...]]:
    usual = ServingModelSettings()
    errors = {
        ratio: [row.error(replace(usual, expert_imbalance_ratio=ratio)) for row in rows]
        for ratio in _IMBALANCES
    }

    def of(ratio: float, *, is_left: bool) -> float:
        chosen = zip(rows, errors[ratio], strict=True)
        return median(error for row, error in chosen if (row.board == board) is is_left)

    for board in dict.fromkeys(row.board for row in rows):
        fitted = min(_IMBALANCES, key=lambda ratio: of(ratio, is_left=False))
        off, without = (math.exp(of(ratio, is_left=True)) for ratio in (fitted, 1.0))
        yield board, str(fitted), f"x{off:.2f}", f"x{without:.2f}"
