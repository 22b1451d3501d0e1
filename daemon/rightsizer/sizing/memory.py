"""Memory needed on the fullest GPU of a layout in training: state and activations."""

from typing import Final

from msgspec.structs import replace

from rightsizer.sizing.activations import (
    FrozenBase,
    TrainingActivations,
    blocks_of,
    convolution_training_bytes,
    denoiser_block,
    denoiser_tokens,
    recommender_bytes,
    training_activations,
)
from rightsizer.sizing.estimate import joint_error_factor
from rightsizer.sizing.memory_estimate import (
    MemoryEstimate,
    communication_bytes,
    headroom_bytes,
    memory_error_factor,
    usable_bytes,
)
from rightsizer.sizing.models import (
    ConvolutionalNetwork,
    Diffusion,
    LayeredModel,
    RecommenderModel,
    Transformer,
    VisionTransformer,
)
from rightsizer.sizing.parameters import (
    NumberFormat,
    ParameterCount,
    count_parameters,
    expert_parameters,
)
from rightsizer.sizing.requirement import (
    ModelTask,
    Offload,
    Optimizer,
    Parallelism,
    Requirement,
)
from rightsizer.sizing.serving_memory import (
    adapter_parameters,
    dequantized_bytes,
    placed_parameters,
    weight_bytes,
)
from rightsizer.sizing.settings import MemorySettings

_MASTER_BYTES: Final = 4.0
_STATE_BYTES: Final = {
    Optimizer.ADAMW: 8.0,
    Optimizer.ADAMW_BF16: 4.0,
    Optimizer.ADAMW_8BIT: 2.0,
    Optimizer.SGD: 4.0,
}
"""Per parameter: two moments (arXiv:1910.02054, section 3.1), or one for momentum alone."""
_WITH_MASTER: Final = frozenset({Optimizer.ADAMW, Optimizer.SGD})
"""These keep an fp32 copy of 16-bit weights."""
_ROW_STATE_BYTES: Final = 4.0
"""Per embedding row with row-wise AdaGrad, usual for recommenders."""
_SHARDS_OPTIMIZER: Final = 1
_SHARDS_GRADIENTS: Final = 2
_RESIDENT_LAYERS: Final = 2

_State = tuple[float, float, float, float]
"""Bytes of weights, gradients and optimizer on the fullest GPU of a layout, and bytes gathered and
reduced at a time in fully sharded training."""
_FREES_GRADIENTS = frozenset({Optimizer.ADAMW_BF16, Optimizer.ADAMW_8BIT})
"""Used in plain PyTorch, which frees gradients in each step; mixed precision (Megatron, DeepSpeed)
keeps their buffers."""
_DEFAULTS = MemorySettings()


def _base_format(requirement: Requirement) -> NumberFormat:
    """Format of the weights in training, or of the frozen weights with adapters.

    Training in fp8 or fp4 keeps its weights in 16 bits and multiplies copies. QLoRA uses doubly
    quantized nf4 (arXiv:2305.14314) unless a quantized format is requested.
    """
    asked = requirement.precision.weights
    if requirement.task is ModelTask.FINETUNE_QLORA and not asked.is_quantized:
        return NumberFormat.NF4_DOUBLE_QUANTIZED
    if requirement.task is ModelTask.TRAINING and asked.is_quantized:
        return NumberFormat.BF16
    return asked


def _state(requirement: Requirement, count: ParameterCount, layout: Parallelism) -> _State:
    """State of all weights, or of adapters (16 bytes per parameter with AdamW) and frozen ones."""
    training = requirement.training
    model = requirement.model
    base = _base_format(requirement)
    is_whole = requirement.task is ModelTask.TRAINING
    ranks = layout.data
    stage = training.zero_stage
    trained = base if is_whole else NumberFormat.BF16
    element = (requirement.precision.gradients or trained).bytes_per_parameter
    state = _STATE_BYTES[training.optimizer]
    rows = 0.0
    adapters = 0.0
    if training.optimizer in _WITH_MASTER and trained is not NumberFormat.FP32:
        state += _MASTER_BYTES
    if not is_whole:
        adapters = adapter_parameters(model, requirement.lora) / layout.tensor / layout.pipeline
        changed = adapters
    elif isinstance(model, RecommenderModel):
        # Gradients of embeddings are sparse; their state is one number per row.
        changed = model.dense_parameters / layout.tensor
        rows = model.embedding_rows * _ROW_STATE_BYTES / layout.tensor
    else:
        changed = placed_parameters(model, count, layout)
    in_experts = 0.0
    if layout.expert > 1 and isinstance(model, Transformer):
        in_experts = expert_parameters(model, count) / (count.layers or 1.0)
    gathered = 0.0
    shards = ranks if training.is_fully_sharded else 1
    if shards > 1:
        unit = count.largest_unit / layout.tensor
        times = 2 * base.bytes_per_parameter
        unit *= _spread(in_experts, 1, layout.expert)
        # Two units are gathered, one ahead; one unit's gradients are reduced in fp32 beside its
        # own.
        gathered = unit * (times + (_MASTER_BYTES if is_whole else 0.0))
    weights = weight_bytes(model, count, base, replace(layout, expert=1))
    reduced = ranks if is_whole and stage >= _SHARDS_GRADIENTS else shards
    updated = ranks if is_whole and stage >= _SHARDS_OPTIMIZER else shards
    in_trained = in_experts if is_whole else 0.0
    return (
        weights * _spread(in_experts, shards, layout.expert)
        + adapters * trained.bytes_per_parameter / shards,
        changed * element * _spread(in_trained, reduced, layout.expert),
        (changed * state + rows) * _spread(in_trained, updated, layout.expert),
        gathered,
    )


def _spread(in_experts: float, shards: int, replicas: int) -> float:
    """Share of a state that a GPU holds: sharded, and of experts one part of what replicas share.

    Experts are sharded over the replicas that hold the same ones, so full sharding divides all
    alike. `in_experts` is the experts' share of the parameters.
    """
    return (1.0 - in_experts) / shards + in_experts / max(shards, replicas)


def training_memory(
    requirement: Requirement, layout: Parallelism, settings: MemorySettings
) -> MemoryEstimate:
    """Peak of a step on the fullest GPU of a layout.

    Gradients allocated anew in each backward pass grow as activations are freed, so both are
    never complete at once. Gradients are counted in full, activations by their excess.
    """
    model = requirement.model
    training = requirement.training
    count = count_parameters(model)
    is_whole = requirement.task is ModelTask.TRAINING
    weights, gradients, optimizer, gathered = _state(requirement, count, layout)
    activations = _activations(requirement, layout, settings)
    if training.offload is Offload.OPTIMIZER:
        optimizer = 0.0
    elif training.offload is Offload.ACTIVATIONS and isinstance(model, LayeredModel):
        # Two layers are resident, one computing and one in transfer.
        part = min(1.0, _RESIDENT_LAYERS * layout.pipeline / model.layers)
        activations = replace(activations, kept=activations.kept * part)
    at_once = training.micro_batch * layout.data
    accumulates = training.global_batch is not None and training.global_batch > at_once
    # Whether gradients exist while the next backward pass begins.
    stays = accumulates or training.optimizer not in _FREES_GRADIENTS
    peak = max(activations.first - (0.0 if stays else gradients), activations.working)
    if not is_whole:
        peak += dequantized_bytes(count, _base_format(requirement), layout)
    fragments = settings.fragmentation_ratio * (peak + gathered)
    buffers = communication_bytes(layout, settings, trains=True)
    estimate = MemoryEstimate(
        weights_bytes=weights,
        activations_bytes=peak,
        gradients_bytes=gradients,
        optimizer_bytes=optimizer,
        overhead_bytes=settings.context_bytes + buffers + gathered + fragments,
        outside_bytes=settings.context_bytes + buffers + fragments,
        error_factor=_error_factor(requirement, layout, settings),
    )
    framework = training.framework
    is_steady = framework is not None and framework.expands_segments
    keeps = 1.0 if is_steady else 1.0 + settings.cached_ratio
    return replace(estimate, device_bytes=estimate.total_bytes * keeps)


def _error_factor(requirement: Requirement, layout: Parallelism, settings: MemorySettings) -> float:
    is_unpacked = requirement.task is ModelTask.FINETUNE_QLORA
    return joint_error_factor(
        memory_error_factor(requirement),
        settings.several_gpus_error_factor if layout.gpus > 1 else 1.0,
        settings.unpacked_error_factor if is_unpacked else 1.0,
    )


def _activations(
    requirement: Requirement, layout: Parallelism, settings: MemorySettings
) -> TrainingActivations:
    model = requirement.model
    training = requirement.training
    number_format = requirement.precision.activations
    frozen = None
    if requirement.task is not ModelTask.TRAINING:
        copies = _base_format(requirement).is_dequantized_whole
        named = training.framework
        is_copied = named is not None and named.is_autocast
        frozen = FrozenBase(requirement.lora.targets, copies, copies_for_adapters=is_copied)
    images = float(training.micro_batch)
    match model:
        case Transformer():
            return training_activations(blocks_of(model), training, number_format, layout, frozen)
        case VisionTransformer():
            patches = replace(training, sequence=model.tokens)
            return training_activations(blocks_of(model), patches, number_format, layout, frozen)
        case Diffusion():
            positions = round(denoiser_tokens(replace(model, guided=False)))
            latents = replace(training, sequence=positions)
            return training_activations(
                (denoiser_block(model),), latents, number_format, layout, frozen
            )
        case ConvolutionalNetwork():
            kept = convolution_training_bytes(model, number_format, images)
            workspace = min(settings.convolution_workspace_bytes, kept)
            return TrainingActivations(kept, workspace, workspace)
        case RecommenderModel():
            rows = recommender_bytes(model, images, trains=True)
            return TrainingActivations(rows, 0.0, 0.0)


def available_bytes(
    requirement: Requirement, board_memory_bytes: float, settings: MemorySettings = _DEFAULTS
) -> float:
    """Part of the memory reported by NVML that a workload may use."""
    usable = usable_bytes(board_memory_bytes, settings)
    return usable - headroom_bytes(usable, requirement.task, settings)
