"""Forty served models of a site whose engines are right, too large, too small, or misplaced.

What they are measured to do is what the planner predicts, off by an error of its own size.
"""

import math
import random
from collections.abc import Iterator, Mapping
from typing import Final

from msgspec import Struct

from rightsizer.catalogue.catalogue import built_in
from rightsizer.catalogue.prices_file import built_in_prices
from rightsizer.model.served_load import ServedLatency, ServedLoad
from rightsizer.planner.candidate import PlanCandidate
from rightsizer.planner.planner import Planner
from rightsizer.planner.served.engine import Statement, parallel_keys, requirement_of
from rightsizer.planner.served.finding import ServedFindingKind
from rightsizer.sizing.requirement import Parallelism

__all__ = ["BOARDS", "LEVEL", "PLANNER", "ServedModel", "served_models", "statement_of"]

BOARDS: Final = ("H100-SXM5-80GB", "A100-SXM4-80GB", "L40S")
"""Kinds of GPU that the site has."""
PLANNER: Final = Planner(built_in(), built_in_prices())
LEVEL: Final = {"ttft": "p95=2s", "tpot": "60ms"}
_WEEK_SECONDS: Final = 7 * 86400.0
_PEAK: Final = 1.5
"""Busiest time over the mean."""
_MODELS: Final = {
    "meta-llama/Llama-3.1-8B-Instruct": "bf16",
    "Qwen/Qwen3-32B": "bf16",
    "mistralai/Mistral-7B-Instruct-v0.3": "bf16",
    "Qwen/Qwen2.5-14B-Instruct": "bf16",
    "neuralmagic/Meta-Llama-3.1-70B-Instruct-FP8": "fp8",
}


class ServedModel(Struct, frozen=True):
    """A served model, and what should be found about it."""

    kind: str
    load: ServedLoad
    finding: ServedFindingKind | None
    """`None` if nothing may be advised."""
    biases: Mapping[str, float]
    """By board: logarithm of its true times over those predicted, in ends of the interval."""
    alias: str = ""
    """Model that is stated for its name."""


class _Site:
    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._biases = {
            model: {board: self._random.gauss(0.0, 0.4) for board in BOARDS} for model in _MODELS
        }
        self._gpus = 0

    def question(self, model: str, rate: float, tokens_in: int | None = None) -> dict[str, object]:
        """The plan of a load at its busiest."""
        weights = _MODELS[model]
        tokens = {"in": tokens_in or self._random.choice((400, 1500, 3000)), "out": 250}
        return {"model": model, "precision": weights, "rps": rate, **tokens, **LEVEL}

    def cheapest(self, question: dict[str, object]) -> PlanCandidate:
        """The cheapest that surely holds it on the site's boards."""
        candidates = PLANNER.candidates(requirement_of({**question, "gpus": list(BOARDS)}))
        fitting = [candidate for candidate in candidates if candidate.fits and candidate.is_sure]
        return min(fitting, key=lambda candidate: candidate.dollars_per_hour or math.inf)

    def load(
        self, question: dict[str, object], board: str, layout: Parallelism, *, is_short: bool
    ) -> ServedLoad:
        """What an engine in a layout is measured to do over a week."""
        peak = float(str(question["rps"]))
        mean = peak / _PEAK
        # Without the level, whose percentiles are not what is measured on average.
        asked = {key: value for key, value in question.items() if key not in LEVEL}
        asked |= {"rps": mean, "parallel": parallel_keys(layout)}
        rate = PLANNER.predicted(requirement_of(asked), board).rate
        between = rate.tpot_ms
        first = rate.ttft_ms
        assert between is not None
        assert first is not None
        name = str(question["model"])
        bias = self._biases[name][board]
        slow = (between.high / between.value) ** bias
        late = (first.high / first.value) ** bias
        self._gpus += layout.gpus
        devices = tuple(f"GPU-{self._gpus - number}" for number in range(layout.gpus))
        running = rate.concurrency or 1.0
        return ServedLoad(
            model=name,
            engine="vllm",
            window_seconds=_WEEK_SECONDS,
            requests_per_second=mean,
            requests_per_second_peak=peak,
            devices=devices,
            board=built_in().boards[board].names[0],
            workload=f"{name.rpartition('/')[2]}-{self._gpus}",
            engines=layout.data,
            tensor=layout.tensor,
            weight_format=str(question["precision"]),
            prompt_tokens=float(str(question["in"])),
            output_tokens=float(str(question["out"])),
            requests_running=running,
            requests_waiting=2.0 + running if is_short else 0.0,
            time_to_first_token=ServedLatency(1e-3 * late * first.value),
            time_per_output_token=ServedLatency(1e-3 * slow * between.value),
        )

    def biases(self, load: ServedLoad) -> Mapping[str, float]:
        """How far the model is off on each board."""
        return self._biases[load.model]

    def rate(self) -> float:
        """Requests a second at the busiest time."""
        return round(self._random.uniform(2.0, 24.0), 1)


def served_models(seed: int) -> Iterator[ServedModel]:
    """Yield forty: eight right, eleven too large, eight too small, four misplaced, nine named."""
    site = _Site(seed)
    names = list(_MODELS)
    for number in range(8):
        question = site.question(names[number % 5], site.rate())
        best = site.cheapest(question)
        load = site.load(question, best.gpu, best.layout, is_short=False)
        yield ServedModel("right", load, None, site.biases(load))
    for number in range(11):
        question = site.question(names[number % 5], site.rate())
        yield _too_large(site, question, number)
    for number in range(8):
        yield _too_small(site, names[number % 5])
    yield from _misplaced(site)
    for number in range(5):
        question = site.question(names[number % 5], site.rate())
        large = _too_large(site, question, number)
        load = _named(large.load, f"alias-{number}")
        alias = large.load.model
        yield ServedModel("aliased", load, large.finding, large.biases, alias)
    for number in range(4):
        question = site.question(names[number % 5], site.rate())
        large = _too_large(site, question, number)
        load = _named(large.load, f"unknown-{number}")
        yield ServedModel("unknown", load, None, large.biases)


def _too_large(site: _Site, question: dict[str, object], number: int) -> ServedModel:
    """Two to four times the replicas that the load needs."""
    best = site.cheapest(question)
    times = 2 + number % 3
    layout = Parallelism(best.layout.tensor, data=times * best.layout.data)
    load = site.load(question, best.gpu, layout, is_short=False)
    return ServedModel("too large", load, ServedFindingKind.TOO_LARGE, site.biases(load))


def _too_small(site: _Site, name: str) -> ServedModel:
    """Half the replicas that the load needs."""
    question = site.question(name, site.rate())
    best = site.cheapest(question)
    while best.layout.data == 1:
        question["rps"] = 2.0 * float(str(question["rps"]))
        best = site.cheapest(question)
    less = Parallelism(best.layout.tensor, data=best.layout.data // 2)
    load = site.load(question, best.gpu, less, is_short=True)
    return ServedModel("too small", load, ServedFindingKind.TOO_SMALL, site.biases(load))


def _misplaced(site: _Site) -> Iterator[ServedModel]:
    """Yield two pairs: a small load on a large board, a large one on a small board."""
    for _ in range(2):
        little = site.question("mistralai/Mistral-7B-Instruct-v0.3", 0.5, 400)
        much = site.question("meta-llama/Llama-3.1-8B-Instruct", 8.0, 400)
        large = site.load(little, "H100-SXM5-80GB", Parallelism(), is_short=False)
        yield ServedModel("misplaced", large, ServedFindingKind.TOO_LARGE, site.biases(large))
        short = site.load(much, "L40S", Parallelism(), is_short=True)
        yield ServedModel("misplaced", short, ServedFindingKind.TRADE, site.biases(short))


def _named(load: ServedLoad, name: str) -> ServedLoad:
    fields = {field: getattr(load, field) for field in load.__struct_fields__}
    return ServedLoad(**{**fields, "model": name, "workload": name})


def statement_of(models: list[ServedModel]) -> Statement:
    """What the operator states of aliases, and the level."""
    stated = {model.load.model: model.alias for model in models if model.alias}
    return Statement(models=stated, ttft=LEVEL["ttft"], tpot=LEVEL["tpot"])
