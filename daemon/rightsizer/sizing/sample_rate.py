"""Rates of image and table models: sum of compute, memory traffic and kernel launches."""

import math
from collections.abc import Mapping
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from rightsizer.catalogue.board import Board, Precision
from rightsizer.sizing.activations import (
    denoiser_block,
    denoiser_tokens,
    layer_outputs,
)
from rightsizer.sizing.collectives import ServerLinks
from rightsizer.sizing.estimate import EstimateInterval
from rightsizer.sizing.models import (
    ConvolutionalNetwork,
    Diffusion,
    ImageNetwork,
    RecommenderModel,
    Transformer,
    VisionTransformer,
)
from rightsizer.sizing.parameters import NumberFormat, count_parameters
from rightsizer.sizing.requirement import ModelTask, Parallelism, Requirement, VisionRuntime
from rightsizer.sizing.roofline import compute_format
from rightsizer.sizing.settings import SampleSettings

SampleModel = ImageNetwork | Diffusion | RecommenderModel

_BACKWARD: Final = 3.0
"""Forward and backward pass together, relative to the forward pass."""
_FROZEN_BACKWARD: Final = 2.0
"""The same without gradients of weights."""
UPDATE_BYTES: Final = 30.0
"""Per parameter: weight, gradient, master copy and both moments, read and written."""
_TRAINING_PASSES: Final = 16.0 / 6.0
"""Passes over a layer's output in a step, relative to those forward, kernel by kernel: convolution,
norm and ReLU read and write 6 times forward and 10 times backward."""
_GRADIENT_BYTES: Final = 2.0
_DEFAULTS: Final = SampleSettings()
_BATCHES: Final[Mapping[type, float]] = {
    ConvolutionalNetwork: 64.0,
    VisionTransformer: 64.0,
    Diffusion: 1.0,
    RecommenderModel: 65536.0,
}
"""Default number of samples per GPU and pass, large enough to fill it."""
_PROMPT_TOKENS: Final = 77.0
_LATER_UNITS: Final = ((9, 0), (12, 0))
"""From Hopper to data center Blackwell, compute capabilities whose matrix units need instructions
that flash attention 2 lacks; AMD's 9.4 and 9.5, which are not measured, are taken to be alike."""


class SampleStep(Struct, frozen=True, gc=False):
    """One pass over a batch on one GPU."""

    samples: float
    seconds: float
    flops: float


class SampleRate(Struct, frozen=True, gc=False):
    """Throughput of all GPUs of a layout, in images or samples."""

    samples_per_second: EstimateInterval
    batch_seconds: EstimateInterval
    """Time of a batch with all samples in flight."""
    concurrency: float


def sample_rate(
    requirement: Requirement,
    board: Board,
    layout: Parallelism,
    concurrency: float | None = None,
    settings: SampleSettings = _DEFAULTS,
) -> SampleRate:
    """Serving rate of a model of images or tables.

    Raises:
        TypeError: the model processes tokens.
    """
    model = requirement.model
    if isinstance(model, Transformer):
        raise TypeError("tokens are served, not sampled")
    if concurrency is None:
        concurrency = _BATCHES[type(model)] * layout.data
    samples = max(1.0, concurrency / layout.data)
    is_image = isinstance(model, ImageNetwork)
    factor = settings.image_error_factor if is_image else settings.error_factor
    step = sample_step(model, requirement, board, layout, settings, samples=samples)
    made = EstimateInterval.around(concurrency / step.seconds, factor)
    return SampleRate(made, EstimateInterval.around(step.seconds, factor), concurrency)


def sample_step(  # noqa: PLR0913 - the last two distinguish serving from training.
    model: SampleModel,
    requirement: Requirement,
    board: Board,
    layout: Parallelism,
    settings: SampleSettings = _DEFAULTS,
    *,
    samples: float | None = None,
    links: ServerLinks | None = None,
) -> SampleStep:
    """One pass over a batch: forward, in training (with links) also backward."""
    trains = links is not None
    batch = float(requirement.training.micro_batch) if samples is None else samples
    ranks = layout.tensor * layout.pipeline
    if not _LATER_UNITS[0] <= board.compute_capability < _LATER_UNITS[1]:
        settings = replace(settings, video_attention_ratio=1.0)
    flops = forward_flops(model, settings, trains=trains) * batch
    seconds = _moved_seconds(model, requirement, board, batch, settings, trains=trains)
    if links is not None and requirement.task is not ModelTask.TRAINING:
        flops *= _FROZEN_BACKWARD
    elif links is not None:
        flops *= _BACKWARD
        # Exchange between replicas, and optimizer.
        trained = count_parameters(model).total
        if isinstance(model, RecommenderModel):
            trained = model.dense_parameters
        sums = links.sum_seconds(layout.data, trained * _GRADIENT_BYTES)
        bandwidth = board.achieved_bytes_per_second
        seconds += sums * settings.exposed_ratio + trained * UPDATE_BYTES / bandwidth
    starts = settings.pass_seconds
    if isinstance(model, Diffusion):
        starts = settings.denoiser_step_seconds * (1 if trains else model.steps)
    seconds += flops / _speed(model, requirement, board, batch, settings)
    return SampleStep(batch, seconds / ranks + starts, flops)


def forward_flops(
    model: SampleModel, settings: SampleSettings = _DEFAULTS, *, trains: bool = False
) -> float:
    """FLOPs per sample; for a diffusion model all steps of an image, in training one step."""
    match model:
        case ConvolutionalNetwork():
            return model.forward_flops
        case VisionTransformer():
            attention = 4.0 * model.layers * model.hidden * model.tokens**2
            return 2.0 * count_parameters(model).linear * model.tokens + attention
        case Diffusion():
            guided = 2.0 if model.guided else 1.0
            once = model.forward_flops
            if once is None:  # One step of one image, without guidance.
                tokens = denoiser_tokens(model) / guided
                block = denoiser_block(model)
                attended = 4.0 * block.layers * block.hidden * tokens**2
                attended /= settings.video_attention_ratio
                once = 2.0 * (model.token_parameters or model.parameters) * tokens + attended
            if trains:
                return once
            text = 2.0 * model.text_encoder_parameters * _PROMPT_TOKENS * guided
            decoded = model.image**2 * model.frames * settings.decoder_pixel_flops
            return once * model.steps * guided + decoded + text
        case RecommenderModel():
            return 2.0 * model.dense_parameters


def _speed(
    model: SampleModel,
    requirement: Requirement,
    board: Board,
    batch: float,
    settings: SampleSettings,
) -> float:
    precisions = requirement.precision
    formats = (precisions.weights, precisions.activations)
    precision = compute_format(
        board, min(formats, key=lambda number_format: number_format.bytes_per_parameter)
    )
    is_convolutional = _is_convolutional(model)
    if is_convolutional and precision is Precision.FP32 and board.peak(Precision.TF32):
        precision = Precision.TF32  # The default of cuDNN and TensorRT.
    filled = batch / (batch + settings.convolution_idle_images) if is_convolutional else 1.0
    if is_convolutional and requirement.runtime is VisionRuntime.TENSORRT:
        peak = board.peak(precision) or board.peak(Precision.FP32) or 1.0
        return peak * board.efficiency.power_cap_ratio * settings.convolution_ratio * filled
    achieved = board.achieved(precision) or board.achieved(Precision.FP32) or 1.0
    if isinstance(model, RecommenderModel):
        return achieved * settings.table_product_ratio
    return achieved * (settings.product_ratio if isinstance(model, Diffusion) else filled)


def _is_convolutional(model: SampleModel) -> bool:
    return isinstance(model, ConvolutionalNetwork) and not model.is_transformer


def _output_passes(
    model: ImageNetwork, runtime: VisionRuntime, board: Board, settings: SampleSettings
) -> float:
    """How often the output of each layer is moved."""
    is_eager = runtime is VisionRuntime.EAGER
    if not _is_convolutional(model):
        if is_eager:
            return settings.eager_transformer_output_passes
        return settings.fused_transformer_output_passes
    if runtime is not VisionRuntime.TENSORRT:
        return settings.eager_output_passes if is_eager else settings.compiled_output_passes
    cached = settings.cached_bytes
    return settings.output_passes * math.sqrt(min(1.0, cached / (board.l2_bytes or cached)))


def _moved_seconds(  # noqa: PLR0913 - likewise.
    model: SampleModel,
    requirement: Requirement,
    board: Board,
    batch: float,
    settings: SampleSettings,
    *,
    trains: bool,
) -> float:
    """Time of memory traffic: activations, weights once per pass, table rows."""
    bandwidth = board.achieved_bytes_per_second
    precisions = requirement.precision
    kept = precisions.activations if trains else precisions.weights
    times = _BACKWARD if trains else 1.0
    if isinstance(model, RecommenderModel):
        element = precisions.weights.bytes_per_parameter
        rows = batch * model.lookups * model.embedding_width * element
        dense = model.dense_parameters * element
        return times * (rows / (settings.table_read_ratio * bandwidth) + dense / bandwidth)
    weights = times * count_parameters(model).total * precisions.weights.bytes_per_parameter
    if isinstance(model, ImageNetwork):
        runtime = VisionRuntime.EAGER if trains else requirement.runtime
        passes = _output_passes(model, runtime, board, settings)
        passes *= _TRAINING_PASSES if trains else 1.0
        element = kept.bytes_per_parameter
        if not _is_convolutional(model):  # Norms and scores are computed in 16 bits or more.
            element = max(element, NumberFormat.BF16.bytes_per_parameter)
        moved = passes * layer_outputs(model) * element * batch
    else:
        block = denoiser_block(model)
        passes = 1.0 if trains else float(model.steps)
        tokens = denoiser_tokens(model) / (2.0 if trains and model.guided else 1.0)
        width = block.layers * block.hidden * tokens
        moved = times * settings.element_traffic * width * batch * passes
        weights *= passes
    return (moved + weights) / bandwidth
