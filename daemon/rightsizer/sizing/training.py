"""How fast a model trains on given GPUs."""

from dataclasses import dataclass
from typing import Final

from rightsizer.catalogue.board import Board
from rightsizer.catalogue.precision import Precision
from rightsizer.sizing.estimate import Interval
from rightsizer.sizing.models import Transformer, VisionTransformer
from rightsizer.sizing.requirement import Parallelism, Requirement, Task
from rightsizer.sizing.sample_rate import sample_step
from rightsizer.sizing.training_settings import TrainingSettings
from rightsizer.sizing.training_shape import TrainingShape
from rightsizer.sizing.training_step import (
    micro_batches,
    training_precision,
    transformer_step,
)

__all__ = ["TrainingRate", "train"]

_SECONDS_PER_HOUR: Final = 3600.0
_DEFAULTS: Final = TrainingSettings()
_KNOWN_ARCHITECTURE: Final = "Ampere"


@dataclass(frozen=True, slots=True)
class TrainingRate:
    """How fast all GPUs of a layout train together."""

    tokens_per_second: Interval
    """Trained tokens; images or samples of models that know no tokens."""
    tokens_per_second_per_gpu: Interval
    mfu_ratio: float
    """Model FLOPs of the dense peak of the format that is multiplied in."""
    step_seconds: Interval
    """Of a whole step, all its micro batches."""
    hours: Interval | None
    """Of all the tokens to be trained on, where they are given."""


def train(
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
        flops = shape.model_flops * shape.sequence / units
    else:
        step = sample_step(model, requirement, board, layout, trains=True)
        seconds, units, flops = step.seconds, 1.0, step.flops / step.samples
    batches = micro_batches(requirement, layout)
    made = requirement.training.micro_batch * units * layout.data
    speed = made / seconds
    per_gpu = speed / layout.gpus
    peak = board.peak(training_precision(board, requirement.precision)) or 0.0
    factor = _error_factor(requirement, board, layout, settings)
    whole = Interval.around(speed, factor)
    tokens = requirement.training.tokens
    hours = None
    if tokens is not None:
        hours = Interval.around(tokens / speed / _SECONDS_PER_HOUR, factor)
    return TrainingRate(
        tokens_per_second=whole,
        tokens_per_second_per_gpu=whole.scaled(1.0 / layout.gpus),
        mfu_ratio=per_gpu * flops / peak if peak else 0.0,
        step_seconds=Interval.around(seconds * batches, factor),
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
        and requirement.task is Task.TRAINING
        and training_precision(board, requirement.precision) is Precision.BF16
        and layout.tensor * layout.pipeline == 1
    )
    return settings.known_error_factor if is_known else settings.error_factor
