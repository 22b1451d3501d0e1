"""Work of a training step: FLOPs, kernels, and traffic between GPUs."""

from typing import Final

from rightsizer.catalogue.board import Board, Precision
from rightsizer.model.frozen import dataclass
from rightsizer.sizing.models import Transformer, VisionTransformer
from rightsizer.sizing.parameters import ParameterCount, count_parameters, ffn_width, head_dimension
from rightsizer.sizing.requirement import ModelTask, Parallelism, Recompute, Requirement
from rightsizer.sizing.roofline import all_reduce_seconds, compute_format
from rightsizer.sizing.settings import TrainingSettings

_MOST_IN_EXPERTS: Final = 0.9
"""Of the parameters that one token passes."""
FLOPS: Final = 6.0
"""Of a parameter and a token: two forward, two for the gradient of activations, two for its own."""
FROZEN_FLOPS: Final = 4.0
"""The same of one that has no gradient, as beside adapters (LoRA). NeMo AutoModel counts so, too:
176 TFLOP/s where Llama 3 70B is adapted at 608 tokens per second."""


@dataclass(frozen=True, slots=True)
class TrainingShape:
    """What of a transformer a step's time goes by."""

    count: ParameterCount
    layers: float
    """Of two parts each: attention and a feed-forward part."""
    hidden: float
    attended: float
    """Width of all heads together, over all layers, each by the part of the sequence it sees."""
    sequence: float
    expert_parameters: float = 0.0
    """Active ones in experts."""
    experts_per_token: int = 0
    head_dim: float = 1.0

    @property
    def scores(self) -> float:
        """Of one token, in all heads of all layers: what attention weighs other tokens by."""
        return self.attended / self.head_dim * self.sequence

    @classmethod
    def of(cls, model: Transformer | VisionTransformer, sequence: float) -> "TrainingShape":
        """The shape of a model over sequences of so many tokens."""
        count = count_parameters(model)
        if isinstance(model, VisionTransformer):
            width = float(model.layers * model.hidden)
            each = model.hidden / model.heads
            return cls(count, model.layers, model.hidden, width, model.tokens, head_dim=each)
        width = float(model.heads * head_dimension(model))
        windowed = 0
        if model.sliding_window is not None:
            windowed = model.layers if model.windowed_layers is None else model.windowed_layers
        seen = min(1.0, 2.0 * (model.sliding_window or 0) / sequence)
        attended = width * (model.attending_layers - windowed + windowed * seen)
        experts = 0.0
        if model.experts > 1:
            matrices = 3 if model.gated_ffn else 2
            one = float(matrices * model.hidden * ffn_width(model))
            mixed = model.layers - model.dense_layers
            experts = min(mixed * model.experts_per_token * one, _MOST_IN_EXPERTS * count.linear)
        per_token = model.experts_per_token if model.experts > 1 else 0
        each = head_dimension(model)
        return cls(count, model.depth, model.hidden, attended, sequence, experts, per_token, each)

    def model_flops(self, flops: float) -> float:
        """Of one token forward and backward, as utilization is counted (PaLM, appendix B).

        `flops`: of a parameter, `FLOPS` or `FROZEN_FLOPS`.
        """
        passed = self.count.active + self.count.repeated
        return flops * passed + 12.0 * self.attended * self.sequence


FULL_SHARDING: Final = 3
"""The stage of ZeRO that shards weights, too; FSDP does the same."""
_HALF_BYTES: Final = 2.0
"""Of an element in 16 bits."""
_LAYER_SUMS: Final = 4
"""Of a tensor parallel layer, forward and backward."""
_REPEATED_SUMS: Final = 6
"""The same where the forward pass is computed again."""
_LAYER_EXCHANGES: Final = 4
"""Of a layer with experts: to them and back, forward and backward."""


@dataclass(frozen=True, slots=True)
class TrainingTraffic:
    """Boards in a layout."""

    board: Board
    layout: Parallelism
    settings: TrainingSettings

    @property
    def linked(self) -> int:
        """GPUs that its links, or one server, join."""
        return max(self.settings.node_gpus, self.board.linked_gpu_count or 1)

    def sum_seconds(self, gpus: int, payload_bytes: float) -> float:
        """A sum over so many of them, beyond a server over the network too."""
        if gpus <= 1 or payload_bytes <= 0.0:
            return 0.0
        if gpus * self.layout.tensor <= self.linked:
            return all_reduce_seconds(self.board, gpus, payload_bytes)
        inside = all_reduce_seconds(self.board, min(gpus, self.linked), payload_bytes)
        return inside / self.settings.network_ratio


def tensor_seconds(
    telling: TrainingTraffic, shape: TrainingShape, tokens: float, *, recomputes: bool
) -> float:
    """Of one micro batch in tensor parallel: sums of the activations of each layer."""
    if telling.layout.tensor == 1:
        return 0.0
    sums = (_REPEATED_SUMS if recomputes else _LAYER_SUMS) * shape.layers / telling.layout.pipeline
    payload = tokens * shape.hidden * _HALF_BYTES
    return sums * all_reduce_seconds(telling.board, telling.layout.tensor, payload)


def expert_seconds(telling: TrainingTraffic, shape: TrainingShape, tokens: float) -> float:
    """Of one micro batch: every token goes to its experts and back, half a sum's way."""
    gpus = min(telling.layout.gpus, telling.linked)
    if gpus == 1 or not shape.experts_per_token:
        return 0.0
    payload = tokens * shape.experts_per_token * shape.hidden * _HALF_BYTES
    payload /= telling.layout.tensor
    exchanges = _LAYER_EXCHANGES * shape.layers / telling.layout.pipeline
    return exchanges * telling.sum_seconds(gpus, payload / gpus) / 2.0


def replica_seconds(
    telling: TrainingTraffic, held: float, trained: float, zero_stage: int, batches: float
) -> float:
    """Of one micro batch: gradients once a step; fully sharded, weights twice and gradients each.

    `held`: parameters of the model; `trained`: those of them that have gradients; `batches`: micro
    batches of a step.
    """
    layout = telling.layout
    if layout.data == 1:
        return 0.0
    share = _HALF_BYTES / (layout.tensor * layout.pipeline)
    if zero_stage >= FULL_SHARDING:
        # Gathering, or scattering, is half of a sum.
        payload = (2.0 * held + trained) / 2.0 * share
    else:
        payload = trained * share / batches
    return telling.settings.exposed_ratio * telling.sum_seconds(layout.data, payload)


_HOPPER = "Hopper"


@dataclass(frozen=True, slots=True)
class TrainingKernels:
    """Of the framework that would run it."""

    product_ratio: float
    """What a layer's products reach of the speed of large ones."""
    element_traffic: float
    """Bytes for each element of a layer's width and each token."""
    repeated_ratio: float
    """What recomputation adds."""

    @classmethod
    def of(
        cls, requirement: Requirement, layout: Parallelism, board: Board, settings: TrainingSettings
    ) -> "TrainingKernels":
        """The kernels that a requirement and a layout ask for."""
        is_fused = _is_fused(requirement, layout)
        product = settings.hopper_ratio if board.architecture == _HOPPER else 1.0
        # Products in 8 bits were measured with the casts that fused kernels do elsewhere.
        if not (is_fused and training_precision(board, requirement) is not Precision.BF16):
            product *= settings.linear_ratio
        return cls(
            product_ratio=product,
            element_traffic=settings.element_traffic
            * (settings.fused_traffic_ratio if is_fused else 1.0),
            repeated_ratio=_repeated(requirement.training.recompute, settings, is_fused=is_fused),
        )


def training_precision(board: Board, requirement: Requirement) -> Precision:
    """What a board multiplies in: the narrower of weights and activations where it can.

    QLoRA unpacks its weights to what activations are in.
    """
    precisions = requirement.precision
    if requirement.task is ModelTask.FINETUNE_QLORA:
        return compute_format(board, precisions.activations)
    formats = (precisions.weights, precisions.activations)
    return compute_format(board, min(formats, key=lambda each: each.bytes_per_parameter))


def _is_fused(requirement: Requirement, layout: Parallelism) -> bool:
    """Whether a framework with fused kernels runs it: those that split layers, or train in fp8.

    Adapters sit between kernels and keep them apart.
    """
    if (
        requirement.task is not ModelTask.TRAINING
        or requirement.training.zero_stage >= FULL_SHARDING
    ):
        return False
    splits = layout.tensor * layout.pipeline > 1
    return splits or any(
        each.is_quantized
        for each in (requirement.precision.activations, requirement.precision.weights)
    )


def _repeated(recompute: Recompute, settings: TrainingSettings, *, is_fused: bool) -> float:
    if recompute is Recompute.NONE:
        return 0.0
    if recompute is Recompute.SELECTIVE:
        return settings.selective_ratio
    return settings.fused_recompute_ratio if is_fused else settings.recompute_ratio
