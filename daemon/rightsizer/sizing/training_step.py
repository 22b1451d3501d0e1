"""The time of a training step of a transformer: computing, moving, telling each other."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from rightsizer.catalogue.board import Board
from rightsizer.catalogue.precision import Precision
from rightsizer.sizing.compute_format import compute_format
from rightsizer.sizing.requirement import Parallelism, Recompute, Requirement, Task
from rightsizer.sizing.training_settings import TrainingSettings
from rightsizer.sizing.training_shape import FLOPS, FROZEN_FLOPS, TrainingShape
from rightsizer.sizing.training_traffic import (
    FULL_SHARDING,
    Telling,
    expert_seconds,
    replica_seconds,
    tensor_seconds,
)

__all__ = ["StepTime", "is_fused", "micro_batches", "training_precision", "transformer_step"]

_PASSES: Final = 2.0
"""Through all weights, forward and backward."""
_UPDATE_BYTES: Final = 30.0
"""Of a parameter: weight, gradient, master copy and both moments, read and written."""
_MANY: Final = 4
"""Micro batches of a pipeline for each of its stages, where the global batch is not given."""
_ATTENTION_FLOPS: Final = 12.0
_HOPPER: Final = "Hopper"


@dataclass(frozen=True, slots=True)
class StepTime:
    """Seconds of one micro batch on one GPU."""

    linear: float
    attention: float
    elements: float
    unpacking: float
    """Weights of 4 bits, before they are multiplied with."""
    telling: float
    """Between GPUs, as far as computing does not hide it."""
    update: float
    """The optimizer's part that one micro batch bears."""
    least: float
    """Below which starting kernels sets the pace."""
    bubble: float
    """How much longer a pipeline takes than its fullest stage."""

    @property
    def total(self) -> float:
        """All of it."""
        computing = self.linear + self.attention + self.elements + self.unpacking
        return max(self.least, computing + self.telling) * (1.0 + self.bubble) + self.update


def training_precision(board: Board, requirement: Requirement) -> Precision:
    """What a board multiplies in: the narrower of weights and activations where it can.

    QLoRA unpacks its weights to what activations are in.
    """
    precisions = requirement.precision
    if requirement.task is Task.FINETUNE_QLORA:
        return compute_format(board, precisions.activations)
    formats = (precisions.weights, precisions.activations)
    return compute_format(board, min(formats, key=lambda each: each.bytes_per_parameter))


def micro_batches(requirement: Requirement, layout: Parallelism) -> float:
    """Of one step, on each GPU."""
    training = requirement.training
    if training.global_batch is None:
        return 1.0 if layout.pipeline == 1 else float(_MANY * layout.pipeline)
    return max(1.0, training.global_batch / (training.micro_batch * layout.data))


def is_fused(requirement: Requirement, layout: Parallelism) -> bool:
    """Whether a framework with fused kernels runs it: those that split layers, or train in fp8.

    Adapters sit between kernels and keep them apart.
    """
    if requirement.task is not Task.TRAINING or requirement.training.zero_stage >= FULL_SHARDING:
        return False
    splits = layout.tensor * layout.pipeline > 1
    return splits or any(
        each.is_quantized
        for each in (requirement.precision.activations, requirement.precision.weights)
    )


def transformer_step(
    requirement: Requirement,
    shape: TrainingShape,
    board: Board,
    layout: Parallelism,
    settings: TrainingSettings,
) -> StepTime:
    """Of one micro batch."""
    tokens = requirement.training.micro_batch * shape.sequence / (layout.tensor * layout.pipeline)
    again = 1.0 + _again(settings)[requirement.training.recompute]
    fused = is_fused(requirement, layout)
    traffic = settings.element_traffic * (settings.fused_traffic_ratio if fused else 1.0)
    batches = micro_batches(requirement, layout)
    bandwidth = board.memory_bandwidth_bytes_per_second * board.achievable_bandwidth_ratio
    attended = _ATTENTION_FLOPS * shape.attended * shape.sequence * tokens
    plain = _achieved(board, Precision.BF16)
    return StepTime(
        linear=_product_seconds(requirement, shape, board, settings, is_fused=fused)
        * tokens
        * again,
        attention=attended / (plain * settings.attention_ratio) * again,
        elements=traffic * shape.layers * shape.hidden * tokens / bandwidth * again,
        unpacking=_unpacked(requirement, shape, layout) * settings.unpacking_traffic / bandwidth,
        telling=_telling_seconds(requirement, shape, Telling(board, layout, settings), batches),
        update=_updated(requirement, shape, layout) * _UPDATE_BYTES / (bandwidth * batches),
        least=settings.layer_seconds * shape.layers / layout.pipeline,
        bubble=(layout.pipeline - 1) / batches,
    )


def _again(settings: TrainingSettings) -> Mapping[Recompute, float]:
    return {
        Recompute.NONE: 0.0,
        Recompute.SELECTIVE: settings.selective_ratio,
        Recompute.FULL: settings.recompute_ratio,
    }


def _product_seconds(
    requirement: Requirement,
    shape: TrainingShape,
    board: Board,
    settings: TrainingSettings,
    *,
    is_fused: bool,
) -> float:
    """Of one token, on one GPU that holds the whole model."""
    slower = shape.expert_parameters * (1.0 / settings.expert_ratio - 1.0)
    each = FLOPS if requirement.task is Task.TRAINING else FROZEN_FLOPS
    flops = each * (shape.count.linear + slower)
    rate = _achieved(board, training_precision(board, requirement))
    held = settings.hopper_ratio if board.architecture == _HOPPER else 1.0
    return flops / (rate * held * (1.0 if is_fused else settings.linear_ratio))


def _telling_seconds(
    requirement: Requirement, shape: TrainingShape, telling: Telling, batches: float
) -> float:
    training = requirement.training
    tokens = training.micro_batch * shape.sequence
    seconds = tensor_seconds(
        telling, shape, tokens, recomputes=training.recompute is Recompute.FULL
    )
    seconds += expert_seconds(telling, shape, tokens)
    trained = shape.count.total if requirement.task is Task.TRAINING else 0.0
    held = shape.count.total
    return seconds + replica_seconds(telling, held, trained, training.zero_stage, batches)


def _updated(requirement: Requirement, shape: TrainingShape, layout: Parallelism) -> float:
    """Parameters that the optimizer of one GPU updates."""
    if requirement.task is not Task.TRAINING:
        return 0.0
    shards = layout.data if requirement.training.zero_stage > 0 else 1
    return shape.count.total / (layout.tensor * layout.pipeline * shards)


def _unpacked(requirement: Requirement, shape: TrainingShape, layout: Parallelism) -> float:
    """Parameters that one GPU unpacks for a micro batch, each in every pass."""
    if requirement.task is not Task.FINETUNE_QLORA:
        return 0.0
    repeats = 1.0 if requirement.training.recompute is Recompute.FULL else 0.0
    return (_PASSES + repeats) * shape.count.layers / (layout.tensor * layout.pipeline)


def _achieved(board: Board, precision: Precision) -> float:
    return board.achieved(precision) or board.achieved(Precision.FP32) or 1.0
