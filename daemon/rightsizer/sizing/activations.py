"""Activations on one GPU: transformers by layer widths, images, recommenders."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from msgspec import Struct

from rightsizer.sizing.models import (
    ConvolutionalNetwork,
    Diffusion,
    ImageNetwork,
    LayeredModel,
    RecommenderModel,
    VisionTransformer,
)
from rightsizer.sizing.parameters import NumberFormat
from rightsizer.sizing.requirement import Parallelism, Recompute, Training

_SAMPLING_BYTES: Final = 12.0
"""Per logit while sampling: fp32 logits, their sorted copy, probabilities."""
_LOSS_BYTES: Final = 12.0
"""Per logit of unfused cross entropy in eager mode: fp32 logits, log-probabilities, gradient."""
_MASK_BYTES: Final = 1.0
"""Per element of a stored dropout mask."""
_COPY_BYTES: Final = 4.0
"""Per element of an adapter's input in fp32."""
_NORM_BYTES: Final = 4.0
"""Per element that a norm stores in fp32 for the backward pass."""
_SCORE_BYTES: Final = 5.0
"""Per materialized attention score: input and output in 16 bits and the dropout mask
(arXiv:2205.05198, section 4.1)."""
_PIXELS: Final = 224.0**2
_OUTPUTS: Final = 6.5e6
"""Output elements of all convolutions for a 224-pixel image at one GFLOP. Scaled by the cube root
of the FLOPs, it matches the published counts of MobileNetV2 (6.7 M at 0.6), EfficientNet-B0 (6.7 M
at 0.8), ResNet-50 (11.1 M at 8.2) and ResNet-152 (22.6 M at 23) within a quarter."""
_KEPT_COPIES: Final = 2.4
"""Tensors kept for each of these elements, between two (outputs of convolution and of norm, where
ReLU works in place: 45 MB for each of 256 images of ResNet-50 in 16 bits, measured on an H100) and
three (of the activation as well)."""
CONVOLUTION_LIVE_SHARE: Final = 1 / 9
"""Memory live in a forward pass, as a fraction of the activations kept in training: input, output
and workspace of the widest layer."""
_DECODER_CHANNELS: Final = 1280.0
"""Elements live per pixel at the peak of a latent decoder: input of its last block (256 channels),
output (128), fp32 copy of the norm, and workspace of the convolution."""
_ASPECT: Final = 128.0
"""Usual ratio of hidden width to number of layers in transformers."""
_HEAD_DIM: Final = 64.0


class LayerBlock(Struct, frozen=True):
    """Widths of one layer, in elements per token."""

    hidden: float
    queries: float
    """All heads together; likewise for keys, which are as wide as values."""
    keys: float
    heads: int
    ffn: float
    """All experts used by one token."""
    is_gated: bool
    experts_per_token: int = 1
    vocab: int = 0
    layers: int = 1
    parts: int = 2
    """Each with a norm and a residual: usually attention and the feed-forward part."""
    recurrent_inputs: float = 0.0
    """Elements produced by the first projections of a recurrent mixer."""
    recurrent_width: float = 0.0
    """Elements produced by the recurrence."""


@lru_cache
def blocks_of(model: LayeredModel) -> tuple[LayerBlock, ...]:
    """Widths of each kind of layer in a model."""
    if isinstance(model, VisionTransformer):
        ffn = float(model.ffn or 4 * model.hidden)
        return (_plain_block(float(model.hidden), model.heads, ffn, model.layers),)
    width = model.head_width
    value_width = model.value_head_dim or width
    keys = model.heads if model.kv_lora_rank else model.key_value_heads
    experts = model.experts_per_token + model.shared_experts if model.experts > 1 else 1
    dense = (model.dense_ffn or model.ffn_width) if model.dense_layers else 0
    return tuple(
        LayerBlock(
            hidden=float(model.hidden),
            queries=float(model.heads * (width + model.rope_head_dim)) * kind.has_attention,
            keys=float(keys * max(value_width, width)) * kind.has_attention,
            heads=model.heads * kind.has_attention,
            ffn=float(max(model.ffn_width * experts, dense)) * kind.has_feed_forward,
            is_gated=model.gated_ffn,
            experts_per_token=experts if kind.has_feed_forward else 1,
            vocab=model.vocab,
            layers=kind.layers,
            parts=kind.parts,
            recurrent_inputs=float(kind.recurrent_inputs),
            recurrent_width=float(kind.recurrent_width),
        )
        for kind in model.kinds
    )


def _plain_block(hidden: float, heads: int, ffn: float, layers: int) -> LayerBlock:
    return LayerBlock(hidden, hidden, hidden, heads, ffn, is_gated=False, layers=layers)


class FrozenBase(Struct, frozen=True):
    """Frozen weights with adapters in training."""

    adapted: tuple[str, ...]
    copies_inputs: bool = False
    """Whether each matrix stores its own input in 16 bits, as in bitsandbytes."""
    copies_for_adapters: bool = False
    """Whether each adapter stores its own input in fp32, as in peft."""


class TrainingActivations(Struct, frozen=True):
    """Memory of activations at possible peaks in training, in bytes on one GPU."""

    kept: float
    """From forward to backward pass, all layers and microbatches in flight."""
    working: float
    """For the layer in its backward pass; when it ends all gradients exist."""
    loss: float
    """Logits and memory for their gradient."""
    recomputed: float = 0.0
    """For that layer, beyond its kept activations."""

    @property
    def first(self) -> float:
        """Memory at the start of the backward pass, when all kept activations exist."""
        return self.kept + max(self.loss, self.recomputed)


def passing_bytes(
    blocks: Sequence[LayerBlock], number_format: NumberFormat, layout: Parallelism
) -> tuple[float, float]:
    """Peak of one forward pass: by token residual streams and the widest part, by row its logits.

    In a mixture of experts, tokens are copied once per expert they use.
    """
    elements = max(_passing_elements(block, layout) for block in blocks)
    logits = max(block.vocab for block in blocks)
    return elements * number_format.bytes_per_parameter, logits * _SAMPLING_BYTES


def _passing_elements(block: LayerBlock, layout: Parallelism) -> float:
    """Elements per token in one layer; a recurrence holds its convolved input, output and gate."""
    matrices = 3 if block.is_gated else 2
    copies = block.experts_per_token if block.experts_per_token > 1 else 0
    recurrent = block.recurrent_inputs + 2 * block.recurrent_width
    widest = max(matrices * block.ffn, 2 * block.queries + 2 * block.keys, recurrent)
    return (2 + copies) * block.hidden + widest / layout.tensor


def training_activations(
    blocks: Sequence[LayerBlock],
    training: Training,
    number_format: NumberFormat,
    layout: Parallelism,
    frozen: FrozenBase | None = None,
) -> TrainingActivations:
    """Activations that one GPU keeps for the backward pass.

    With tensor parallelism, the parts between parallel regions are divided along the sequence
    (sequence parallelism, arXiv:2205.05198, section 4.2.2), as in Megatron and torchtitan.
    The first stage of a pipeline (1F1B) holds as many microbatches as there are stages.
    """
    activationses = [
        _layer_activations(block, training, number_format, layout, frozen) for block in blocks
    ]
    tokens = float(training.micro_batch * training.sequence)
    vocab = max(block.vocab for block in blocks)
    loss = 0.0 if training.has_chunked_loss else _LOSS_BYTES * vocab * tokens
    return TrainingActivations(
        kept=sum(one.kept for one in activationses),
        working=max(one.working for one in activationses),
        loss=loss / (layout.tensor if training.has_split_loss else 1),
        recomputed=max(one.recomputed for one in activationses),
    )


def _layer_activations(
    block: LayerBlock,
    training: Training,
    number_format: NumberFormat,
    layout: Parallelism,
    frozen: FrozenBase | None,
) -> TrainingActivations:
    """Activations of layers of one kind, without the loss."""
    tokens = float(training.micro_batch * training.sequence)
    element = number_format.bytes_per_parameter
    base = _layer_bytes(block, element, frozen)
    scores = _SCORE_BYTES * block.heads * training.sequence
    whole = base if training.flash_attention else base + scores
    kept = whole
    beside = 0.0
    if training.recompute is Recompute.SELECTIVE:
        kept = beside = _selected_bytes(block, training, base, element)
    elif training.recompute is Recompute.FULL:
        kept = block.hidden * element
    in_flight = float(layout.pipeline)
    if training.global_batch is not None:
        batches = training.global_batch / (training.micro_batch * layout.data)
        in_flight = min(in_flight, max(1.0, batches))
    layers = block.layers / layout.pipeline * in_flight
    # With sequence parallelism, each part gathers its whole input and the gradient of its input.
    gathered = 2 * block.hidden * element * tokens if layout.tensor > 1 else 0.0
    return TrainingActivations(
        kept=layers * tokens * kept / layout.tensor,
        working=tokens * whole / layout.tensor + gathered,
        loss=0.0,
        recomputed=tokens * (whole - beside) / layout.tensor + gathered if kept < whole else 0.0,
    )


def _layer_bytes(block: LayerBlock, element: float, frozen: FrozenBase | None) -> float:
    """Bytes per token in one layer, without materialized attention scores.

    Llama's block is counted per operation, as stored by PyTorch: input and output of the first
    norm, queries, keys, values, rotated queries and keys, output of attention, the same for the
    second norm, and four times the feed-forward width (gate, its activation, up, their product);
    plus fp32 copies in both norms and a log-sum-exp per head. A frozen matrix does not store its
    input for the backward pass, unless it has an adapter.

    GPT's block has 34 bytes per hidden element in 16 bits (arXiv:2205.05198, section 4.1). The
    paper omits framework overhead. With adapters, that overhead offsets the savings of frozen
    matrices (measured peaks of phi-1.5).
    """
    hidden = block.hidden
    ffn = block.ffn
    normed = block.parts * block.hidden
    # For a recurrence: output of the projections, output of the recurrence, and that gated. Mamba's
    # fused kernels keep nothing else, and repeat the convolution in the backward pass.
    elements = 2 * normed + block.recurrent_inputs + 2 * block.recurrent_width
    if block.is_gated:
        elements += 3 * block.queries + 3 * block.keys + 4 * ffn
        beside = _NORM_BYTES * normed + 4 * block.heads
        if frozen is not None and ffn:
            stored = () if frozen.copies_for_adapters else frozen.adapted
            elements -= 0.0 if "down" in stored else ffn
            elements -= 0.0 if {"gate", "up"} & set(stored) else hidden
    else:
        elements += 2 * block.queries + 2 * block.keys + 2 * ffn
        beside = _MASK_BYTES * normed
    if frozen is not None and frozen.copies_for_adapters:
        widths = {"o": block.queries, "down": ffn, "head": 0.0}
        beside += _COPY_BYTES * sum(widths.get(target, hidden) for target in frozen.adapted)
    if frozen is not None and frozen.copies_inputs:
        # Inputs of the matrices of mixers and of the feed-forward part.
        mixers = (block.queries > 0) + (block.recurrent_inputs > 0)
        entering = mixers + (0 if not ffn else 2 if block.is_gated else 1)
        elements += entering * hidden + block.queries + block.recurrent_width + ffn
    return element * elements + beside


def _selected_bytes(block: LayerBlock, training: Training, base: float, element: float) -> float:
    """Bytes per token in one layer kept with selective recomputation.

    For GPT's block, all except the attention scores. For a gated block with flash attention, which
    has no scores, the tensors kept by PyTorch's selective checkpointing: the input of the layer and
    the outputs of attention and of every second matrix (queries, values, gate, down).
    """
    if not (block.is_gated and training.flash_attention):
        return base
    elements = block.parts * block.hidden + 2 * block.queries + block.keys + block.ffn
    elements += block.recurrent_inputs
    return min(base, element * elements + 4 * block.heads)


def convolution_training_bytes(
    model: ConvolutionalNetwork, number_format: NumberFormat, images: float
) -> float:
    """Bytes kept for the backward pass of a batch: as given, else estimated from the FLOPs."""
    kept = model.activation_bytes
    if kept is None:
        kept = layer_outputs(model) * _KEPT_COPIES * 2.0
    return images * (number_format.bytes_per_parameter / 2.0) * kept


def layer_outputs(model: ImageNetwork) -> float:
    """Elements of all products' outputs of an image: as given, of the shape, or by the FLOPs.

    Attention scores and what they weigh are among them, as pytorch-image-models counts.
    """
    if isinstance(model, VisionTransformer):
        ffn = model.ffn or 4 * model.hidden
        layer = 6 * model.hidden + ffn + model.heads * model.tokens
        return float(model.tokens * (model.layers * layer + model.hidden))
    if model.outputs is not None:
        return model.outputs
    pixels = model.image**2 / _PIXELS
    at_224 = model.forward_flops / 1e9 / pixels
    return float(pixels * _OUTPUTS * at_224 ** (1 / 3))


def decoder_peak_bytes(model: Diffusion, number_format: NumberFormat, images: float) -> float:
    """Memory to decode latents into pixels, often the peak of the whole pipeline.

    Videos are decoded one latent frame at a time.
    """
    pixels = images * model.image**2 * min(model.frames, model.frame_scale)
    return pixels * _DECODER_CHANNELS * number_format.bytes_per_parameter


def denoiser_tokens(model: Diffusion) -> float:
    """Positions in one denoising step, including both halves of guidance."""
    side = model.image / (model.latent_scale * model.latent_patch)
    return side**2 * model.latent_frames * (2.0 if model.guided else 1.0)


def denoiser_block(model: Diffusion) -> LayerBlock:
    """Widths as given, else of a transformer with as many parameters.

    A layer has 12 times the squared width.
    """
    hidden = float(model.hidden or (model.parameters * _ASPECT / 12.0) ** (1 / 3))
    heads, layers = (max(1, round(hidden / divisor)) for divisor in (_HEAD_DIM, _ASPECT))
    layers = model.layers or layers
    return _plain_block(hidden, heads, 4 * hidden, layers)


def recommender_bytes(model: RecommenderModel, samples: float, *, trains: bool) -> float:
    """Looked-up rows and outputs of the dense part in fp32; for training also their gradients."""
    width = model.lookups * model.embedding_width + float(model.dense_parameters**0.5)
    return samples * width * 4.0 * (2.0 if trains else 1.0)
