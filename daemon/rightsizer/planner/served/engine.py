"""ServedEngine: a measured load as a requirement of the planner, with what is assumed."""

import math
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, cast

from msgspec import Struct
from msgspec.structs import asdict, replace

from rightsizer.catalogue.board import Board
from rightsizer.model.errors import RequirementError
from rightsizer.model.served_load import ServedLoad
from rightsizer.planner.aliases import aliases_of
from rightsizer.planner.display import number
from rightsizer.planner.models.known_models import find_model, is_repository
from rightsizer.planner.plan_file import plan_of_keys
from rightsizer.planner.planner import Planner, boards_of
from rightsizer.sizing.collectives import SERVER_GPUS
from rightsizer.sizing.engine import TAKEN_RATIO, ServingEngine
from rightsizer.sizing.estimate import halved
from rightsizer.sizing.memory import available_bytes
from rightsizer.sizing.models import Transformer
from rightsizer.sizing.parameters import NumberFormat
from rightsizer.sizing.requirement import Parallelism, Requirement
from rightsizer.sizing.serving_memory import ServingMemory

Question = Mapping[str, Any]
"""Keys of a plan file."""

LEVELS: Final = ("ttft", "tpot")
"""Keys of a service level."""
_CACHED_PATH: Final = re.compile(r"models--([\w.-]+)--([\w.-]+)")
"""Folder of Hugging Face's cache: organization and model."""
_FORMATS: Final = aliases_of("format")
_PROBED: Final = (NumberFormat.BF16, NumberFormat.FP8, NumberFormat.INT4)
"""Formats of weights that memory tells apart."""
_APART: Final = 1.1
"""Ratio of memory within which a format explains what is used."""
_PARAMETERS: Final = (1e7, 2e12)
"""Fewest and most of a model that is known by its memory alone."""
_MOST_CACHED: Final = 0.99
_SIZE_HALVINGS: Final = 30
QUANTILE: Final = "p95={:.6f}ms"
"""A service level as a plan has it."""


class ServedAssumption(Struct, frozen=True):
    """What an engine does not tell, what is taken in its place, and what hangs on it."""

    what: str
    taken: str
    effect: str = ""
    remedy: str = ""
    other: tuple[str, Question] | None = None
    """What may hold instead, in words and in keys of its plan."""

    def __str__(self) -> str:
        """`tensor: 2 is assumed, all GPUs of an engine; ...`."""
        parts = (f"{self.what}: {self.taken}", self.effect, self.remedy)
        return "; ".join(filter(None, parts))


class Statement(Struct, frozen=True):
    """What the operator states of engines, in place of what they tell."""

    models: Mapping[str, str] = {}
    """Model by the name that an engine serves it as; empty name for any."""
    board: str = ""
    """Key of a board or of a slice."""
    gpus: int | None = None
    tensor: int | None = None
    precision: str = ""
    ttft: str = ""
    """As of a plan: `400ms`, `p95=400ms`."""
    tpot: str = ""


NOTHING_STATED: Final = Statement()


class ServedEngine(Struct, frozen=True):
    """One engine, or equal replicas, as the planner sees it."""

    load: ServedLoad
    question: Question
    """Keys of the plan of its load: model, tokens, format, engine, service level; no rate."""
    requirement: Requirement
    """Of that question."""
    layout: Parallelism
    board: Board
    level: str
    """Service level in words; empty without any."""
    held_gpus: int = 0
    """Of all replicas together, as told; 0 if they are not."""
    assumptions: tuple[ServedAssumption, ...] = ()
    source: str = ""
    """Repository of what is served, if it has the name of one."""
    is_level_stated: bool = False
    is_model_known: bool = True
    stated: frozenset[str] = frozenset()
    """What it exports or the operator states: `model`, `format`, `tensor`, `prefix_cache`."""

    @property
    def name(self) -> str:
        """Of its owner, else of what it serves."""
        return self.load.workload or self.load.model or self.load.engine

    @property
    def model(self) -> str:
        """Name of the model."""
        return self.requirement.model.name or str(self.question["model"])

    @property
    def idle_gpus(self) -> int:
        """GPUs that it holds beyond its layout."""
        return max(0, self.held_gpus - self.layout.gpus)

    @property
    def in_flight(self) -> float | None:
        """Requests in flight as a token sees them.

        Most tokens are made in busy hours: hours count by their requests.
        """
        running = self.load.requests_running
        if running is None:
            return None
        return max(1.0, running * _busy_factor(self.load.requests_per_second_by_hour))

    @property
    def rate(self) -> float:
        """Requests a second: counted, else by output tokens of the assumed length."""
        load = self.load
        if load.requests_per_second is not None:
            return load.requests_per_second
        return (load.output_tokens_per_second or 0.0) / self.requirement.load.output_tokens

    @property
    def peak_rate(self) -> float:
        """Requests a second of the busiest time."""
        load = self.load
        hours = [rate for rate in load.requests_per_second_by_hour if rate is not None]
        return max(self.rate, load.requests_per_second_peak or 0.0, *hours)

    @property
    def longest(self) -> tuple[float, float] | None:
        """Tokens in and out of its longest requests (p95); `None` if they are not exported."""
        prompt = self.load.prompt_tokens_p95
        answer = self.load.output_tokens_p95
        return None if prompt is None or answer is None else (prompt, answer)

    def at_rate(self, requests_per_second: float) -> Question:
        """Question of its load at another rate."""
        return {**self.question, "rps": requests_per_second}


def _busy_factor(hours: tuple[float | None, ...]) -> float:
    """Mean of the hours by their requests, over their plain mean."""
    rates = [rate for rate in hours if rate is not None]
    total = sum(rates)
    if not total:
        return 1.0
    return sum(rate * rate for rate in rates) * len(rates) / total**2


def requirement_of(question: Question) -> Requirement:
    """Return the requirement of the keys of a plan; raises `RequirementError`."""
    (item,) = plan_of_keys(question).items
    # Of what is no list, errors are raised.
    return cast(Requirement, item.requirement)


def parallel_keys(layout: Parallelism) -> dict[str, int]:
    """Return a layout as the keys of a plan."""
    return asdict(layout)


def served_engine(load: ServedLoad, planner: Planner, statement: Statement) -> ServedEngine:
    """Return how an engine runs, as far as it tells, and what is assumed.

    Raises:
        RequirementError: its GPU is unknown, or what it serves writes no tokens.
    """
    return _EngineBuilder(load, planner, statement).build()


class _EngineBuilder:
    """Builder of one ServedEngine."""

    def __init__(self, load: ServedLoad, planner: Planner, statement: Statement) -> None:
        self._load = load
        self._planner = planner
        self._statement = statement
        self._assumed: list[ServedAssumption] = []
        self._board = _board(load, planner, statement)
        self._held = statement.gpus or len(load.devices)

    def build(self) -> ServedEngine:
        """Return the engine; raises `RequirementError`."""
        load = self._load
        level, words = _level(load, self._statement)
        question: dict[str, Any] = {"engine": self._engine(), **dict(self._tokens()), **level}
        model = _model_name(load, self._statement)
        if model is None:
            layout = self._layout(None)
            question["model"] = self._size(question, layout)
            requirement = requirement_of(question)
        else:
            question["model"] = model
            requirement = requirement_of(question)
            layout = self._layout(requirement)
        if not isinstance(requirement.model, Transformer) or not requirement.answers_in_tokens:
            fault = "writes no tokens; only engines that do are planned"
            raise RequirementError(f"{load.model}: {fault}")
        question |= self._precision(requirement, layout)
        return ServedEngine(
            load=load,
            question=question,
            requirement=requirement_of(question),
            layout=layout,
            board=self._board,
            level=words,
            held_gpus=self._held,
            assumptions=tuple(self._assumed),
            source=self._source(model),
            is_level_stated=bool(stated_level(load, self._statement)),
            is_model_known=model is not None,
            stated=frozenset(self._stated()),
        )

    def _stated(self) -> Iterator[str]:
        load = self._load
        statement = self._statement
        if statement.models:
            yield "model"
        if number_format(statement.precision) or number_format(load.weight_format):
            yield "format"
        if statement.tensor or load.tensor:
            yield "tensor"
        if load.prefix_hit_ratio is not None:
            yield "prefix_cache"

    def _source(self, model: str | None) -> str:
        """Return the repository that is stated, else the one that is served."""
        is_stated = model is not None and model in self._statement.models.values()
        name = model if is_stated and model else self._load.model
        return name if is_repository(name) else ""

    def _assume(
        self,
        what: str,
        taken: str,
        effect: str = "",
        remedy: str = "",
        other: tuple[str, Question] | None = None,
    ) -> None:
        self._assumed.append(ServedAssumption(what, taken, effect, remedy, other))

    def _engine(self) -> str:
        engine = self._load.engine
        if engine in {str(served) for served in ServingEngine}:
            return engine
        taken = ServingEngine.VLLM
        self._assume("engine", f"{engine or 'it'} is predicted as {taken}, whose times are known")
        return str(taken)

    def _tokens(self) -> Iterator[tuple[str, float]]:
        load = self._load
        for key, what, tokens in (
            ("in", "prompt tokens", load.prompt_tokens),
            ("out", "output tokens", load.output_tokens),
        ):
            if tokens:
                yield key, max(1.0, tokens)
            else:
                self._assume(what, "not exported: those of a plan without them are taken")
        if load.prefix_hit_ratio:
            yield "prefix_cache_ratio", min(_MOST_CACHED, load.prefix_hit_ratio)

    def _layout(self, requirement: Requirement | None) -> Parallelism:
        """Return the layout by GPUs, replicas and tensor size; of fewer, the rest is assumed."""
        load = self._load
        engines = max(1, load.engines)
        tensor = self._statement.tensor or load.tensor
        if self._held:
            engine_gpus = max(1, self._held // engines)
        else:
            engine_gpus = tensor or (1 if requirement is None else self._least_gpus(requirement))
            if tensor is None:
                taken = f"{engine_gpus} of each engine, the fewest that hold the model"
                self._assume("GPUs", taken, "more are faster, and cost more", "give --gpus")
        if tensor is None or tensor > engine_gpus:
            tensor = 1 << (min(engine_gpus, SERVER_GPUS).bit_length() - 1)
            if engine_gpus > 1:
                apart = Parallelism(1, data=engines * engine_gpus)
                other = ("as replicas of one GPU", {"parallel": parallel_keys(apart)})
                taken = f"{tensor}, over the GPUs of an engine"
                self._assume("tensor", taken, remedy="give --tp", other=other)
        rest = max(1, engine_gpus // tensor)
        layout = Parallelism(tensor, data=engines * rest)
        if engine_gpus > SERVER_GPUS:
            layout = Parallelism(tensor, pipeline=rest, data=engines)
        if self._held > layout.gpus:
            taken = f"{self._held} are held, of which {layout.gpus} run it; all are paid"
            self._assume("GPUs", taken, remedy="give --gpus and --tp as it runs")
        return layout

    def _least_gpus(self, requirement: Requirement) -> int:
        """Return the smallest tensor size whose memory holds a request."""
        memory = self._planner.settings.memory
        room = available_bytes(requirement, self._board.memory_bytes, memory)
        sizes = [1 << power for power in range(SERVER_GPUS.bit_length())]
        for tensor in sizes:
            if ServingMemory(requirement, Parallelism(tensor), memory).largest_concurrency(room):
                return tensor
        return sizes[-1]

    def _precision(
        self, requirement: Requirement, layout: Parallelism
    ) -> Iterator[tuple[str, Any]]:
        load = self._load
        cache = number_format(load.cache_format)
        named = requirement.precision.weights
        weights = number_format(self._statement.precision) or number_format(load.weight_format)
        if weights is None:
            weights = self._assumed_weights(requirement, layout, cache)
        if weights is not named or cache is not None:
            parts = {"weights": str(weights)}
            if cache is not None:
                parts["kv_cache"] = str(cache)
            yield "precision", parts

    def _assumed_weights(
        self, requirement: Requirement, layout: Parallelism, cache: NumberFormat | None
    ) -> NumberFormat:
        """Return the format that the memory in use tells, else the published one."""
        named = requirement.precision.weights
        explained = self._formats_by_memory(requirement, layout, cache)
        if explained and named not in explained:
            self._assume("format", f"weights in {explained[0]}, which the memory in use tells")
            return explained[0]
        if not explained and not named.is_quantized:
            narrow = NumberFormat.FP8
            other = (f"in {narrow}", {"precision": str(narrow)})
            taken = f"weights in {named}, as published"
            self._assume("format", taken, remedy="give --precision", other=other)
        return named

    def _formats_by_memory(
        self, requirement: Requirement, layout: Parallelism, cache: NumberFormat | None
    ) -> list[NumberFormat]:
        """Return the formats that explain the memory in use, best first."""
        used = self._load.memory_used_bytes
        if used is None:
            return []
        errors = {}
        for weights in dict.fromkeys((requirement.precision.weights, *_PROBED)):
            precision = replace(requirement.precision, weights=weights, kv_cache=cache)
            probed = replace(requirement, precision=precision)
            filled = memory_in_use(self._load, probed, layout, self._planner)
            if filled is not None:
                errors[weights] = abs(math.log(filled / used))
        near = [weights for weights, error in errors.items() if error <= math.log(_APART)]
        return sorted(near, key=errors.__getitem__)

    def _size(self, question: Question, layout: Parallelism) -> str:
        """Return the size of a dense decoder that fills the memory in use, beside its cache.

        Without the size of the cache, half of what servers take ahead is taken as weights.
        """
        load = self._load
        memory = self._planner.settings.memory
        used = load.memory_used_bytes or TAKEN_RATIO * self._board.memory_bytes

        def is_below(parameters_log: float) -> bool:
            size = _size_text(math.exp(parameters_log))
            requirement = requirement_of({**question, "model": size})
            filled = memory_in_use(load, requirement, layout, self._planner)
            if filled is None:
                filled = 2.0 * ServingMemory(requirement, layout, memory).weights_bytes
            return filled < used

        log_minimum, log_maximum = map(math.log, _PARAMETERS)
        largest, _ = halved(log_minimum, log_maximum, is_below, times=_SIZE_HALVINGS)
        size = _size_text(float(f"{math.exp(largest):.2g}"))
        name = f"'{load.model}' is none that is known" if load.model else "no name is exported"
        self._assume(
            "model",
            f"{name}: a dense decoder of {size}, by memory and GPUs",
            "all figures are as uncertain as its size",
            f"give --model {load.model + '=' if load.model else ''}NAME",
        )
        return size


def _board(load: ServedLoad, planner: Planner, statement: Statement) -> Board:
    if statement.board:
        (stated,) = boards_of((statement.board,), planner.catalogue, "--gpu")
        return stated
    board = planner.catalogue.find(load.board) if load.board else None
    if board is not None:
        return board
    why = f"of '{load.board}', which is not in the catalogue" if load.board else "on an unknown GPU"
    name = load.workload or load.model or load.engine
    raise RequirementError(f"{name}: runs {why}; name the board with --gpu, such as --gpu L40S")


def stated_level(load: ServedLoad, statement: Statement) -> Mapping[str, str]:
    """Return the keys of the level that the operator states, else a policy; empty without one."""
    level = statement if statement.ttft or statement.tpot else load
    stated = {"ttft": level.ttft, "tpot": level.tpot}
    return {key: value for key, value in stated.items() if value}


def _level(load: ServedLoad, statement: Statement) -> tuple[dict[str, str], str]:
    """Return the keys of the service level, and its words: as stated, else today's p95."""
    stated = stated_level(load, statement)
    if stated:
        return dict(stated), _level_words(stated)
    keys = {}
    rounded = {}
    for key, latency in (("ttft", load.time_to_first_token), ("tpot", load.time_per_output_token)):
        if latency is not None and latency.p95_seconds:
            took = 1e3 * latency.p95_seconds
            keys[key] = QUANTILE.format(took)
            rounded[key] = f"p95={number(took)} ms"
    return keys, f"{_level_words(rounded)}, what is kept today" if keys else ""


def _level_words(keys: Mapping[str, str]) -> str:
    words = []
    for key, value in keys.items():
        percentile, is_part, limit = value.rpartition("=")
        words.append(f"{key.upper()}{f' {percentile}' if is_part else ''} <= {limit}")
    return ", ".join(words)


def _model_name(load: ServedLoad, statement: Statement) -> str | None:
    """Return what the operator states, else the name or the end of the path that is known."""
    stated = statement.models.get(load.model) or statement.models.get("")
    if stated:
        return stated
    names = [load.model]
    if cached := _CACHED_PATH.search(load.model):
        names.append(f"{cached[1]}/{cached[2]}")
    names.append(load.model.rstrip("/").rpartition("/")[2])
    return next((name for name in names if _is_text_model(name)), None)


def _is_text_model(name: str) -> bool:
    model = find_model(name) if name.strip() else None
    # A page is not trusted with paths: only names of the table count.
    return model is not None and "model_type" in model.config


def number_format(word: str) -> NumberFormat | None:
    """Return the format that an engine's word means; `None` if it means none for certain."""
    plain = _FORMATS.get(word.lower(), word.lower())
    return next((candidate for candidate in NumberFormat if candidate == plain), None)


def memory_in_use(
    load: ServedLoad, requirement: Requirement, layout: Parallelism, planner: Planner
) -> float | None:
    """Return what an engine fills of a GPU with a cache of the size that it exports."""
    if load.kv_cache_tokens is None:
        return None
    one = replace(layout, data=layout.expert)
    memory = ServingMemory(requirement, one, planner.settings.memory)
    empty = memory.at(1.0)
    filled = memory.cache.request_bytes(load.kv_cache_tokens)
    return empty.total_bytes - empty.kv_cache_bytes + filled


def _size_text(parameters: float) -> str:
    return f"{parameters / 1e9:.6g}B"
