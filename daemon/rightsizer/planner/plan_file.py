"""Reader of plan files: one requirement, several, or a list."""

import re
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final, cast

from msgspec import Struct
from msgspec.structs import replace

from rightsizer.catalogue.prices_file import STATED
from rightsizer.config.spelling import show
from rightsizer.io.yaml import Document, below
from rightsizer.model.errors import RequirementError, UsageError
from rightsizer.model.settings import Spec, settings_class
from rightsizer.planner.aliases import aliases_of
from rightsizer.planner.load_row import (
    LOAD_FIELDS,
    SPELLINGS,
    LoadDocument,
    LoadKeys,
    StatedLoad,
    accepted_keys,
    stated_load,
)
from rightsizer.planner.plan_model import (
    MODEL,
    MODEL_NEEDED,
    READING,
    build_model,
    reading_alone,
)
from rightsizer.planner.plan_notes import requirement_notes
from rightsizer.planner.question_file import FailedQuestion, FileQuestion, read_questions
from rightsizer.planner.requirement_checks import check_kind
from rightsizer.sizing.collectives import HostLink
from rightsizer.sizing.engine import ENGINES, ServingEngine
from rightsizer.sizing.models import (
    ConvolutionalNetwork,
    Transformer,
    VisionTransformer,
)
from rightsizer.sizing.parameters import NumberFormat
from rightsizer.sizing.requirement import (
    FULL_SHARDING,
    Checkpoint,
    LoadGrowth,
    Lora,
    ModelTask,
    Parallelism,
    Precisions,
    Recompute,
    Requirement,
    Training,
    TrainingFramework,
    VisionRuntime,
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
_EVERY: Final = ""
"""Key of a price that is that of every GPU."""
_AMOUNTS: Final = Spec(unit="amount", within=(-1e15, 1e15))
_WITH_CACHE: Final = frozenset({NumberFormat.FP8, NumberFormat.NVFP4})
_QUANTIZED_CACHE: Final = (
    "precision: keys and values in fp8 too, as the engine's checkpoints have them; "
    "'precision: {weights: fp8, kv_cache: bf16}' in a file for others"
)
_RATE_KEYS: Final = re.compile(r"give [a-z_ ]*requests_per_second[a-z_ ]*")
"""Suggestions on rates for files, of which the command line supports one key."""
_BY_KEY: Final = re.compile(r"(?<=each by its )key: (.*)")
"""Suggestion of keys with their values, which are flags on the command line."""
_KEY: Final = re.compile(r"(\w+): ")
_RATIO: Final = re.compile(r"(\d*\.?\d+)\s*(%?)")
_HOURLY: Final = re.compile(r"\$?\s*(\S+?)\s*(?:/\s*(?:h|hr|hour))?")
"""`40/h`."""
_RATIO_DIGITS: Final = 12
_OWN_FORMAT: Final = "mxfp4"


def _lower(value: object) -> object:
    return value.lower() if isinstance(value, str) else value


def _ratio(value: object) -> object:
    """Share of one; `90%` is .9."""
    match = _RATIO.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        return value
    # 99.9 / 100 is above 0.999.
    return round(float(match[1]) / (100.0 if match[2] else 1.0), _RATIO_DIGITS)


def _framework(value: object) -> object:
    """Framework by our name."""
    return _FRAMEWORKS.get(value.lower(), value) if isinstance(value, str) else value


def _named_framework(value: object) -> object:
    """Settings of training with the framework by our name."""
    if isinstance(value, dict) and "framework" in value:
        return {**value, "framework": _framework(value["framework"])}
    return value


def _precision(value: object) -> object:
    """Formats by part; a single one applies to the weights."""
    if not isinstance(value, str | dict):
        return value
    parts = value if isinstance(value, dict) else {"weights": value}
    words = {part: _lower(word) for part, word in parts.items()}
    return {
        part: _FORMATS.get(word, word) if isinstance(word, str) else word
        for part, word in words.items()
    }


def _clouds(value: object) -> object:
    """Clouds as named in prices, separated by commas."""
    if not isinstance(value, str):
        return value
    words = (name.strip() for name in value.lower().split(","))
    return ",".join(_CLOUDS.get(word, word) for word in words)


def _listed(value: object) -> object:
    if not isinstance(value, str):
        return value
    return [name.strip() for name in value.split(",") if name.strip()]


def _layout(value: object) -> object:
    """Layout in the words of engines.

    Of engines `ep` counts the GPUs that hold one copy of the experts: those of all replicas that
    share it.
    """
    text = str(value).lower().strip()
    counts = [(name, int(count)) for name, count in _LAYOUT.findall(text)]
    degrees = dict(counts)
    tensor = degrees.get("tp", 1)
    sharing, rest = divmod(degrees.get("ep", tensor), tensor)
    if not degrees or _LAYOUT.sub("", text):
        raise ValueError(f"{show(text)} is not known; write it like tp4 pp2, or tp8 dp2 ep16")
    if len(degrees) < len(counts):
        raise ValueError(f"{show(text)} gives one of them twice; leave one out")
    if rest:
        raise ValueError(f"ep{degrees['ep']} is no multiple of tp{tensor}; take one, as tp8 ep16")
    return {
        "tensor": tensor,
        "pipeline": degrees.get("pp", 1),
        "data": degrees.get("dp", sharing),
        "expert": sharing,
    }


def _hourly(value: object) -> object:
    """Dollars of an hour; `$40/h` is 40."""
    match = _HOURLY.fullmatch(value) if isinstance(value, str) else None
    return value if match is None else match[1]


def _by_gpu(value: object) -> object:
    """Prices with those beside carbon under their key; one number is that of every GPU."""
    if not isinstance(value, dict):
        return value
    given = value.get(STATED, {})
    if isinstance(given, int | float | str):
        given = {_EVERY: given}
    if not isinstance(given, dict):
        return value
    others = {name: price for name, price in value.items() if name not in (CARBON, STATED)}
    carbon = {CARBON: value[CARBON]} if CARBON in value else {}
    return {STATED: {**given, **others}, **carbon}


class PaidPrices(Struct, frozen=True):
    """Prices that are paid, and the carbon of the grid."""

    dollars_per_gpu_hour: Mapping[
        str, Annotated[float, Spec(unit="amount", within=(0.0, 1e5))]
    ] = {}
    carbon_grams_per_kwh: Annotated[float | None, Spec(within=(0.0, 3000.0))] = None


class PlannedGrowth(Struct, frozen=True):
    """Growth of a load; an ended one costs nothing, and has no useful figures."""

    per_month: Annotated[float, Spec(within=(-0.99, 100.0))] = 0.0
    months: Annotated[int, Spec(within=(0, 120))] = 0


class PlanKeys(LoadKeys, frozen=True):
    """Keys of a plan; those of its load come beside them."""

    model: Annotated[Struct | None, MODEL] = None
    task: ModelTask | None = None
    precision: Annotated[Precisions, Spec(parse=_precision)] = Precisions()
    training: Annotated[Training, _AMOUNTS, Spec(parse=_named_framework)] = Training()
    lora: Annotated[Lora, _AMOUNTS] = Lora()
    parallel: Annotated[Parallelism | None, _AMOUNTS] = None
    growth: PlannedGrowth = PlannedGrowth()
    gpus: Annotated[tuple[str, ...], Spec(parse=_listed)] = ()
    prices: Annotated[PaidPrices, Spec(parse=_by_gpu)] = PaidPrices()
    parameters: Annotated[float | None, Spec(unit="amount", within=(1, 1e30))] = None
    train: Annotated[str | None, Spec(words=tuple(_TRAIN))] = None
    tokens: Annotated[float | None, Spec(unit="amount", within=(0.0, 1e18))] = None
    hours: Annotated[float | None, Spec(unit="amount", within=(0.01, 1e8))] = None
    provider: Annotated[str, Spec(parse=_clouds)] = ""
    spot: bool = False
    spares: Annotated[int, Spec(within=(0, 100))] = 0
    engine: ServingEngine = ServingEngine.VLLM
    runtime: VisionRuntime | None = None
    link: HostLink | None = None
    budget: Annotated[float | None, Spec(unit="amount", within=(0.01, 1e9), parse=_hourly)] = None
    sure: Annotated[float | None, Spec(parse=_ratio, within=(0.5, 0.999))] = None
    tp: Annotated[int | None, Spec(within=(1, 64))] = None
    framework: Annotated[TrainingFramework | None, Spec(parse=_framework)] = None
    layout: Annotated[Parallelism | None, Spec(parse=_layout)] = None

    def __post_init__(self) -> None:
        if faults := list(self._faults()):
            raise ValueError("\n".join(faults))
        _ = self.stated_load

    def _faults(self) -> Iterator[str]:
        if self.model is None and self.parameters is None:
            yield f"model: is required: {MODEL_NEEDED}"
        if self.train is not None and self.task not in {None, _TRAIN[self.train]}:
            yield f"train: the task is {self.task} already; leave one of them out"
        if self.layout is not None and self.parallel is not None:
            yield "layout: parallel gives the layout already; leave one of them out"
        for key in ("framework", "tokens", "hours"):
            if None not in (getattr(self, key), getattr(self.training, key)):
                yield f"{key}: is given twice, as training.{key} too; leave one of them out"
        trains = self.train is not None or (self.task or ModelTask.INFERENCE).trains
        if self.hours is not None and not trains:
            yield "hours: as --by, is for training; leave it out for serving, or give train"
        elif self.hours is not None and self.tokens is None and self.training.tokens is None:
            yield "hours: are of a number of tokens; give tokens too"
        if _EVERY in self.prices.dollars_per_gpu_hour and not self.gpus:
            fault = "is one number for no gpus; write it like {h100: 2.10}"
            yield f"prices.{STATED}: {fault}"

    @property
    def stated_load(self) -> StatedLoad:
        """Load under its key and beside it."""
        return stated_load(self, cast(Any, self).load)

    @property
    def dollars(self) -> Mapping[str, float]:
        """Hourly dollars by GPU."""
        dollars = self.prices.dollars_per_gpu_hour
        every = dict.fromkeys(self.gpus, dollars[_EVERY]) if _EVERY in dollars else {}
        return every | {name: price for name, price in dollars.items() if name != _EVERY}


PlanDocument: Final = settings_class(
    "PlanDocument",
    __name__,
    "Plan of a file.",
    (*LOAD_FIELDS, ("load", LoadDocument, LoadDocument())),
    PlanKeys,
)


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
    planned = file_questions.answers(partial(_item, folder=file.parent))
    items = (
        PlanFileItem(question, None, error=item.error) if isinstance(item, FailedQuestion) else item
        for question, item in zip(file_questions.questions, planned, strict=True)
    )
    return PlanFile(tuple(items), file_questions.is_list)


def plan_of_keys(given: Mapping[str, Any], folder: Path = Path()) -> PlanFile:
    """Return the requirement of the keys of a file; raises `RequirementError`.

    Relative paths start at `folder`.
    """
    return PlanFile((_item(FileQuestion(Document("", given, {})), folder),), is_list=False)


def plan_of_flags(given: Mapping[str, Any], folder: Path = Path()) -> PlanFile:
    """Return the requirement of a command line, as `plan_of_keys`; raises `UsageError`."""
    try:
        return plan_of_keys(given, folder)
    except RequirementError as error:
        raise UsageError(flag_lines(str(error), given)) from None


def flag_lines(error: str, given: Mapping[str, Any], mark: str = "--") -> str:
    """Convert errors of a command line: flags replace line and column.

    Without a mark they are the fields of a form.
    """
    flags = {f"load.{SPELLINGS[word]}": word for word in given if word in SPELLINGS}
    flags |= {"task": "train", "training.tokens": "tokens"}
    flags |= {f"parallel.{part}": "layout" for part in ("tensor", "pipeline", "data", "expert")}
    inner = accepted_keys()
    lines = []
    for line in error.splitlines():
        key = line.partition(":")[0]
        flag = key if key in inner else flags.get(key, key.partition(".")[0])
        asked = _RATE_KEYS.sub(f"give {mark}rps", line)
        if mark:
            asked = _BY_KEY.sub(lambda match: "flag: " + _KEY.sub(r"--\1 ", match[1]), asked)
        is_flag = key in inner or flag in given
        lines.append(f"{mark}{flag}{asked.removeprefix(key)}" if is_flag else asked)
    return "\n".join(lines)


def _item(question: FileQuestion, folder: Path) -> PlanFileItem:
    asked: PlanKeys = question.read(PlanDocument)
    given = question.values
    task, training = _training(asked, given)
    stated = asked.stated_load
    try:
        planned = build_model(asked.model, asked.parameters, folder)
        whole = planned.model
        trains = task.trains
        writes_nothing = stated.values.get("output_tokens") == 0 and not trains
        if writes_nothing and isinstance(whole, Transformer) and whole.writes:
            planned = replace(planned, model=reading_alone(whole), notes=(*planned.notes, READING))
        load, taken = stated.of(planned.model)
        load = replace(load, sure_ratio=asked.sure)
    except RequirementError as error:
        raise question.placed(error) from None
    requirement = Requirement(
        planned.model,
        load=load,
        task=task,
        training=training,
        checkpoint=Checkpoint(planned.weights, planned.context_tokens),
        precision=_precisions(asked.precision, given, trains=trains),
        engine=asked.engine,
        runtime=asked.runtime or _usual_runtime(asked.precision),
        link=asked.link,
        lora=asked.lora,
        parallel=asked.parallel or asked.layout,
        growth=LoadGrowth(asked.growth.per_month, asked.growth.months),
        gpus=asked.gpus,
        tensor=asked.tp,
        spot=asked.spot,
        spares=asked.spares,
        budget=asked.budget,
        provider=asked.provider,
        prices=asked.dollars,
        carbon_grams_per_kilowatt_hour=asked.prices.carbon_grams_per_kwh,
    )
    try:
        check_kind(requirement, given)
    except RequirementError as error:
        raise question.placed(error) from None
    if trains:
        requirement, usual = _in_usual_batches(requirement, given, planned.context_tokens)
        planned = replace(planned, notes=(*planned.notes, *usual))
    extra = requirement_notes(requirement, planned.context_tokens, given)
    notes = (*planned.notes, *(() if requirement.task.trains else taken), *extra)
    weights = planned.named_weights or planned.weights
    requirement = _in_published_format(requirement, given, weights)
    cached = _in_engine_format(requirement)
    if cached is not requirement:
        notes = (*notes, _QUANTIZED_CACHE)
    return PlanFileItem(question, cached, notes)


def _usual_runtime(formats: Precisions) -> VisionRuntime:
    """Return what usually serves image networks: TensorRT those in 8 bits, else PyTorch."""
    is_narrow = formats.weights.bytes_per_parameter <= 1.0
    return VisionRuntime.TENSORRT if is_narrow else VisionRuntime.COMPILED


def _in_usual_batches(
    requirement: Requirement, plan: Mapping[str, Any], context_tokens: int | None
) -> tuple[Requirement, tuple[str, ...]]:
    """Limit sequences to the model's, and batch images to fill a GPU, unless stated."""
    training = requirement.training
    given = below(plan, "training")
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
    defaults = ENGINES[requirement.engine]
    serves = isinstance(requirement.model, Transformer) and not requirement.task.trains
    is_open = precision.kv_cache is None and precision.weights in _WITH_CACHE
    if not (serves and is_open and defaults.is_cache_quantized):
        return requirement
    return replace(requirement, precision=replace(precision, kv_cache=NumberFormat.FP8))


def _in_published_format(
    requirement: Requirement, given: Mapping[str, Any], published: NumberFormat | None
) -> Requirement:
    """Use the format of a quantized checkpoint for weights, unless stated.

    The excluded parts are known only for the checkpoint's own format.
    """
    if published is None or not published.is_quantized:
        return requirement
    precision = requirement.precision
    model = requirement.model
    # Own formats, as of gpt-oss, have the same size and unpacking.
    stated = given.get("precision")
    weights = stated.get("weights") if isinstance(stated, dict) else stated
    is_own = _lower(weights) == _OWN_FORMAT and published is NumberFormat.INT4
    if is_own or not weights:
        return replace(requirement, precision=replace(precision, weights=published))
    if precision.weights is not published and isinstance(model, Transformer):
        unread = replace(model.unread, are_towers_quantized=False)
        changed = replace(model, attention_in_16_bits=False, unread=unread, stored_bytes=None)
        return replace(requirement, model=changed)
    return requirement


def _precisions(formats: Precisions, given: Mapping[str, Any], *, trains: bool) -> Precisions:
    """Return all formats; what is served in fp32 is computed in fp32, unless stated."""
    is_stated = "activations" in below(given, "precision")
    if trains or is_stated or formats.weights is not NumberFormat.FP32:
        return formats
    return replace(formats, activations=NumberFormat.FP32)


def _training(asked: PlanKeys, given: Mapping[str, Any]) -> tuple[ModelTask, Training]:
    """Return the task, by its key or that of the command line, and training settings."""
    task = asked.task or ModelTask.INFERENCE
    beside = {"framework": asked.framework, "tokens": asked.tokens, "hours": asked.hours}
    changes = {key: value for key, value in beside.items() if value is not None}
    if asked.train is not None:
        task = _TRAIN[asked.train]
        # Usual for fine-tuning over several GPUs.
        usual: dict[str, Any] = {"zero_stage": FULL_SHARDING}
        if task is not ModelTask.TRAINING:
            # As in recipes of torchtune, axolotl and LLaMA-Factory.
            usual["recompute"] = Recompute.FULL
        stated = below(given, "training")
        changes |= {key: value for key, value in usual.items() if stated.get(key) is None}
    return task, replace(asked.training, **changes)
