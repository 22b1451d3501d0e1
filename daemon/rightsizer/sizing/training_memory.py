"""What training and fine-tuning need on one GPU."""

from dataclasses import replace

from rightsizer.sizing.activations import (
    FrozenBase,
    TrainingActivations,
    training_activations,
)
from rightsizer.sizing.block import blocks_of
from rightsizer.sizing.estimate import MemoryEstimate
from rightsizer.sizing.image_activations import (
    convolution_training_bytes,
    denoiser_block,
    denoiser_tokens,
    recommender_bytes,
)
from rightsizer.sizing.memory_error import error_factor
from rightsizer.sizing.memory_settings import MemorySettings
from rightsizer.sizing.models import (
    ConvolutionalNetwork,
    Diffusion,
    Recommender,
    Transformer,
    VisionTransformer,
)
from rightsizer.sizing.overhead import communication_bytes
from rightsizer.sizing.parameters import count_parameters
from rightsizer.sizing.requirement import Optimizer, Parallelism, Requirement, Task, Training
from rightsizer.sizing.serving_memory import dequantized_bytes
from rightsizer.sizing.training_state import base_format, training_state

__all__ = ["training_memory"]

_FREES_GRADIENTS = frozenset({Optimizer.ADAMW_BF16, Optimizer.ADAMW_8BIT})
"""Run in plain PyTorch, where gradients go with each step; mixed precision (Megatron, DeepSpeed)
keeps their buffers."""


def training_memory(
    requirement: Requirement, layout: Parallelism, settings: MemorySettings
) -> MemoryEstimate:
    """The peak of a step on the fullest GPU of a layout.

    Gradients that a framework makes anew in each backward pass grow as activations go, so both are
    never there in full. They are told in full, and activations by what they need beyond.
    """
    count = count_parameters(requirement.model)
    state = training_state(requirement, count, layout)
    activations = _activations(requirement, layout, settings)
    if _gradients_stay(requirement.training, layout):
        peak = max(activations.first, activations.last)
    else:
        peak = max(activations.first - state.gradients_bytes, activations.last)
    if requirement.task is not Task.TRAINING:
        peak += dequantized_bytes(count, base_format(requirement), layout)
    fragments = settings.fragmentation_ratio * (peak + state.gathered_bytes)
    return MemoryEstimate(
        weights_bytes=state.weights_bytes,
        activations_bytes=peak,
        gradients_bytes=state.gradients_bytes,
        optimizer_bytes=state.optimizer_bytes,
        overhead_bytes=settings.context_bytes
        + communication_bytes(layout, settings, trains=True)
        + state.gathered_bytes
        + fragments,
        error_factor=error_factor(requirement),
    )


def _gradients_stay(training: Training, layout: Parallelism) -> bool:
    """Whether they are there while the next backward pass begins."""
    if training.optimizer not in _FREES_GRADIENTS:
        return True
    at_once = training.micro_batch * layout.data
    return training.global_batch is not None and training.global_batch > at_once


def _activations(
    requirement: Requirement, layout: Parallelism, settings: MemorySettings
) -> TrainingActivations:
    model, training = requirement.model, requirement.training
    form = requirement.precision.activations
    frozen = _frozen(requirement)
    images = float(training.micro_batch)
    match model:
        case Transformer():
            return training_activations(blocks_of(model), training, form, layout, frozen)
        case VisionTransformer():
            patches = replace(training, sequence=model.tokens)
            return training_activations(blocks_of(model), patches, form, layout, frozen)
        case Diffusion():
            positions = round(denoiser_tokens(replace(model, guided=False)))
            latents = replace(training, sequence=positions)
            return training_activations((denoiser_block(model),), latents, form, layout, frozen)
        case ConvolutionalNetwork():
            kept = convolution_training_bytes(model, form, images)
            workspace = min(settings.convolution_workspace_bytes, kept)
            return TrainingActivations(kept, workspace, workspace)
        case Recommender():
            rows = recommender_bytes(model, images, trains=True)
            return TrainingActivations(rows, 0.0, 0.0)


def _frozen(requirement: Requirement) -> FrozenBase | None:
    if requirement.task is Task.TRAINING:
        return None
    copies = base_format(requirement).is_dequantized_whole
    return FrozenBase(requirement.lora.targets, copies_inputs=copies)
