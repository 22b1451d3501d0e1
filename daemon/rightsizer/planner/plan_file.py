"""Reader of plan files: one requirement, several, or a list."""

import re
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from rightsizer.catalogue.prices_file import STATED
from rightsizer.config.row import Row, shown
from rightsizer.io.yaml import Document
from rightsizer.model.errors import RequirementError, UsageError
from rightsizer.planner.aliases import aliases_of
from rightsizer.planner.load_row import LOAD_WORDS, SPELLINGS, read_load, unknown_hint
from rightsizer.planner.plan_model import READING, read_model_row, reading_alone
from rightsizer.planner.plan_notes import requirement_notes
from rightsizer.planner.question_file import FileQuestion, read_questions
from rightsizer.planner.value_row import read_choice, read_fields
from rightsizer.sizing.engine import ENGINES, ServingEngine
from rightsizer.sizing.models import (
    ConvolutionalNetwork,
    Transformer,
    VisionTransformer,
)
from rightsizer.sizing.parameters import NumberFormat
from rightsizer.sizing.requirement import (
    FULL_SHARDING,
    LoadGrowth,
    Lora,
    ModelTask,
    Parallelism,
    Precisions,
    Recompute,
    Requirement,
    Training,
    TrainingFramework,
)

KEYS: Final = (
    "model",
    "task",
    "precision",
    "load",
    "training",
    "lora",
    "parallel",
    "growth",
    "gpus",
    "prices",
    "parameters",
    "train",
    "tokens",
    "provider",
    "spares",
    "engine",
    "budget",
    "tp",
    "framework",
    "layout",
)
_TRAIN: Final = {
    "full": ModelTask.TRAINING,
    "lora": ModelTask.FINETUNE_LORA,
    "qlora": ModelTask.FINETUNE_QLORA,
}
_FORMATS: Final = aliases_of("format")
"""Names of formats in engines."""
_CLOUDS: Final = aliases_of("cloud")
"""Common names of clouds."""
_FRAMEWORKS: Final = aliases_of("framework")
"""Other names of training frameworks."""
_LAYOUT: Final = re.compile(r"(tp|pp|dp|ep)[ =:]*([1-9]\d{0,3})[ ,]*")
"""`tp4 pp2`: GPUs of tensor, pipeline, data and expert parallelism, as engines name them."""
_IMAGES_AT_A_TIME: Final = 32
"""Enough to fill most GPUs; assumed."""
CARBON: Final = "carbon_grams_per_kwh"
"""Listed among the prices, though not the price of a GPU."""
_LEAST_GROWTH: Final = -0.99
"""An ended load costs nothing, and has no useful figures."""
_MOST_GROWTH: Final = 100.0
_MOST_MONTHS: Final = 120
_WITH_CACHE: Final = frozenset({NumberFormat.FP8, NumberFormat.NVFP4})
_QUANTIZED_CACHE: Final = (
    "precision: keys and values in fp8 too, as the engine's checkpoints have them; "
    "'precision: {weights: fp8, kv_cache: bf16}' in a file for others"
)
_RATE_KEYS: Final = re.compile(r"give [a-z_ ]*requests_per_second[a-z_ ]*")
"""Suggestions on rates for files, of which the command line supports one key."""
_NOWHERE: Final = ":1:1: "
"""Place of values that are not in a file."""
_MOST_DOLLARS: Final = 1e5
_LEAST_BUDGET: Final = 0.01
_MOST_BUDGET: Final = 1e9
_MOST_TOKENS: Final = 1e18
_MOST_SPARES: Final = 100
_MOST_TENSOR: Final = 64
_MOST_GRAMS: Final = 3000.0


class PlanFileItem(Struct, frozen=True):
    """One requirement, or its error."""

    question: FileQuestion
    requirement: Requirement | None
    notes: tuple[str, ...] = ()
    error: str = ""


class PlanFile(Struct, frozen=True):
    """All requirements of a file."""

    items: tuple[PlanFileItem, ...]
    is_list: bool
    """Whether the answer is a list too."""


def read_plan_file(file: Path) -> PlanFile:
    """Read all requirements of a file, in order; of a list, including invalid ones."""
    file_questions = read_questions(file, "give at least a model (docs/planning.md)")
    found = file_questions.answers(partial(_item, folder=file.parent))
    items = (
        PlanFileItem(question, None, error=item) if isinstance(item, str) else item
        for question, item in zip(file_questions.questions, found, strict=True)
    )
    return PlanFile(tuple(items), file_questions.is_list)


def plan_of_flags(given: Mapping[str, Any], folder: Path = Path()) -> PlanFile:
    """Return the requirement of a command line with the keys of files; raises `UsageError`.

    Relative paths start at `folder`.
    """
    question = FileQuestion.of(given, (), Document("", given, {}))
    try:
        return PlanFile((_item(question, folder),), is_list=False)
    except RequirementError as error:
        raise UsageError(flag_lines(str(error), given)) from None


def flag_lines(error: str, given: Mapping[str, Any]) -> str:
    """Convert errors of a command line: flags replace line and column."""
    flags = {f"load.{SPELLINGS[word]}": word for word in given if word in SPELLINGS}
    flags |= {"task": "train", "training.tokens": "tokens"}
    flags |= {f"parallel.{part}": "layout" for part in ("tensor", "pipeline", "data", "expert")}
    lines = []
    for each in error.splitlines():
        line = each.removeprefix(_NOWHERE)
        key = line.partition(":")[0]
        flag = flags.get(key, key.partition(".")[0])
        line = _RATE_KEYS.sub("give --rps", line)
        lines.append(f"--{flag}{line.removeprefix(key)}" if flag in given else line)
    return "\n".join(lines)


def _item(question: FileQuestion, folder: Path) -> PlanFileItem:
    row = question.row
    known = (*KEYS, *LOAD_WORDS)
    for key in row.values:
        if str(key) not in known:
            row.fault(str(key), f"unknown key; {unknown_hint(str(key), known)}")
    model = read_model_row(row)
    stated = read_load(row)
    rest = _rest(row)
    question.refuse()
    try:
        planned = model.build(folder)
        whole = planned.model
        trains = rest["task"].trains
        if stated.writes_nothing and isinstance(whole, Transformer) and whole.writes and not trains:
            planned = replace(planned, model=reading_alone(whole), notes=(*planned.notes, READING))
        load, taken = stated.of(planned.model)
    except RequirementError as error:
        raise question.placed(error) from None
    requirement = Requirement(planned.model, load=load, **rest)
    if trains:
        requirement, usual = _in_usual_batches(requirement, row, planned.context_tokens)
        planned = replace(planned, notes=(*planned.notes, *usual))
    extra = requirement_notes(requirement, planned.context_tokens, row.values)
    notes = (*planned.notes, *(() if requirement.task.trains else taken), *extra)
    requirement = _in_published_format(requirement, row, planned.weights)
    cached = _in_engine_format(requirement)
    if cached is not requirement:
        notes = (*notes, _QUANTIZED_CACHE)
    return PlanFileItem(question, cached, notes)


def _in_usual_batches(
    requirement: Requirement, row: Row, context_tokens: int | None
) -> tuple[Requirement, tuple[str, ...]]:
    """Limit sequences to the model's, and batch images to fill a GPU, unless stated."""
    training = requirement.training
    given = row.row("training").values
    batch = training.micro_batch
    sequence = training.sequence
    note = ""
    is_of_images = isinstance(requirement.model, ConvolutionalNetwork | VisionTransformer)
    if context_tokens and context_tokens < sequence and "sequence" not in given:
        batch = sequence // context_tokens
        sequence = context_tokens
        note = (
            f"sequences of {sequence:,} tokens are assumed, the model's maximum, {batch} at a time"
        )
    elif is_of_images:
        batch = _IMAGES_AT_A_TIME
        note = f"{_IMAGES_AT_A_TIME} images at a time are assumed"
    if "micro_batch" in given:
        batch = training.micro_batch
        note = "" if is_of_images else note.rpartition(",")[0]
    changed = replace(training, micro_batch=batch, sequence=sequence)
    extra = f"{note}; give training.micro_batch where it is otherwise"
    return replace(requirement, training=changed), ((extra,) if note else ())


def _in_engine_format(requirement: Requirement) -> Requirement:
    """Use the KV cache format of the engine's own checkpoints, unless stated."""
    precision = requirement.precision
    own = ENGINES[requirement.engine]
    serves = isinstance(requirement.model, Transformer) and not requirement.task.trains
    is_open = precision.kv_cache is None and precision.weights in _WITH_CACHE
    if not (serves and is_open and own.is_cache_quantized):
        return requirement
    return replace(requirement, precision=replace(precision, kv_cache=NumberFormat.FP8))


def _in_published_format(
    requirement: Requirement, row: Row, published: NumberFormat | None
) -> Requirement:
    """Use the format of a quantized checkpoint for weights, unless stated.

    The excluded parts are known only for the checkpoint's own format.
    """
    if published is None or not published.is_quantized:
        return requirement
    precision = requirement.precision
    model = requirement.model
    # Own formats, as of gpt-oss, have the same size and unpacking.
    is_own = row.values.get("precision") == "mxfp4" and published is NumberFormat.INT4
    if is_own or not _precision(row).values.get("weights"):
        return replace(requirement, precision=replace(precision, weights=published))
    if precision.weights is not published and isinstance(model, Transformer):
        unread = replace(model.unread, are_towers_quantized=False)
        changed = replace(model, attention_in_16_bits=False, unread=unread)
        return replace(requirement, model=changed)
    return requirement


def _clouds(names: str) -> str:
    """Return clouds as named in prices, separated by commas."""
    words = (name.strip() for name in names.lower().split(","))
    return ",".join(_CLOUDS.get(word, word) for word in words)


def _precision(row: Row) -> Row:
    """Return formats by part; a single one applies to the weights."""
    given = row.values.get("precision")
    if isinstance(given, str):
        given = _FORMATS.get(given.lower(), given.lower())
        return Row({"weights": given}, ("precision",), row.faults)
    return row.row("precision")


def _precisions(row: Row, *, trains: bool) -> Precisions:
    """Return all formats; what is served in fp32 is computed in fp32, unless stated."""
    formats = read_fields(_precision(row), Precisions)
    if not trains and formats.get("weights") is NumberFormat.FP32:
        formats.setdefault("activations", NumberFormat.FP32)
    return Precisions(**formats)


def _training(row: Row) -> tuple[ModelTask, Training]:
    """Return the task, by its key or that of the command line, and training settings."""
    task = read_choice(row, "task", ModelTask)
    given = row.values.get("train")
    word = given.lower() if isinstance(given, str) else given
    inner = row.row("training")
    for each in (inner, row):
        if isinstance(named := each.values.get("framework"), str):
            each.values = {**each.values, "framework": _FRAMEWORKS.get(named.lower(), named)}
    values = read_fields(inner, Training)
    if word is not None and word not in _TRAIN:
        row.fault("train", f"{shown(given)} is not known; take one of {', '.join(_TRAIN)}")
    elif word is not None:
        if task not in {None, _TRAIN[word]}:
            row.fault("train", f"the task is {task} already; leave one of them out")
        task = _TRAIN[word]
        # Usual for fine-tuning over several GPUs.
        values.setdefault("zero_stage", FULL_SHARDING)
        if task is not ModelTask.TRAINING:
            # As in recipes of torchtune, axolotl and LLaMA-Factory.
            values.setdefault("recompute", Recompute.FULL)
    beside = {
        "framework": read_choice(row, "framework", TrainingFramework),
        "tokens": row.amount("tokens", 0.0, _MOST_TOKENS),
    }
    for key, value in beside.items():
        if key in row and key in values:
            row.fault(key, f"is given twice, as training.{key} too; leave one of them out")
        elif key in row:
            values[key] = value
    return task or ModelTask.INFERENCE, Training(**values)


def _layout(row: Row) -> Parallelism | None:
    """Return the layout in the words of engines; `None` without one.

    Of engines `ep` counts the GPUs that hold one copy of the experts: those of all replicas that
    share it.
    """
    if "layout" not in row:
        return None
    text = str(row.values["layout"]).lower().strip()
    counts = [(name, int(count)) for name, count in _LAYOUT.findall(text)]
    found = dict(counts)
    tensor = found.get("tp", 1)
    sharing, rest = divmod(found.get("ep", tensor), tensor)
    if not found or _LAYOUT.sub("", text):
        row.fault("layout", f"{shown(text)} is not known; write it like tp4 pp2, or tp8 dp2 ep16")
    elif len(found) < len(counts):
        row.fault("layout", f"{shown(text)} gives one of them twice; leave one out")
    elif rest:
        row.fault("layout", f"ep{found['ep']} is no multiple of tp{tensor}; take one, as tp8 ep16")
    elif "parallel" in row:
        row.fault("layout", "parallel gives the layout already; leave one of them out")
    return Parallelism(tensor, found.get("pp", 1), found.get("dp", sharing), sharing)


def _gpus(row: Row) -> tuple[str, ...]:
    given = row.values.get("gpus")
    if isinstance(given, str):
        return tuple(filter(None, (each.strip() for each in given.split(","))))
    return row.texts("gpus")


def _dollars(prices: Row, gpus: tuple[str, ...]) -> dict[str, float]:
    """Return hourly dollars by GPU: under one key, or beside carbon; one number is for all."""
    given = prices.values.get(STATED)
    if given is not None and not isinstance(given, Mapping):
        each = prices.number(STATED, 0.0, _MOST_DOLLARS)
        if not gpus:
            prices.fault(STATED, "is one number for no gpus; write it like {h100: 2.10}")
        return {} if each is None else dict.fromkeys(gpus, each)
    inner = prices.row(STATED)
    cells = [(inner, name) for name in inner.values]
    cells += [(prices, name) for name in prices.values if name not in {CARBON, STATED}]
    found = {str(name): row.number(name, 0.0, _MOST_DOLLARS) for row, name in cells}
    return {name: price for name, price in found.items() if price is not None}


def _rest(row: Row) -> dict[str, Any]:
    """Return all fields of a requirement but the model."""
    growth = row.row("growth", ("per_month", "months"))
    prices = row.row("prices")
    task, training = _training(row)
    layout = _layout(row)
    gpus = _gpus(row)
    if "parallel" in row:
        layout = Parallelism(**read_fields(row.row("parallel"), Parallelism))
    return {
        "parallel": layout,
        "task": task,
        "training": training,
        "precision": _precisions(row, trains=task.trains),
        "engine": read_choice(row, "engine", ServingEngine) or ServingEngine.VLLM,
        "lora": Lora(**read_fields(row.row("lora"), Lora)),
        "growth": LoadGrowth(
            growth.number("per_month", _LEAST_GROWTH, _MOST_GROWTH) or 0.0,
            growth.count("months", 0, _MOST_MONTHS) or 0,
        ),
        "gpus": gpus,
        "tensor": row.count("tp", 1, _MOST_TENSOR),
        "spares": row.count("spares", 0, _MOST_SPARES) or 0,
        "budget": row.amount("budget", _LEAST_BUDGET, _MOST_BUDGET),
        "provider": _clouds(row.text("provider") or ""),
        "prices": _dollars(prices, gpus),
        "carbon_grams_per_kilowatt_hour": prices.number(CARBON, 0.0, _MOST_GRAMS),
    }
