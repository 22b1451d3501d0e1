"""Rates of image and table models: sum of compute, memory traffic and kernel launches."""

from collections.abc import Mapping
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from rightsizer.catalogue.board import Board, Precision
from rightsizer.sizing.activations import (
    convolution_training_bytes,
    denoiser_block,
    denoiser_tokens,
    layer_outputs,
)
from rightsizer.sizing.collectives import ServerLinks
from rightsizer.sizing.estimate import EstimateInterval
from rightsizer.sizing.models import (
    ConvolutionalNetwork,
    Diffusion,
    RecommenderModel,
    Transformer,
    VisionTransformer,
)
from rightsizer.sizing.parameters import count_parameters
from rightsizer.sizing.requirement import ModelTask, Parallelism, Requirement, VisionRuntime
from rightsizer.sizing.roofline import compute_format
from rightsizer.sizing.settings import SampleSettings

SampleModel = ConvolutionalNetwork | VisionTransformer | Diffusion | RecommenderModel

_BACKWARD: Final = 3.0
"""Forward and backward pass together, relative to the forward pass."""
_FROZEN_BACKWARD: Final = 2.0
"""The same without gradients of weights."""
UPDATE_BYTES: Final = 30.0
"""Per parameter: weight, gradient, master copy and both moments, read and written."""
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


class SampleStep(Struct, frozen=True):
    """One pass over a batch on one GPU."""

    samples: float
    seconds: float
    flops: float


class SampleRate(Struct, frozen=True):
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
    factor = settings.error_factor
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
    precision = compute_format(board, min(formats, key=lambda each: each.bytes_per_parameter))
    if isinstance(model, ConvolutionalNetwork):
        if precision is Precision.FP32 and board.peak(Precision.TF32):
            precision = Precision.TF32  # The default of cuDNN and TensorRT.
        peak = board.peak(precision) or board.peak(Precision.FP32) or 1.0
        filled = batch / (batch + settings.convolution_idle_images)
        ratio, _ = _runtime_ratios(requirement.runtime, settings)
        return peak * board.efficiency.power_cap_ratio * ratio * filled
    achieved = board.achieved(precision) or board.achieved(Precision.FP32) or 1.0
    is_of_tables = isinstance(model, RecommenderModel)
    return achieved * (settings.table_product_ratio if is_of_tables else settings.product_ratio)


def _runtime_ratios(runtime: VisionRuntime, settings: SampleSettings) -> tuple[float, float]:
    """Return the speed of convolutions, and how often each layer's output is moved."""
    match runtime:
        case VisionRuntime.TENSORRT:
            return settings.convolution_ratio, settings.output_passes
        case VisionRuntime.COMPILED:
            return settings.product_ratio, settings.compiled_output_passes
        case VisionRuntime.EAGER:
            return settings.product_ratio, settings.eager_output_passes


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
    if isinstance(model, ConvolutionalNetwork) and trains:
        moved = settings.training_traffic_ratio * convolution_training_bytes(model, kept, batch)
    elif isinstance(model, ConvolutionalNetwork):
        _, passes = _runtime_ratios(requirement.runtime, settings)
        if requirement.runtime is VisionRuntime.TENSORRT:
            cached = settings.cached_bytes
            passes *= min(1.0, cached / (board.l2_bytes or cached)) ** 0.5
        moved = passes * layer_outputs(model) * kept.bytes_per_parameter * batch
    elif isinstance(model, VisionTransformer):
        width = float(model.layers * model.hidden * model.tokens)
        moved = times * settings.element_traffic * width * batch
    else:
        block = denoiser_block(model)
        passes = 1.0 if trains else float(model.steps)
        tokens = denoiser_tokens(model) / (2.0 if trains and model.guided else 1.0)
        width = block.layers * block.hidden * tokens
        moved = times * settings.element_traffic * width * batch * passes
        weights *= passes
    return (moved + weights) / bandwidth
