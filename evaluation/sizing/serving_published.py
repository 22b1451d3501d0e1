"""Serving predictions against what others publish.

Of TensorRT-LLM's makers, NVIDIA/TensorRT-LLM, docs/source/performance/perf-overview.md @00f3768
(release 1.0, Apache-2.0): output tokens a second under the highest load, of NVIDIA's quantized
checkpoints. Replicas of Qwen3-235B-A22B share their experts, as the commands there have it.

Of mixtures whose experts are cut over one group: SemiAnalysisAI/InferenceX (Apache-2.0) by pull
request or issue, where lengths are uniform between 0.8 and 1 of what is stated, so that their means
stand here; vllm-project/vllm; gpustack/gpustack, docs/performance-lab (Apache-2.0), where all
prompts are sent at once; sgl-project/sgl-cookbook, docs/autoregressive (Apache-2.0), where lengths
are uniform up to what is stated and their means, as those of requests in flight, stand here.
"""

import csv
import math
from collections.abc import Iterator, Sequence
from functools import cache, partial
from pathlib import Path
from statistics import fmean, median
from typing import Final, TypeVar, get_type_hints

from msgspec import Struct
from msgspec.structs import replace

from measured import as_rows, quantile, summarized, table
from rightsizer.catalogue.catalogue import built_in
from rightsizer.planner.plan_file import plan_of_flags
from rightsizer.sizing.estimate import EstimateInterval
from rightsizer.sizing.memory import available_bytes
from rightsizer.sizing.requirement import Parallelism
from rightsizer.sizing.serving import Server, best_concurrency
from rightsizer.sizing.serving_memory import ServingMemory
from rightsizer.sizing.serving_settings import ServingModelSettings

_FILE: Final = Path(__file__).with_name("published_throughput.csv")
_REACHED: Final = tuple(step / 50 for step in range(25, 51))
_MIXTURES_FILE: Final = Path(__file__).with_name("published_mixtures.csv")
SHARED_EXPERTS: Final = "Qwen3-235B-A22B"
_PROMPT_STARTS: Final = (0.0, 0.2e-3, 0.3e-3, 0.4e-3, 0.5e-3, 0.6e-3, 0.8e-3, 1e-3)
_IMBALANCES: Final = (1.0, 1.2, 1.4, 1.6, 1.8, 2.0, 2.2, 2.4)
_ON_PUBLISHED: Final = "\nLargest output tokens a second published by TensorRT-LLM 1.0's makers.\n"
_ON_SHARED: Final = (
    "`expert_imbalance_ratio` is fitted to rows whose replicas share experts; with a board left"
    " out:\n"
)
_FITTED: Final = ("fitted", "off", "without it")
_ALL: Final = "all"
_ON_MIXTURES: Final = (
    "\nMixtures whose experts are split over the GPUs of one group, in vLLM, SGLang and"
    " TensorRT-LLM. Intervals are read off these rows, and `other_vendor_experts_ratio` off"
    " other vendors'. Rates are of vLLM and SGLang with all prompts sent at once.\n"
)
_ON_PROMPTS: Final = (
    "\n`expert_prompt_layer_seconds` is fitted to all four figures of these mixtures and those"
    " above; medians with each model and board left out in turn:\n"
)
_MEASURES: Final = ("TTFT", "TPOT", "tokens/s", "the most")
_JUDGED: Final = (" off", " without it")


class PublishedRate(Struct, frozen=True):
    """A row of the table."""

    model: str
    board: str
    gpus: int
    format: str
    input_tokens: int
    output_tokens: int
    tokens_per_second: float

    @property
    def is_mixture(self) -> bool:
        """Whether the model has experts."""
        return "A3B" in self.model or self.model == SHARED_EXPERTS

    def predicted(self, settings: ServingModelSettings | None = None) -> EstimateInterval:
        """Predicted rate of the same layout at its best."""
        layout = Parallelism(tensor=self.gpus)
        if self.model == SHARED_EXPERTS:
            layout = Parallelism(data=self.gpus, expert=self.gpus)
        server = _server(self, "tensorrt-llm", layout, settings)
        return server.at(best_concurrency(server)).tokens_per_second

    def error(self, settings: ServingModelSettings | None = None) -> float:
        """The distance of the prediction, |ln|."""
        return abs(math.log(self.predicted(settings).value / self.tokens_per_second))


class PublishedMixture(Struct, frozen=True):
    """Measured figures of a mixture of experts on one group of GPUs; unpublished ones are 0."""

    model: str
    board: str
    gpus: int
    format: str
    engine: str
    input_tokens: int
    output_tokens: int
    concurrency: float
    first_ms: float
    between_ms: float
    tokens_per_second: float
    source: str

    def measures(
        self, settings: ServingModelSettings | None = None
    ) -> Iterator[tuple[str, float, EstimateInterval]]:
        """Name of each figure, measured and predicted."""
        server = _server(self, self.engine, Parallelism(tensor=self.gpus), settings)
        served = server.at(self.concurrency)
        pairs = (
            ("TPOT", self.between_ms, served.tpot_ms),
            ("TTFT", self.first_ms, served.ttft_ms),
            ("tokens/s", self.tokens_per_second, served.tokens_per_second),
        )
        return (pair for pair in pairs if pair[1])


def _server(
    row: PublishedRate | PublishedMixture,
    engine: str,
    layout: Parallelism,
    settings: ServingModelSettings | None,
) -> Server:
    asked = {"model": row.model, "precision": row.format, "engine": engine}
    sizes = {"in": str(row.input_tokens), "out": str(row.output_tokens)}
    requirement = plan_of_flags(asked | sizes).items[0].requirement
    assert requirement is not None
    board = built_in().boards[row.board]
    room = available_bytes(requirement, board.memory_bytes)
    memory = ServingMemory(requirement, layout)
    return Server(memory, board, room, settings or ServingModelSettings())


_Row = TypeVar("_Row", PublishedRate, PublishedMixture)


def _read(kind: type[_Row], path: Path) -> tuple[_Row, ...]:
    kinds = get_type_hints(kind)
    with path.open(encoding="utf-8", newline="") as file:
        return tuple(
            kind(**{name: kinds[name](cell or 0) for name, cell in row.items()})
            for row in csv.DictReader(file)
        )


@cache
def published_mixtures() -> tuple[PublishedMixture, ...]:
    """All rows."""
    return _read(PublishedMixture, _MIXTURES_FILE)


@cache
def published_rates() -> tuple[PublishedRate, ...]:
    """All rows."""
    return _read(PublishedRate, _FILE)


def published_errors() -> Iterator[str]:
    """Tables of errors by model and board, and of the one figure that is fitted."""
    rates = published_rates()
    groups = {(row.model, row.format, row.board, row.gpus): list[PublishedRate]() for row in rates}
    for row in rates:
        groups[row.model, row.format, row.board, row.gpus].append(row)
    cells = [
        (f"{model}, {number_format}, {gpus} x {board}", *_cells(_pairs(group)))
        for (model, number_format, board, gpus), group in groups.items()
    ]
    cells.append((_ALL, *_cells(_pairs(rates))))
    headings: tuple[str, ...] = ("published throughput", "rows", "median", "p90", "in the range")
    yield summarized(cells, headings, sums_up=lambda line: line[0] == _ALL)
    yield _ON_PUBLISHED
    shared = [row for row in rates if row.model == SHARED_EXPERTS]
    yield as_rows("\n".join((_ON_SHARED, table(_left_out(shared), ("left out", *_FITTED)), "")))
    headings = ("mixtures in one group", "measured", "rows", "median", "p90", "in the range")
    yield summarized(_mixture_errors(), headings, sums_up=lambda line: line[0] == _ALL)
    yield _ON_MIXTURES
    vendors = table(_vendors_left_out(), ("other vendors, left out", *_FITTED))
    yield as_rows(f"{vendors}\n")
    judged = (f"{what}{of}" for what in _MEASURES for of in _JUDGED)
    prompts = table(_prompts_left_out(), ("left out, each", "fitted, ms", *judged))
    yield as_rows(f"{_ON_PROMPTS}\n{prompts}\n")


def _vendors_left_out() -> Iterator[tuple[str, ...]]:
    """`other_vendor_experts_ratio` by the boards of other vendors, each left out in turn."""
    rows = [row for row in published_mixtures() if built_in().boards[row.board].vendor != "NVIDIA"]

    def off(ratio: float, board: str, *, is_left: bool) -> float:
        settings = replace(ServingModelSettings(), other_vendor_experts_ratio=ratio)
        errors = []
        for row in rows:
            if (row.board == board) is is_left:
                server = _server(row, row.engine, Parallelism(tensor=row.gpus), settings)
                served = server.at(row.concurrency).tpot_ms.value
                errors.append(abs(math.log(served / row.between_ms)))
        return median(errors)

    for board in dict.fromkeys(row.board for row in rows):
        fitted = min(_REACHED, key=lambda ratio: off(ratio, board, is_left=False))
        found = (math.exp(off(ratio, board, is_left=True)) for ratio in (fitted, 1.0))
        yield board, f"{fitted:.2f}", *(f"x{each:.2f}" for each in found)


def _prompts_left_out() -> Iterator[tuple[str, ...]]:
    """`expert_prompt_layer_seconds` with models and boards left out in turn."""
    errors = {seconds: tuple(_with_prompt_starts(seconds)) for seconds in _PROMPT_STARTS}

    def cost(seconds: float, key: str, left: str) -> float:
        kept = [(what, off) for row, what, off in errors[seconds] if getattr(row, key) != left]
        return sum(fmean(off for each, off in kept if each == what) for what in _MEASURES)

    for key in ("model", "board"):
        names = {getattr(row, key) for row, _, _ in errors[0.0]}
        chosen = {
            left: min(_PROMPT_STARTS, key=partial(cost, key=key, left=left)) for left in names
        }
        judged = {(what, of): list[float]() for what in _MEASURES for of in _JUDGED}
        for place, (row, what, without) in enumerate(errors[0.0]):
            judged[what, _JUDGED[0]].append(errors[chosen[getattr(row, key)]][place][2])
            judged[what, _JUDGED[1]].append(without)
        fitted = f"{1e3 * min(chosen.values()):.1f} to {1e3 * max(chosen.values()):.1f}"
        yield key, fitted, *(f"x{math.exp(median(each)):.2f}" for each in judged.values())


def _with_prompt_starts(
    seconds: float,
) -> Iterator[tuple[PublishedMixture | PublishedRate, str, float]]:
    settings = replace(ServingModelSettings(), expert_prompt_layer_seconds=seconds)
    for mixture in published_mixtures():
        for what, measured, estimate in mixture.measures(settings):
            yield mixture, what, abs(math.log(estimate.value / measured))
    for rate in published_rates():
        if rate.is_mixture:
            yield rate, _MEASURES[-1], rate.error(settings)


def _mixture_errors() -> Iterator[tuple[str, ...]]:
    groups = dict[tuple[str, str], list[tuple[EstimateInterval, float]]]()
    for row in published_mixtures():
        for what, measured, estimate in row.measures():
            title = f"{row.model}, {row.format}, {row.engine}"
            for name in (title, _ALL):
                groups.setdefault((name, what), []).append((estimate, measured))
    for (title, what), pairs in sorted(groups.items(), key=lambda each: each[0][0] == _ALL):
        yield title, what, *_cells(pairs)


def _pairs(rows: Sequence[PublishedRate]) -> list[tuple[EstimateInterval, float]]:
    return [(row.predicted(), row.tokens_per_second) for row in rows]


def _cells(predicted: Sequence[tuple[EstimateInterval, float]]) -> Iterator[str]:
    errors = [abs(math.log(each.value / said)) for each, said in predicted]
    yield str(len(predicted))
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
