"""Requirement: a model, a task, how much of it in which unit, and on what."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from rightsizer.model.frozen import asdict, dataclass, field
from rightsizer.sizing.engine import ServingEngine
from rightsizer.sizing.models import Model, RecommenderModel, Transformer
from rightsizer.sizing.parameters import NumberFormat

_BATCHES_WAITED: Final = 2.0


class ModelTask(StrEnum):
    """What the model does."""

    INFERENCE = "inference"
    TRAINING = "training"
    FINETUNE_LORA = "finetune-lora"
    FINETUNE_QLORA = "finetune-qlora"

    @property
    def trains(self) -> bool:
        """Whether there are gradients."""
        return self is not ModelTask.INFERENCE


class Recompute(StrEnum):
    """Which activations are computed again in the backward pass."""

    NONE = "none"
    SELECTIVE = "selective"
    FULL = "full"


class Optimizer(StrEnum):
    """How weights are updated, and what is kept for it."""

    ADAMW = "adamw"
    """With an fp32 master copy beside 16-bit weights."""
    ADAMW_BF16 = "adamw-bf16"
    ADAMW_8BIT = "adamw-8bit"
    SGD = "sgd"


class Offload(StrEnum):
    """What of training waits in the memory of the host."""

    NONE = "none"
    OPTIMIZER = "optimizer"
    """The states and the update itself, as ZeRO-Offload (arXiv:2101.06840) does it."""
    ACTIVATIONS = "activations"
    """Of all layers but those at work; they come back over PCIe while others are computed."""


@dataclass(frozen=True, slots=True)
class Precisions:
    """What is kept in which format."""

    weights: NumberFormat = NumberFormat.BF16
    kv_cache: NumberFormat | None = None
    """bf16 where it is not given, fp32 beside fp32 weights: engines quantize it on request."""
    activations: NumberFormat = NumberFormat.BF16
    gradients: NumberFormat | None = None
    """As the optimizer has them where it is not given."""


@dataclass(frozen=True, slots=True)
class RequestLoad:
    """What is asked of a model that serves."""

    input_tokens: float = 1024.0
    output_tokens: float = 256.0
    concurrency: float | None = None
    """Requests in flight; the most that memory and latency allow where it is not given."""
    tokens_per_second: float | None = None
    """Work of all requests together, to be reached, in the model's unit: output tokens; sequences,
    images, samples or seconds of sound of models that do not answer in tokens (`WorkUnit`)."""
    ttft_ms: float | None = None
    """The longest time to the first token."""
    tpot_ms: float | None = None
    """The longest time between two tokens."""
    latency_ms: float | None = None
    """The longest time to the whole answer."""
    ttft_percentile: float | None = None
    """Of the requests, how many per cent are to see it; the mean where it is not given. The same
    of the next two."""
    tpot_percentile: float | None = None
    latency_percentile: float | None = None
    burstiness: float | None = None
    """Of open arrivals: the squared coefficient of variation of the times between them, 1 where
    they are Poisson's; as the settings have it where it is not given."""
    is_closed: bool = False
    """Whether each request follows another's answer, although a rate is given."""
    chunk_seconds: float | None = None
    """Of new sound in a request, of models that hear; the most they take where it is not given."""
    prefix_cache_ratio: float = 0.0
    """Tokens of prompts that an engine's prefix cache holds already, of all tokens of prompts."""

    @property
    def is_open(self) -> bool:
        """Whether requests arrive at a rate, however many are in flight."""
        is_rate = self.tokens_per_second is not None and self.concurrency is None
        return is_rate and not self.is_closed

    @property
    def has_targets(self) -> bool:
        """Whether a latency is asked for."""
        return any((self.ttft_ms, self.tpot_ms, self.latency_ms))

    def answer_ms(self, first_ms: float, between_ms: float | None) -> float:
        """Until an answer is whole, by the times to the first token and between tokens.

        An answer of one pass, which has no time between tokens, waits for the batch before its own:
        that is what the slowest hundredth of requests see.
        """
        if between_ms is None:
            return _BATCHES_WAITED * first_ms
        return first_ms + between_ms * max(0.0, self.output_tokens - 1.0)


class WorkUnit(StrEnum):
    """What people count the work of a model in."""

    TOKENS = "tokens"
    """Of the output."""
    SEQUENCES = "sequences"
    """Read by an encoder: a text to embed, to classify or to rank."""
    IMAGES = "images"
    SAMPLES = "samples"
    AUDIO_SECONDS = "audio-seconds"


def work_unit(model: Model) -> WorkUnit:
    """The unit of what a model serves."""
    if isinstance(model, Transformer):
        if model.sound_seconds:
            return WorkUnit.AUDIO_SECONDS
        return WorkUnit.SEQUENCES if model.is_encoder else WorkUnit.TOKENS
    return WorkUnit.SAMPLES if isinstance(model, RecommenderModel) else WorkUnit.IMAGES


def units_per_request(model: Model, load: RequestLoad) -> float:
    """How much of it one request is."""
    match work_unit(model):
        case WorkUnit.TOKENS:
            return max(1.0, load.output_tokens)
        case WorkUnit.AUDIO_SECONDS if isinstance(model, Transformer):
            return load.chunk_seconds or model.sound_seconds
        case _:
            return 1.0


def units_per_token(model: Model, load: RequestLoad) -> float:
    """How much of it one token is that serving counts: of the output, of an encoder the input."""
    if not isinstance(model, Transformer):
        return 1.0
    tokens = load.input_tokens if model.is_encoder else load.output_tokens
    return units_per_request(model, load) / max(1.0, tokens)


@dataclass(frozen=True, slots=True)
class Training:
    """How a model is trained."""

    micro_batch: int = 1
    """Sequences, or images, of one GPU at a time."""
    global_batch: int | None = None
    sequence: int = 2048
    tokens: float | None = None
    """To be trained on in all."""
    recompute: Recompute = Recompute.NONE
    zero_stage: int = 0
    flash_attention: bool = True
    fused_loss: bool = False
    optimizer: Optimizer = Optimizer.ADAMW
    offload: Offload = Offload.NONE


@dataclass(frozen=True, slots=True)
class Lora:
    """Low-rank adapters."""

    rank: int = 8
    targets: tuple[str, ...] = ("q", "k", "v", "o")
    """Matrices that have one: of `q`, `k`, `v`, `o`, `gate`, `up`, `down`, `head`."""


@dataclass(frozen=True, slots=True)
class Parallelism:
    """How a model is spread."""

    tensor: int = 1
    pipeline: int = 1
    data: int = 1
    expert: int = 1
    """Replicas that hold one copy of the experts between them, with attention each of its own."""

    def __str__(self) -> str:
        """`tensor 4, data 2`: what is more than one."""
        return ", ".join(f"{name} {count}" for name, count in asdict(self).items() if count > 1)

    @property
    def gpus(self) -> int:
        """All of them."""
        return self.tensor * self.pipeline * self.data


@dataclass(frozen=True, slots=True)
class LoadGrowth:
    """How the load grows."""

    per_month_ratio: float = 0.0
    months: int = 0

    @property
    def factor(self) -> float:
        """The load at the end, of today's."""
        return float((1.0 + self.per_month_ratio) ** self.months)


@dataclass(frozen=True, slots=True)
class Requirement:
    """Everything that a plan starts from."""

    model: Model
    task: ModelTask = ModelTask.INFERENCE
    precision: Precisions = field(default_factory=Precisions)
    load: RequestLoad = field(default_factory=RequestLoad)
    engine: ServingEngine = ServingEngine.VLLM
    training: Training = field(default_factory=Training)
    lora: Lora = field(default_factory=Lora)
    parallel: Parallelism | None = None
    """`None` to search for the best."""
    growth: LoadGrowth = field(default_factory=LoadGrowth)
    gpus: tuple[str, ...] = ()
    """Catalogue keys or NVML names; all that are known where there are none."""
    prices: Mapping[str, float] = field(default_factory=dict)
    """Dollars an hour by GPU, before those of the catalogue."""
    provider: str = ""
    """The clouds whose instances and prices count, between commas, or `any` of those whose
    instances are known; boards by their median price, in any number, where it is empty."""
    spares: int = 0
    """Instances, or replicas where no cloud is named, that may fail: 1 for N+1."""
    budget: float | None = None
    """Dollars an hour that all GPUs may cost at most."""
    carbon_grams_per_kilowatt_hour: float | None = None
    """Carbon dioxide equivalents, before the setting; nothing is said of carbon without either."""

    @property
    def unit(self) -> WorkUnit:
        """What is served, or trained on."""
        is_of_tokens = self.task.trains and isinstance(self.model, Transformer)
        return WorkUnit.TOKENS if is_of_tokens else work_unit(self.model)

    @property
    def unit_text(self) -> str:
        """The same, of tokens with which they are."""
        kind = "trained" if self.task.trains else "output"
        return f"{kind} tokens" if self.unit is WorkUnit.TOKENS else str(self.unit)

    @property
    def answers_in_tokens(self) -> bool:
        """Whether its work is done token by token; else a batch at a time."""
        return self.unit in {WorkUnit.TOKENS, WorkUnit.AUDIO_SECONDS}

    @property
    def requests_per_second(self) -> float | None:
        """What is asked for; `None` where no rate is, and in training."""
        asked = self.load.tokens_per_second
        if asked is None or self.task.trains:
            return None
        return asked / units_per_request(self.model, self.load)
