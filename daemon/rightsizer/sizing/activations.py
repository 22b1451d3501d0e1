"""What a transformer's activations take on one GPU: in a serving engine, and in training."""

import math
from dataclasses import dataclass
from typing import Final

from rightsizer.sizing.models import Transformer, VisionTransformer
from rightsizer.sizing.number_format import NumberFormat
from rightsizer.sizing.parameters import ffn_width, head_dimension, key_value_heads
from rightsizer.sizing.requirement import Parallelism, Recompute, Training

__all__ = [
    "Block",
    "FrozenBase",
    "TrainingActivations",
    "block_of",
    "inference_activation_bytes",
    "training_activations",
]

_SAMPLING_BYTES: Final = 12.0
"""Of one logit while a token is chosen: fp32 logits, their sorted copy, probabilities."""
_LOSS_BYTES: Final = 12.0
"""Of one logit in plain cross entropy, run eagerly: fp32 logits, log-probabilities, gradient."""
_MASK_BYTES: Final = 1.0
"""Of one element that dropout remembers."""
_NORM_BYTES: Final = 4.0
"""Of one element that a norm keeps in fp32 for the backward pass."""
_SCORE_BYTES: Final = 5.0
"""Of one attention score that is written out: its input and output in 16 bits and dropout's mask
(arXiv:2205.05198, section 4.1)."""


@dataclass(frozen=True, slots=True)
class Block:
    """The widths of one layer, in elements of one token."""

    hidden: float
    queries: float
    """All heads together; so of keys, which are as wide as the values."""
    keys: float
    heads: int
    ffn: float
    """Of all experts that one token passes."""
    is_gated: bool
    experts_per_token: int = 1
    vocab: int = 0
    layers: int = 1


@dataclass(frozen=True, slots=True)
class FrozenBase:
    """Weights that adapters are trained beside."""

    adapted: tuple[str, ...]
    """Matrices that have an adapter."""
    copies_inputs: bool = False
    """Whether each matrix keeps its input in 16 bits for itself, as bitsandbytes does."""


@dataclass(frozen=True, slots=True)
class TrainingActivations:
    """When memory peaks in training, on one GPU in bytes."""

    kept: float
    """From the forward pass to the backward pass, all layers and microbatches in flight."""
    working: float
    """Of the one layer whose backward pass runs."""
    loss: float
    """Logits and what their gradient needs."""
    recomputed: float = 0.0
    """Of that one layer, beyond what is kept of it."""

    @property
    def first(self) -> float:
        """As the backward pass begins, when all is kept."""
        return self.kept + max(self.loss, self.recomputed)

    @property
    def last(self) -> float:
        """As it ends, when all gradients are there."""
        return self.working


def block_of(model: Transformer | VisionTransformer) -> Block:
    """The widths of a model's layers."""
    if isinstance(model, VisionTransformer):
        hidden = float(model.hidden)
        ffn = float(model.ffn or 4 * model.hidden)
        return Block(hidden, hidden, hidden, model.heads, ffn, is_gated=False, layers=model.layers)
    width = head_dimension(model)
    value_width = model.value_head_dim or width
    keys = model.heads if model.kv_lora_rank else key_value_heads(model)
    experts = model.experts_per_token + model.shared_experts if model.experts > 1 else 1
    dense = (model.dense_ffn or ffn_width(model)) if model.dense_layers else 0
    return Block(
        hidden=float(model.hidden),
        queries=float(model.heads * (width + model.rope_head_dim)),
        keys=float(keys * max(value_width, width)),
        heads=model.heads,
        ffn=float(max(ffn_width(model) * experts, dense)),
        is_gated=model.gated_ffn,
        experts_per_token=experts,
        vocab=model.vocab,
        layers=model.layers,
    )


def inference_activation_bytes(
    block: Block,
    number_format: NumberFormat,
    layout: Parallelism,
    tokens: float,
    sampled_rows: float,
) -> float:
    """The peak of one forward pass: residual streams, feed-forward part, and sampled logits.

    Tokens of a mixture of experts are copied once for each expert that they pass.
    """
    parts = 3 if block.is_gated else 2
    copies = block.experts_per_token if block.experts_per_token > 1 else 0
    widest = max(parts * block.ffn, 2 * block.queries + 2 * block.keys)
    elements = (2 + copies) * block.hidden + widest / layout.tensor
    streams = tokens * elements * number_format.bytes_per_parameter
    return streams + sampled_rows * block.vocab * _SAMPLING_BYTES


def training_activations(
    block: Block,
    training: Training,
    number_format: NumberFormat,
    layout: Parallelism,
    frozen: FrozenBase | None = None,
) -> TrainingActivations:
    """What one GPU keeps for the backward pass.

    With tensor parallelism what lies between the parallel parts is divided along the sequence too
    (sequence parallelism, arXiv:2205.05198, section 4.2.2), as Megatron and torchtitan do.
    The first stage of a pipeline (1F1B) holds as many microbatches as there are stages.
    """
    tokens = float(training.micro_batch * training.sequence)
    element = number_format.bytes_per_parameter
    base = _layer_bytes(block, element, frozen)
    whole = base if training.flash_attention else base + _score_bytes(block, training)
    kept = {
        Recompute.NONE: whole,
        Recompute.SELECTIVE: _selected_bytes(block, training, base, element),
        Recompute.FULL: block.hidden * element,
    }[training.recompute]
    beside = kept if training.recompute is Recompute.SELECTIVE else 0.0
    in_flight = min(layout.pipeline, _microbatches(training, layout))
    layers = block.layers / layout.pipeline * in_flight
    # With sequence parallelism each part gathers its whole input, and the input's gradient.
    gathered = 2 * block.hidden * element * tokens if layout.tensor > 1 else 0.0
    loss = 0.0 if training.fused_loss else _LOSS_BYTES * block.vocab * tokens
    return TrainingActivations(
        kept=layers * tokens * kept / layout.tensor,
        working=tokens * whole / layout.tensor + gathered,
        loss=loss / layout.tensor,
        recomputed=tokens * (whole - beside) / layout.tensor + gathered if kept < whole else 0.0,
    )


def _microbatches(training: Training, layout: Parallelism) -> float:
    if training.global_batch is None:
        return math.inf
    return max(1.0, training.global_batch / (training.micro_batch * layout.data))


def _layer_bytes(block: Block, element: float, frozen: FrozenBase | None) -> float:
    """Of one token in one layer, but for attention scores that are written out."""
    count = _gated_elements if block.is_gated else _plain_elements
    elements = count(block, frozen)
    if frozen is not None and frozen.copies_inputs:
        elements += _matrix_inputs(block)
    beside = 2 * _NORM_BYTES * block.hidden + 4 * block.heads
    return element * elements + (beside if block.is_gated else 2 * _MASK_BYTES * block.hidden)


def _score_bytes(block: Block, training: Training) -> float:
    """Of one token in one layer."""
    return _SCORE_BYTES * block.heads * training.sequence


def _matrix_inputs(block: Block) -> float:
    """What enters the matrices of a layer: attention's, its output's, the feed-forward part's."""
    entering = 3 if block.is_gated else 2
    return entering * block.hidden + block.queries + block.ffn


def _gated_elements(block: Block, frozen: FrozenBase | None) -> float:
    """Llama's block, counted operation by operation as PyTorch keeps it.

    Input and output of the first norm, queries, keys, values, rotated queries and keys, attention's
    output, the same of the second norm, and four times the feed-forward width (gate, its
    activation, up, their product); fp32 copies in both norms and a log-sum-exp of each head come
    on top. A frozen matrix needs no input for the backward pass, unless an adapter beside it does.
    """
    elements = 4 * block.hidden + 3 * block.queries + 3 * block.keys + 4 * block.ffn
    if frozen is not None:
        elements -= 0.0 if "down" in frozen.adapted else block.ffn
        elements -= 0.0 if {"gate", "up"} & set(frozen.adapted) else block.hidden
    return elements


def _plain_elements(block: Block, _: FrozenBase | None) -> float:
    """GPT's block: 34 bytes of each hidden element in 16 bits (arXiv:2205.05198, section 4.1).

    The paper leaves out what frameworks keep for themselves. With adapters that makes up for what
    frozen matrices do not need (peaks of phi-1.5, as measured).
    """
    return 4 * block.hidden + 2 * block.queries + 2 * block.keys + 2 * block.ffn


def _selected_bytes(block: Block, training: Training, base: float, element: float) -> float:
    """What selective recomputation keeps of one token in one layer.

    Of GPT's block all but the attention scores. Of a gated block with flash attention, where there
    are no scores, what PyTorch's selective checkpointing keeps: the layer's input, the outputs of
    attention and of every second matrix (queries, values, gate, down).
    """
    if not (block.is_gated and training.flash_attention):
        return base
    elements = 2 * block.hidden + 2 * block.queries + block.keys + block.ffn
    return min(base, element * elements + 4 * block.heads)
