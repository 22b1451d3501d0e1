"""Rates of models of images and of tables: computing and moving added, and starting kernels."""

from collections.abc import Mapping
from typing import Final

from rightsizer.catalogue.board import Board, Precision
from rightsizer.model.frozen import dataclass
from rightsizer.sizing.activations import (
    convolution_training_bytes,
    denoiser_block,
    denoiser_tokens,
)
from rightsizer.sizing.estimate import EstimateInterval
from rightsizer.sizing.models import (
    ConvolutionalNetwork,
    Diffusion,
    RecommenderModel,
    Transformer,
    VisionTransformer,
)
from rightsizer.sizing.parameters import count_parameters
from rightsizer.sizing.requirement import ModelTask, Parallelism, Requirement
from rightsizer.sizing.roofline import all_reduce_seconds, compute_format

SampleModel = ConvolutionalNetwork | VisionTransformer | Diffusion | RecommenderModel

_BACKWARD: Final = 3.0
"""Of a forward pass, with the backward pass that goes with it."""
_FROZEN_BACKWARD: Final = 2.0
"""The same where weights have no gradient."""
_CONVOLUTION_RATIO: Final = 0.6
"""What convolutions reach of the dense peak. With the traffic below, ResNet-50 in int8 (MLPerf,
Offline) comes out 5 to 21% low on the T4, A10, A30, A100 and H100, a third low on L4 and L40S."""
_LAYERS_RATIO: Final = 0.8
_DENSE_RATIO: Final = 0.5
"""What products of denoisers and transformers, and of recommenders, reach; assumed."""
_INFERENCE_TRAFFIC: Final = 0.3
"""Of what training keeps, what fused kernels write and read of memory."""
_CACHING_L2_BYTES: Final = 40e6
"""A larger L2 spares memory with the root of its size; Ada's, of 48 to 128 MB."""
_TRAINING_TRAFFIC: Final = 4.0
"""The same of a step: of each of the four copies that are kept four passes, as convolution, norm
and ReLU read and write 6 times forward and 10 times backward."""
_FUSED_ELEMENT_TRAFFIC: Final = 60.0
"""Bytes of each element of a layer's width and each token, forward, kernels fused."""
_RANDOM_READ_RATIO: Final = 0.5
"""Of the bandwidth, where rows of tables are read; assumed."""
_DECODER_FLOPS: Final = 9.5e6
"""Of one pixel that latents are decoded to: about 2.5 TFLOP for 512 by 512 (recalled)."""
_KERNEL_SECONDS: Final = 5e-4
"""What one pass takes beside what it computes and moves: starting its kernels, one by one."""
_DENOISER_KERNEL_SECONDS: Final = 2.4e-3
"""The same of a step of a diffusion model: about 600 kernels of 4 us, by the blocks of Stable
Diffusion 1.5 (22 residual ones of 9, 16 transformers of 25)."""
_UPDATE_BYTES: Final = 30.0
_GRADIENT_BYTES: Final = 2.0
_EXPOSED_RATIO: Final = 0.41
"""Of sums over replicas; as of transformers (training settings)."""
_ERROR_FACTOR: Final = 1.8
"""Assumed: a shape's kernels are known by their FLOPs alone."""
_BATCHES: Final[Mapping[type, float]] = {
    ConvolutionalNetwork: 64.0,
    VisionTransformer: 64.0,
    Diffusion: 1.0,
    RecommenderModel: 65536.0,
}
"""Samples at a time of one GPU where no concurrency is given; enough to fill it."""
_PROMPT_TOKENS: Final = 77.0


@dataclass(frozen=True, slots=True)
class SampleStep:
    """One pass over a batch on one GPU."""

    samples: float
    seconds: float
    flops: float


@dataclass(frozen=True, slots=True)
class SampleRate:
    """Images or samples that all GPUs of a layout make together."""

    samples_per_second: EstimateInterval
    batch_seconds: EstimateInterval
    """Until a batch of as many as are in flight is done."""
    concurrency: float


def sample_rate(
    requirement: Requirement, board: Board, layout: Parallelism, concurrency: float | None = None
) -> SampleRate:
    """The rate at which a model of images or tables serves.

    Raises:
        TypeError: the model is one of tokens.
    """
    model = requirement.model
    if isinstance(model, Transformer):
        raise TypeError("tokens are served, not sampled")
    if concurrency is None:
        concurrency = _BATCHES[type(model)] * layout.data
    step = sample_step(model, requirement, board, layout, samples=concurrency / layout.data)
    made = EstimateInterval.around(concurrency / step.seconds, _ERROR_FACTOR)
    return SampleRate(made, EstimateInterval.around(step.seconds, _ERROR_FACTOR), concurrency)


def sample_step(  # noqa: PLR0913 - the last two tell serving from training.
    model: SampleModel,
    requirement: Requirement,
    board: Board,
    layout: Parallelism,
    *,
    samples: float | None = None,
    trains: bool = False,
) -> SampleStep:
    """One pass over a batch; forward and backward where it trains."""
    batch = float(requirement.training.micro_batch) if samples is None else samples
    ranks = layout.tensor * layout.pipeline
    flops = forward_flops(model, trains=trains) * batch
    seconds = _moved_seconds(model, requirement, board, batch, trains=trains)
    trains_all = trains and requirement.task is ModelTask.TRAINING
    if trains:
        flops *= _BACKWARD if trains_all else _FROZEN_BACKWARD
    if trains_all:
        # What replicas exchange, and the optimizer.
        trained = count_parameters(model).total
        if isinstance(model, RecommenderModel):
            trained = model.dense_parameters
        sums = all_reduce_seconds(board, layout.data, trained * _GRADIENT_BYTES)
        bandwidth = board.memory_bandwidth_bytes_per_second * board.achievable_bandwidth_ratio
        seconds += sums * _EXPOSED_RATIO + trained * _UPDATE_BYTES / bandwidth
    starts = _KERNEL_SECONDS
    if isinstance(model, Diffusion):
        starts = _DENOISER_KERNEL_SECONDS * (1 if trains else model.steps)
    seconds += flops / _speed(model, requirement, board)
    return SampleStep(batch, seconds / ranks + starts, flops)


def forward_flops(model: SampleModel, *, trains: bool = False) -> float:
    """Of one sample: a whole picture of a diffusion model, one step of it where it trains."""
    match model:
        case ConvolutionalNetwork():
            return model.forward_flops
        case VisionTransformer():
            attention = 4.0 * model.layers * model.hidden * model.tokens**2
            return 2.0 * count_parameters(model).linear * model.tokens + attention
        case Diffusion():
            guided, once = 2.0 if model.guided else 1.0, model.forward_flops
            if once is None:  # One step of one image, without guidance.
                tokens, block = denoiser_tokens(model) / guided, denoiser_block(model)
                attended = 4.0 * block.layers * block.hidden * tokens**2
                once = 2.0 * model.parameters * tokens + attended
            if trains:
                return once
            text = 2.0 * model.text_encoder_parameters * _PROMPT_TOKENS * guided
            return once * model.steps * guided + model.image**2 * _DECODER_FLOPS + text
        case RecommenderModel():
            return 2.0 * model.dense_parameters


def _speed(model: SampleModel, requirement: Requirement, board: Board) -> float:
    precisions = requirement.precision
    formats = (precisions.weights, precisions.activations)
    precision = compute_format(board, min(formats, key=lambda each: each.bytes_per_parameter))
    if isinstance(model, ConvolutionalNetwork):
        peak = board.peak(precision) or board.peak(Precision.FP32) or 1.0
        return peak * board.efficiency.power_cap_ratio * _CONVOLUTION_RATIO
    achieved = board.achieved(precision) or board.achieved(Precision.FP32) or 1.0
    return achieved * (_DENSE_RATIO if isinstance(model, RecommenderModel) else _LAYERS_RATIO)


def _moved_seconds(
    model: SampleModel, requirement: Requirement, board: Board, batch: float, *, trains: bool
) -> float:
    """What memory moves: activations, weights once a pass, rows of tables."""
    bandwidth = board.memory_bandwidth_bytes_per_second * board.achievable_bandwidth_ratio
    precisions = requirement.precision
    kept = precisions.activations if trains else precisions.weights
    times = _BACKWARD if trains else 1.0
    if isinstance(model, RecommenderModel):
        element = precisions.weights.bytes_per_parameter
        rows = batch * model.lookups * model.embedding_width * element
        dense = model.dense_parameters * element
        return times * (rows / (_RANDOM_READ_RATIO * bandwidth) + dense / bandwidth)
    weights = times * count_parameters(model).total * precisions.weights.bytes_per_parameter
    if isinstance(model, ConvolutionalNetwork):
        spared = min(1.0, _CACHING_L2_BYTES / (board.l2_bytes or _CACHING_L2_BYTES)) ** 0.5
        share = _TRAINING_TRAFFIC if trains else _INFERENCE_TRAFFIC * spared
        moved = share * convolution_training_bytes(model, kept, batch)
    elif isinstance(model, VisionTransformer):
        width = float(model.layers * model.hidden * model.tokens)
        moved = times * _FUSED_ELEMENT_TRAFFIC * width * batch
    else:
        block = denoiser_block(model)
        passes = 1.0 if trains else float(model.steps)
        tokens = denoiser_tokens(model) / (2.0 if trains and model.guided else 1.0)
        width = block.layers * block.hidden * tokens
        moved = times * _FUSED_ELEMENT_TRAFFIC * width * batch * passes
        weights *= passes
    return (moved + weights) / bandwidth
