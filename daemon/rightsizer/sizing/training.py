"""Training speed of a model: units per second, utilization, error."""

from typing import Final

from msgspec import Struct

from rightsizer.catalogue.board import Board, OriginKind, Precision
from rightsizer.model.units import HOUR_SECONDS
from rightsizer.sizing.collectives import SERVER_GPUS, ServerLinks
from rightsizer.sizing.estimate import EstimateInterval, joint_error_factor
from rightsizer.sizing.models import ConvolutionalNetwork, LayeredModel, Transformer
from rightsizer.sizing.requirement import ModelTask, Parallelism, Requirement
from rightsizer.sizing.sample_rate import sample_step
from rightsizer.sizing.settings import SampleSettings
from rightsizer.sizing.training_settings import TrainingSettings
from rightsizer.sizing.training_step import (
    TrainingShape,
    TrainingStep,
    parameter_flops,
    training_precision,
    uses_fused_kernels,
)

_DEFAULTS: Final = TrainingSettings()
_SAMPLES: Final = SampleSettings()
_KNOWN_ARCHITECTURE: Final = "Ampere"


class TrainingRate(Struct, frozen=True):
    """Training speed of all GPUs of a layout together."""

    units_per_second: EstimateInterval
    """Trained tokens; images or samples for models without tokens."""
    mfu_ratio: float
    """Model FLOPs relative to the dense peak of the format of its products."""
    hours: EstimateInterval | None
    """Time for all tokens to train on, if given."""


def training_rate(
    requirement: Requirement,
    board: Board,
    layout: Parallelism,
    settings: TrainingSettings = _DEFAULTS,
    samples: SampleSettings = _SAMPLES,
) -> TrainingRate:
    """Rate of a training task, regardless of whether memory suffices."""
    model = requirement.model
    if isinstance(model, LayeredModel):
        shape = TrainingShape(model, float(requirement.training.sequence))
        seconds = TrainingStep(requirement, shape, board, layout, settings).seconds
        units = shape.sequence if isinstance(model, Transformer) else 1.0
        model_flops = shape.model_flops(parameter_flops(requirement.task))
        flops = model_flops * shape.sequence / units
    else:
        links = ServerLinks(board, settings.network_bytes_per_second, settings.node_gpus)
        step = sample_step(model, requirement, board, layout, samples, links=links)
        seconds = step.seconds
        units = 1.0
        flops = step.flops / step.samples
    made = requirement.training.micro_batch * units * layout.data
    speed = made / seconds
    peak = board.peak(training_precision(board, requirement)) or 0.0
    factor = _error_factor(requirement, board, layout, settings)
    tokens = requirement.training.tokens
    hours = None
    if tokens is not None:
        hours = EstimateInterval.around(tokens / speed / HOUR_SECONDS, factor)
    mfu = speed / layout.gpus * flops / peak if peak else 0.0
    return TrainingRate(EstimateInterval.around(speed, factor), mfu, hours)


def _error_factor(
    requirement: Requirement, board: Board, layout: Parallelism, settings: TrainingSettings
) -> float:
    """Error factor; smallest for runs like those used in the fit."""
    is_known = (
        board.architecture == _KNOWN_ARCHITECTURE
        and (board.linked_gpu_count or 1) >= SERVER_GPUS
        and isinstance(requirement.model, Transformer)
        and requirement.model.experts == 1
        and requirement.task is ModelTask.TRAINING
        and training_precision(board, requirement) is Precision.BF16
        and layout.tensor * layout.pipeline == 1
    )
    if is_known:
        return settings.known_error_factor
    is_assumed = board.origin("efficiency.gemm.bf16").kind is OriginKind.ASSUMED
    is_linked = min(layout.gpus, SERVER_GPUS) <= (board.linked_gpu_count or 1)
    is_convolutional = isinstance(requirement.model, ConvolutionalNetwork)
    is_mixture = isinstance(requirement.model, Transformer) and requirement.model.experts > 1
    # Kernels are assumed to be fused where a framework of split layers or of 8 bits is not named.
    is_fusion_assumed = requirement.training.framework is None and uses_fused_kernels(
        requirement, layout
    )
    is_open = requirement.is_framework_open or is_fusion_assumed
    beside = (
        settings.assumed_board_factor if is_assumed else 1.0,
        1.0 if is_linked else settings.slow_link_factor,
        1.0 if board.computes_in_bf16 else settings.early_board_factor,
        settings.convolution_factor if is_convolutional else 1.0,
        settings.mixture_factor if is_mixture else 1.0,
        settings.unnamed_framework_factor if is_open else 1.0,
    )
    return joint_error_factor(settings.error_factor, *beside)
