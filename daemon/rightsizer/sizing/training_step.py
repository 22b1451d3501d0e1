"""The time of a training step of a transformer: computing, moving, telling each other."""

from dataclasses import dataclass
from typing import Final

from rightsizer.catalogue.board import Board
from rightsizer.catalogue.precision import Precision
from rightsizer.sizing.requirement import Parallelism, Recompute, Requirement, Task
from rightsizer.sizing.training_kernels import Kernels, training_precision
from rightsizer.sizing.training_settings import TrainingSettings
from rightsizer.sizing.training_shape import FLOPS, FROZEN_FLOPS, TrainingShape
from rightsizer.sizing.training_traffic import (
    Telling,
    expert_seconds,
    replica_seconds,
    tensor_seconds,
)

__all__ = ["StepTime", "transformer_step"]

_PASSES: Final = 2.0
"""Through all weights, forward and backward."""
_UPDATE_BYTES: Final = 30.0
"""Of a parameter: weight, gradient, master copy and both moments, read and written."""
_MANY: Final = 4
"""Micro batches of a pipeline for each of its stages, where the global batch is not given."""
_ATTENTION_FLOPS: Final = 12.0


@dataclass(frozen=True, slots=True)
class StepTime:
    """Seconds of one micro batch on one GPU."""

    linear: float
    attention: float
    elements: float
    scores: float
    """Of attention, where they are written out."""
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
        computing = self.linear + self.attention + self.elements + self.scores + self.unpacking
        return max(self.least, computing + self.telling) * (1.0 + self.bubble) + self.update


def _micro_batches(requirement: Requirement, layout: Parallelism) -> float:
    """Of one step, on each GPU."""
    training = requirement.training
    if training.global_batch is None:
        return 1.0 if layout.pipeline == 1 else float(_MANY * layout.pipeline)
    return max(1.0, training.global_batch / (training.micro_batch * layout.data))


def transformer_step(
    requirement: Requirement,
    shape: TrainingShape,
    board: Board,
    layout: Parallelism,
    settings: TrainingSettings,
) -> StepTime:
    """Of one micro batch."""
    tokens = requirement.training.micro_batch * shape.sequence / (layout.tensor * layout.pipeline)
    kernels = Kernels.of(requirement, layout, board, settings)
    again = 1.0 + kernels.repeated_ratio
    batches = _micro_batches(requirement, layout)
    bandwidth = board.memory_bandwidth_bytes_per_second * board.achievable_bandwidth_ratio
    attended = _ATTENTION_FLOPS * shape.attended * shape.sequence * tokens
    scores = 0.0 if requirement.training.flash_attention else shape.scores
    plain = _achieved(board, Precision.BF16)
    return StepTime(
        linear=_product_seconds(requirement, shape, board, settings)
        / kernels.product_ratio
        * tokens
        * again,
        attention=attended / (plain * settings.attention_ratio) * again,
        elements=kernels.element_traffic * shape.layers * shape.hidden * tokens / bandwidth * again,
        scores=scores * settings.score_traffic * tokens / bandwidth * again,
        unpacking=_unpacked(requirement, shape, layout) * settings.unpacking_traffic / bandwidth,
        telling=_telling_seconds(requirement, shape, Telling(board, layout, settings), batches),
        update=_updated(requirement, shape, layout) * _UPDATE_BYTES / (bandwidth * batches),
        least=settings.layer_seconds * shape.layers / layout.pipeline,
        bubble=(layout.pipeline - 1) / (batches * _turns(shape, layout, settings)),
    )


def _product_seconds(
    requirement: Requirement,
    shape: TrainingShape,
    board: Board,
    settings: TrainingSettings,
) -> float:
    """Of one token at the speed of large products, on one GPU that holds the whole model."""
    slower = shape.expert_parameters * (1.0 / settings.expert_ratio - 1.0)
    each = FLOPS if requirement.task is Task.TRAINING else FROZEN_FLOPS
    flops = each * (shape.count.linear + slower)
    return flops / _achieved(board, training_precision(board, requirement))


def _turns(shape: TrainingShape, layout: Parallelism, settings: TrainingSettings) -> float:
    """Chunks of layers that one stage of a pipeline runs in turn."""
    return max(1.0, shape.layers / layout.pipeline // settings.chunk_layers)


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
