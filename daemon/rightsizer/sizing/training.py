"""How fast a model trains on given GPUs."""

from dataclasses import dataclass
from typing import Final

from rightsizer.catalogue.board import Board
from rightsizer.catalogue.precision import Precision
from rightsizer.sizing.estimate import Interval
from rightsizer.sizing.models import Transformer, VisionTransformer
from rightsizer.sizing.requirement import Parallelism, Requirement, Task
from rightsizer.sizing.sample_rate import sample_step
from rightsizer.sizing.training_kernels import training_precision
from rightsizer.sizing.training_settings import TrainingSettings
from rightsizer.sizing.training_shape import FLOPS, FROZEN_FLOPS, TrainingShape
from rightsizer.sizing.training_step import transformer_step

__all__ = ["TrainingRate", "train"]

_SECONDS_PER_HOUR: Final = 3600.0
_DEFAULTS: Final = TrainingSettings()
_KNOWN_ARCHITECTURE: Final = "Ampere"


@dataclass(frozen=True, slots=True)
class TrainingRate:
    """How fast all GPUs of a layout train together."""

    tokens_per_second: Interval
    """Trained tokens; images or samples of models that know no tokens."""
    mfu_ratio: float
    """Model FLOPs of the dense peak of the format that is multiplied in."""
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
        each = FLOPS if requirement.task is Task.TRAINING else FROZEN_FLOPS
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
        hours = Interval.around(tokens / speed / _SECONDS_PER_HOUR, factor)
    return TrainingRate(
        tokens_per_second=Interval.around(speed, factor),
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
        and requirement.task is Task.TRAINING
        and training_precision(board, requirement) is Precision.BF16
        and layout.tensor * layout.pipeline == 1
    )
    return settings.known_error_factor if is_known else settings.error_factor
