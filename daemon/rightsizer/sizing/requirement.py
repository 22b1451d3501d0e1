"""Requirement: model, task, load, and constraints on hardware."""

import math
from collections.abc import Mapping
from enum import StrEnum
from functools import cache
from typing import Final

from rightsizer.model.frozen import asdict, dataclass, field, replace
from rightsizer.model.table import table_rows
from rightsizer.sizing.engine import ServingEngine
from rightsizer.sizing.models import Diffusion, Model, RecommenderModel, Transformer
from rightsizer.sizing.parameters import NumberFormat

_BATCHES_WAITED: Final = 1.0
"""Batches before its own that an answer waits for on a busy GPU, in 99 of 100 cases."""
FULL_SHARDING: Final = 3
"""ZeRO stage that also shards weights, like FSDP."""


class ModelTask(StrEnum):
    """Use of a model."""

    INFERENCE = "inference"
    TRAINING = "training"
    FINETUNE_LORA = "finetune-lora"
    FINETUNE_QLORA = "finetune-qlora"

    @property
    def trains(self) -> bool:
        """Whether gradients are computed."""
        return self is not ModelTask.INFERENCE


class Recompute(StrEnum):
    """Activations recomputed in the backward pass."""

    NONE = "none"
    SELECTIVE = "selective"
    FULL = "full"


class Optimizer(StrEnum):
    """Algorithm that updates weights, and its state."""

    ADAMW = "adamw"
    """With an fp32 master copy of 16-bit weights."""
    ADAMW_BF16 = "adamw-bf16"
    ADAMW_8BIT = "adamw-8bit"
    SGD = "sgd"


class Offload(StrEnum):
    """Part of training state offloaded to host memory."""

    NONE = "none"
    OPTIMIZER = "optimizer"
    """States and the update itself, as in ZeRO-Offload (arXiv:2101.06840)."""
    ACTIVATIONS = "activations"
    """Of all inactive layers; transferred back over PCIe while others are computed."""


class TrainingFramework(StrEnum):
    """Software that trains."""

    TRANSFORMERS = "transformers"
    PEFT = "peft"
    TRL = "trl"
    AXOLOTL = "axolotl"
    LLAMA_FACTORY = "llama-factory"
    DEEPSPEED = "deepspeed"
    FSDP = "fsdp"
    TORCHTUNE = "torchtune"
    TORCHTITAN = "torchtitan"
    LITGPT = "litgpt"
    MEGATRON = "megatron"
    NEMO = "nemo"
    UNSLOTH = "unsloth"

    @property
    def is_fused(self) -> bool:
        """Whether norms, activations, positions and loss are single kernels."""
        return self in _frameworks_with("fused")

    @property
    def is_autocast(self) -> bool:
        """Whether PyTorch casts weights in fp32, as in the trainer of transformers.

        Peft's adapters then work on fp32 copies of what enters and leaves them
        (`autocast_adapter_dtype`). DeepSpeed casts all to 16 bits once.
        """
        return self in _frameworks_with("autocast")

    @property
    def spreads_experts(self) -> bool:
        """Whether replicas can share one copy of the experts of a mixture."""
        return self in _frameworks_with("spreads_experts")

    @property
    def splits_loss(self) -> bool:
        """Whether tensor parallel ranks keep the logits of their part of the vocabulary alone.

        Others gather all before the loss, as in PyTorch's own plan (`ColwiseParallel` to
        `Replicate`).
        """
        return self in _frameworks_with("splits_loss")


@cache
def _frameworks_with(property_name: str) -> frozenset[TrainingFramework]:
    """Frameworks that have a property, by `frameworks.csv`."""
    rows = table_rows(__file__, "frameworks.csv")
    return frozenset(TrainingFramework(row["framework"]) for row in rows if row[property_name])


@dataclass(frozen=True, slots=True)
class Precisions:
    """Number formats by use."""

    weights: NumberFormat = NumberFormat.BF16
    kv_cache: NumberFormat | None = None
    """By default bf16, or fp32 with fp32 weights: engines quantize it only on request."""
    activations: NumberFormat = NumberFormat.BF16
    gradients: NumberFormat | None = None
    """By default as required by the optimizer."""


@dataclass(frozen=True, slots=True)
class RequestLoad:
    """Load of a served model."""

    input_tokens: float = 1024.0
    output_tokens: float = 256.0
    concurrency: float | None = None
    """Requests in flight; by default the maximum allowed by memory and latency."""
    units_per_second: float | None = None
    """Required total throughput in the model's unit: output tokens, or for models without token
    output sequences, images, samples or seconds of audio (`WorkUnit`)."""
    ttft_ms: float | None = None
    """Maximum time to first token."""
    tpot_ms: float | None = None
    """Maximum time between two tokens."""
    latency_ms: float | None = None
    """Maximum time to the complete answer."""
    ttft_percentile: float | None = None
    """Percentage of requests that must meet it; by default the mean must. Likewise for the next
    two."""
    tpot_percentile: float | None = None
    latency_percentile: float | None = None
    burstiness: float | None = None
    """For open arrivals: squared coefficient of variation of interarrival times, 1 for
    Poisson; by default from the settings."""
    is_closed: bool = False
    """Whether each request follows the answer to another one, although a rate is given."""
    chunk_seconds: float | None = None
    """New audio per request of speech models; by default their maximum."""
    prefix_cache_ratio: float = 0.0
    """Fraction of prompt tokens already in an engine's prefix cache."""
    is_prefilled: bool = False
    """Whether prompts arrive with their cache, computed on other GPUs."""
    speculative_tokens: float = 0.0
    """Tokens that a draft head proposes in each step, for the model to verify together."""
    acceptance_ratio: float | None = None
    """Accepted fraction of all proposed tokens, as engines count it; by default from the
    settings."""
    adapters: float = 0.0
    """LoRA adapters in memory beside the model; requests choose among them evenly."""

    @property
    def is_open(self) -> bool:
        """Whether requests arrive at a rate, regardless of the number in flight."""
        is_rate = self.units_per_second is not None and self.concurrency is None
        return is_rate and not self.is_closed

    @property
    def tokens_per_step(self) -> float:
        """Mean number of tokens that a step adds to an answer.

        Raises:
            ValueError: tokens are proposed, and `accepting` was not asked how many are accepted.
        """
        if not self.speculative_tokens:
            return 1.0
        if self.acceptance_ratio is None:
            raise ValueError("the acceptance of proposed tokens is not set")
        return 1.0 + self.speculative_tokens * self.acceptance_ratio

    def accepting(self, token_acceptance_ratio: float) -> "RequestLoad":
        """Load in which each token has this chance if those before it are accepted.

        A load keeps an acceptance of its own (arXiv:2211.17192, equation 1).
        """
        proposed = self.speculative_tokens
        if not proposed or self.acceptance_ratio is not None:
            return self
        refused = 1.0 - token_acceptance_ratio
        made = (1.0 - math.pow(token_acceptance_ratio, proposed + 1.0)) / refused
        return replace(self, acceptance_ratio=(made - 1.0) / proposed)

    @property
    def has_targets(self) -> bool:
        """Whether there is a latency limit."""
        return any((self.ttft_ms, self.tpot_ms, self.latency_ms))

    def answer_ms(
        self, first_ms: float, between_ms: float | None, batches_waited: float = _BATCHES_WAITED
    ) -> float:
        """Time to a complete answer, from the times to the first token and between tokens.

        An answer from a single pass, without time between tokens, waits for batches before its own.
        """
        if between_ms is None:
            return (1.0 + batches_waited) * first_ms
        return first_ms + between_ms * max(0.0, self.output_tokens - 1.0)


class WorkUnit(StrEnum):
    """Unit of a model's work."""

    TOKENS = "tokens"
    """Output tokens."""
    SEQUENCES = "sequences"
    """Read by an encoder: a text to embed, classify or rank."""
    IMAGES = "images"
    VIDEOS = "videos"
    SAMPLES = "samples"
    AUDIO_SECONDS = "audio-seconds"


def work_unit(model: Model) -> WorkUnit:
    """Unit of work of a served model."""
    if isinstance(model, Transformer):
        if model.sound_seconds:
            return WorkUnit.AUDIO_SECONDS
        return WorkUnit.SEQUENCES if model.is_encoder else WorkUnit.TOKENS
    if isinstance(model, Diffusion) and model.frames > 1:
        return WorkUnit.VIDEOS
    return WorkUnit.SAMPLES if isinstance(model, RecommenderModel) else WorkUnit.IMAGES


def units_per_request(model: Model, load: RequestLoad) -> float:
    """Work per request in that unit."""
    match work_unit(model):
        case WorkUnit.TOKENS:
            return max(1.0, load.output_tokens)
        case WorkUnit.AUDIO_SECONDS if isinstance(model, Transformer):
            return load.chunk_seconds or model.sound_seconds
        case _:
            return 1.0


def units_per_token(model: Model, load: RequestLoad) -> float:
    """Work per counted token in that unit: output tokens, or input tokens of an encoder."""
    if not isinstance(model, Transformer):
        return 1.0
    tokens = load.input_tokens if model.is_encoder else load.output_tokens
    return units_per_request(model, load) / max(1.0, tokens)


@dataclass(frozen=True, slots=True)
class Training:
    """Training configuration."""

    micro_batch: int = 1
    """Sequences or images per GPU and pass."""
    global_batch: int | None = None
    sequence: int = 2048
    tokens: float | None = None
    """Total number to train on."""
    recompute: Recompute = Recompute.NONE
    zero_stage: int = 0
    flash_attention: bool = True
    fused_loss: bool = False
    optimizer: Optimizer = Optimizer.ADAMW
    offload: Offload = Offload.NONE
    framework: TrainingFramework | None = None
    """By default PyTorch's own kernels, fused ones for split layers and in 8 bits."""

    @property
    def is_fully_sharded(self) -> bool:
        """Whether replicas share weights too, not only gradients and optimizer states."""
        return self.zero_stage >= FULL_SHARDING

    @property
    def has_chunked_loss(self) -> bool:
        """Whether only a chunk of the logits exists at a time: on request, and always in Unsloth.

        Megatron's fused loss is faster and keeps all of them, with 10 bytes each (measured for
        pull request 1841 of NovaSky-AI/SkyRL).
        """
        return self.fused_loss or self.framework is TrainingFramework.UNSLOTH

    @property
    def has_split_loss(self) -> bool:
        """Whether logits are divided among tensor parallel ranks, as without a framework."""
        return self.framework is None or self.framework.splits_loss


@dataclass(frozen=True, slots=True)
class Lora:
    """Low-rank adapters."""

    rank: int = 8
    targets: tuple[str, ...] = ("q", "k", "v", "o")
    """Matrices with an adapter: of `q`, `k`, `v`, `o`, `gate`, `up`, `down`, `head`."""


@dataclass(frozen=True, slots=True)
class Parallelism:
    """Distribution of a model over GPUs."""

    tensor: int = 1
    pipeline: int = 1
    data: int = 1
    expert: int = 1
    """Replicas that share one copy of the experts, each with its own attention."""

    def __str__(self) -> str:
        """Format as `tensor 4, data 2`, without degrees of one."""
        return ", ".join(f"{name} {count}" for name, count in asdict(self).items() if count > 1)

    @property
    def gpus(self) -> int:
        """Total number of GPUs."""
        return self.tensor * self.pipeline * self.data


@dataclass(frozen=True, slots=True)
class LoadGrowth:
    """Growth of the load."""

    per_month_ratio: float = 0.0
    months: int = 0

    @property
    def factor(self) -> float:
        """Final load relative to today's."""
        return float((1.0 + self.per_month_ratio) ** self.months)


@dataclass(frozen=True, slots=True)
class Requirement:
    """Input of a plan."""

    model: Model
    task: ModelTask = ModelTask.INFERENCE
    precision: Precisions = field(default_factory=Precisions)
    load: RequestLoad = field(default_factory=RequestLoad)
    engine: ServingEngine = ServingEngine.VLLM
    training: Training = field(default_factory=Training)
    lora: Lora = field(default_factory=Lora)
    parallel: Parallelism | None = None
    """`None` to search for the best."""
    tensor: int | None = None
    """Tensor parallel GPUs of every layout in that search; `None` to search them too."""
    growth: LoadGrowth = field(default_factory=LoadGrowth)
    gpus: tuple[str, ...] = ()
    """Catalogue keys or NVML names; empty for all known boards."""
    prices: Mapping[str, float] = field(default_factory=dict)
    """Dollars per hour by GPU, overriding the catalogue."""
    provider: str = ""
    """Clouds whose instances and prices are used, separated by commas, or `any` for all with known
    instances; if empty, boards at their median price, in any number."""
    spares: int = 0
    """Instances, or replicas if no cloud is named, that may fail: 1 for N+1."""
    budget: float | None = None
    """Maximum cost of all GPUs in dollars per hour."""
    carbon_grams_per_kilowatt_hour: float | None = None
    """Carbon dioxide equivalents, overriding the setting; carbon is omitted without either."""

    @property
    def why_experts_stay(self) -> str:
        """Why training keeps all experts on each replica; empty if it may spread them."""
        if self.task is not ModelTask.TRAINING:
            return "adapters are trained beside whole experts"
        if not isinstance(self.model, Transformer) or self.model.experts == 1:
            return f"{self.model.name or 'the model'} has no experts"
        framework = self.training.framework
        if framework is not None and not framework.spreads_experts:
            others = " and ".join(sorted(_frameworks_with("spreads_experts")))
            return f"{framework} does not spread experts; {others} do"
        return ""

    @property
    def is_framework_open(self) -> bool:
        """Whether frameworks differ in training it, and none is named: adapters, and encoders."""
        model, task = self.model, self.task
        varies = task is not ModelTask.TRAINING
        varies = varies or (isinstance(model, Transformer) and model.is_encoder)
        return task.trains and varies and self.training.framework is None

    @property
    def unit(self) -> WorkUnit:
        """Unit of serving or training work."""
        is_of_tokens = self.task.trains and isinstance(self.model, Transformer)
        return WorkUnit.TOKENS if is_of_tokens else work_unit(self.model)

    @property
    def unit_text(self) -> str:
        """Unit as text, which distinguishes output and trained tokens."""
        kind = "trained" if self.task.trains else "output"
        return f"{kind} tokens" if self.unit is WorkUnit.TOKENS else str(self.unit)

    @property
    def answers_in_tokens(self) -> bool:
        """Whether work is done token by token, rather than in batches."""
        return self.unit in {WorkUnit.TOKENS, WorkUnit.AUDIO_SECONDS}

    @property
    def requests_per_second(self) -> float | None:
        """Required rate; `None` if there is none, and in training."""
        asked = self.load.units_per_second
        if asked is None or self.task.trains:
            return None
        return asked / units_per_request(self.model, self.load)
