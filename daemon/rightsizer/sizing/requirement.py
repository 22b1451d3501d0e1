"""Requirement: model, task, load, training, and constraints on hardware."""

from collections.abc import Mapping
from enum import StrEnum
from functools import cache
from typing import Final

from msgspec import Struct
from msgspec.structs import asdict

from rightsizer.model.table import table_rows
from rightsizer.sizing.collectives import HostLink
from rightsizer.sizing.engine import ServingEngine
from rightsizer.sizing.load import RequestLoad, WorkUnit, units_per_request, work_unit
from rightsizer.sizing.models import Model, Transformer
from rightsizer.sizing.parameters import NumberFormat

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


class VisionRuntime(StrEnum):
    """Software that runs image networks."""

    TENSORRT = "tensorrt"
    COMPILED = "compiled"
    """PyTorch, by `torch.compile`."""
    EAGER = "eager"
    """PyTorch, kernel by kernel."""


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
    NANOTRON = "nanotron"
    MAXTEXT = "maxtext"
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
    def expands_segments(self) -> bool:
        """Whether it asks PyTorch for expandable segments, which hardly leave unused blocks."""
        return self in _frameworks_with("expandable")

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


class Precisions(Struct, frozen=True):
    """Number formats by use."""

    weights: NumberFormat = NumberFormat.BF16
    kv_cache: NumberFormat | None = None
    """By default bf16, or fp32 with fp32 weights: engines quantize it only on request."""
    activations: NumberFormat = NumberFormat.BF16
    gradients: NumberFormat | None = None
    """By default as required by the optimizer."""


class Checkpoint(Struct, frozen=True):
    """What the files of a published model state."""

    weights: NumberFormat | None = None
    context_tokens: int | None = None
    """Longest text that the model was made for."""


class Training(Struct, frozen=True):
    """Training configuration."""

    micro_batch: int = 1
    """Sequences or images per GPU and pass."""
    global_batch: int | None = None
    sequence: int = 2048
    tokens: float | None = None
    """Total number to train on."""
    hours: float | None = None
    """Longest time for all of them; `None` for any."""
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


class Lora(Struct, frozen=True):
    """Low-rank adapters."""

    rank: int = 8
    targets: tuple[str, ...] = ("q", "k", "v", "o")
    """Matrices with an adapter: of `q`, `k`, `v`, `o`, `gate`, `up`, `down`, `head`."""


class Parallelism(Struct, frozen=True, gc=False):
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


class LoadGrowth(Struct, frozen=True):
    """Growth of the load."""

    per_month_ratio: float = 0.0
    months: int = 0

    @property
    def factor(self) -> float:
        """Final load relative to today's."""
        return float((1.0 + self.per_month_ratio) ** self.months)


class Requirement(Struct, frozen=True):
    """Input of a plan."""

    model: Model
    task: ModelTask = ModelTask.INFERENCE
    precision: Precisions = Precisions()
    load: RequestLoad = RequestLoad()
    engine: ServingEngine = ServingEngine.VLLM
    runtime: VisionRuntime = VisionRuntime.TENSORRT
    """Of served image networks."""
    link: HostLink | None = None
    """What joins the GPUs of a host; all that the boards have if not given."""
    training: Training = Training()
    lora: Lora = Lora()
    parallel: Parallelism | None = None
    """`None` to search for the best."""
    tensor: int | None = None
    """Tensor parallel GPUs of every layout in that search; `None` to search them too."""
    growth: LoadGrowth = LoadGrowth()
    gpus: tuple[str, ...] = ()
    """Catalogue keys or NVML names; empty for all known boards."""
    prices: Mapping[str, float] = {}
    """Dollars per hour by GPU, overriding the catalogue."""
    provider: str = ""
    """Clouds whose instances and prices are used, separated by commas, or `any` for all with known
    instances; if empty, boards at their median price, in any number."""
    spot: bool = False
    """Whether to pay for capacity that may be withdrawn at any time."""
    spares: int = 0
    """Instances, or replicas if no cloud is named, that may fail: 1 for N+1."""
    budget: float | None = None
    """Maximum cost of all GPUs in dollars per hour."""
    carbon_grams_per_kilowatt_hour: float | None = None
    """Carbon dioxide equivalents, overriding the setting; carbon is omitted without either."""
    checkpoint: Checkpoint = Checkpoint()

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
        model = self.model
        task = self.task
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
    def is_work_bounded(self) -> bool:
        """Whether the amount of work is stated: a rate to serve, or tokens to train on."""
        bound = self.training.tokens if self.task.trains else self.load.units_per_second
        return bound is not None

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
