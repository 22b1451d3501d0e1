"""Training speed of a model: time of a step, tokens a second, hours, error."""

from typing import Final

from rightsizer.catalogue.board import Board, Precision
from rightsizer.model.frozen import dataclass
from rightsizer.model.units import HOUR_SECONDS
from rightsizer.sizing.estimate import EstimateInterval
from rightsizer.sizing.models import Transformer, VisionTransformer
from rightsizer.sizing.requirement import ModelTask, Parallelism, Recompute, Requirement
from rightsizer.sizing.sample_rate import sample_step
from rightsizer.sizing.settings import TrainingSettings
from rightsizer.sizing.training_work import (
    FLOPS,
    FROZEN_FLOPS,
    TrainingKernels,
    TrainingShape,
    TrainingTraffic,
    expert_seconds,
    replica_seconds,
    tensor_seconds,
    training_precision,
)

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
    kernels = TrainingKernels.of(requirement, layout, board, settings)
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
        telling=_telling_seconds(
            requirement, shape, TrainingTraffic(board, layout, settings), batches
        ),
        update=_updated(requirement, shape, layout) * _UPDATE_BYTES / (bandwidth * batches),
        least=settings.layer_seconds * shape.layers / layout.pipeline,
        bubble=(layout.pipeline - 1) / (batches * _turns(shape, layout, settings)),
    )


def _product_seconds(
    requirement: Requirement, shape: TrainingShape, board: Board, settings: TrainingSettings
) -> float:
    """Of one token at the speed of large products, on one GPU that holds the whole model."""
    slower = shape.expert_parameters * (1.0 / settings.expert_ratio - 1.0)
    each = FLOPS if requirement.task is ModelTask.TRAINING else FROZEN_FLOPS
    flops = each * (shape.count.linear + slower)
    return flops / _achieved(board, training_precision(board, requirement))


def _turns(shape: TrainingShape, layout: Parallelism, settings: TrainingSettings) -> float:
    """Chunks of layers that one stage of a pipeline runs in turn."""
    return max(1.0, shape.layers / layout.pipeline // settings.chunk_layers)


def _telling_seconds(
    requirement: Requirement, shape: TrainingShape, telling: TrainingTraffic, batches: float
) -> float:
    training = requirement.training
    tokens = training.micro_batch * shape.sequence
    seconds = tensor_seconds(
        telling, shape, tokens, recomputes=training.recompute is Recompute.FULL
    )
    seconds += expert_seconds(telling, shape, tokens)
    trained = shape.count.total if requirement.task is ModelTask.TRAINING else 0.0
    held = shape.count.total
    return seconds + replica_seconds(telling, held, trained, training.zero_stage, batches)


def _updated(requirement: Requirement, shape: TrainingShape, layout: Parallelism) -> float:
    """Parameters that the optimizer of one GPU updates."""
    if requirement.task is not ModelTask.TRAINING:
        return 0.0
    shards = layout.data if requirement.training.zero_stage > 0 else 1
    return shape.count.total / (layout.tensor * layout.pipeline * shards)


def _unpacked(requirement: Requirement, shape: TrainingShape, layout: Parallelism) -> float:
    """Parameters that one GPU unpacks for a micro batch, each in every pass."""
    if requirement.task is not ModelTask.FINETUNE_QLORA:
        return 0.0
    repeats = 1.0 if requirement.training.recompute is Recompute.FULL else 0.0
    return (_PASSES + repeats) * shape.count.layers / (layout.tensor * layout.pipeline)


def _achieved(board: Board, precision: Precision) -> float:
    return board.achieved(precision) or board.achieved(Precision.FP32) or 1.0


_DEFAULTS: Final = TrainingSettings()
_KNOWN_ARCHITECTURE: Final = "Ampere"


@dataclass(frozen=True, slots=True)
class TrainingRate:
    """How fast all GPUs of a layout train together."""

    tokens_per_second: EstimateInterval
    """Trained tokens; images or samples of models that know no tokens."""
    mfu_ratio: float
    """Model FLOPs of the dense peak of the format that is multiplied in."""
    hours: EstimateInterval | None
    """Of all the tokens to be trained on, where they are given."""


def training_rate(
    requirement: Requirement,
    board: Board,
    layout: Parallelism,
    settings: TrainingSettings = _DEFAULTS,
) -> TrainingRate:
    """The rate of a training task, whether or not its memory fits."""
    model = requirement.model
    if isinstance(model, Transformer | VisionTransformer):
        sequence = float(requirement.training.sequence)
        shape = TrainingShape.of(model, sequence)
        seconds = transformer_step(requirement, shape, board, layout, settings).total
        units = shape.sequence if isinstance(model, Transformer) else 1.0
        each = FLOPS if requirement.task is ModelTask.TRAINING else FROZEN_FLOPS
        flops = shape.model_flops(each) * shape.sequence / units
    else:
        step = sample_step(model, requirement, board, layout, trains=True)
        seconds, units, flops = step.seconds, 1.0, step.flops / step.samples
    made = requirement.training.micro_batch * units * layout.data
    speed = made / seconds
    peak = board.peak(training_precision(board, requirement)) or 0.0
    factor = _error_factor(requirement, board, layout, settings)
    tokens = requirement.training.tokens
    hours = None
    if tokens is not None:
        hours = EstimateInterval.around(tokens / speed / HOUR_SECONDS, factor)
    return TrainingRate(
        tokens_per_second=EstimateInterval.around(speed, factor),
        mfu_ratio=speed / layout.gpus * flops / peak if peak else 0.0,
        hours=hours,
    )


def _error_factor(
    requirement: Requirement, board: Board, layout: Parallelism, settings: TrainingSettings
) -> float:
    """Runs like those that the model was fitted on are known best."""
    is_known = (
        board.architecture == _KNOWN_ARCHITECTURE
        and bool(board.link_bytes_per_second)
        and isinstance(requirement.model, Transformer)
        and requirement.model.experts == 1
        and requirement.task is ModelTask.TRAINING
        and training_precision(board, requirement) is Precision.BF16
        and layout.tensor * layout.pipeline == 1
    )
    return settings.known_error_factor if is_known else settings.error_factor
