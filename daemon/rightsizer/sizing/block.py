"""The widths of a layer, which its activations go by."""

from dataclasses import dataclass, replace

from rightsizer.sizing.layer_kind import LayerKind
from rightsizer.sizing.models import Transformer, VisionTransformer
from rightsizer.sizing.parameters import ffn_width, head_dimension, key_value_heads

__all__ = ["Block", "blocks_of"]


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
    parts: int = 2
    """Each with a norm and a residual: attention and the feed-forward part, mostly."""
    recurrent_inputs: float = 0.0
    """Of a recurrent mixer, as its first projections make them."""
    recurrent_width: float = 0.0
    """What the recurrence makes of these."""


def _block_of(model: Transformer | VisionTransformer) -> Block:
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


def blocks_of(model: Transformer | VisionTransformer) -> tuple[Block, ...]:
    """The widths of each kind of layers that a model has."""
    whole = _block_of(model)
    if isinstance(model, VisionTransformer) or not model.layer_kinds:
        return (whole,)
    return tuple(_of_kind(whole, kind) for kind in model.layer_kinds)


def _of_kind(whole: Block, kind: LayerKind) -> Block:
    attends, feeds = kind.has_attention, kind.has_feed_forward
    return replace(
        whole,
        queries=whole.queries if attends else 0.0,
        keys=whole.keys if attends else 0.0,
        heads=whole.heads if attends else 0,
        ffn=whole.ffn if feeds else 0.0,
        experts_per_token=whole.experts_per_token if feeds else 1,
        layers=kind.layers,
        parts=kind.parts,
        recurrent_inputs=float(kind.recurrent_inputs),
        recurrent_width=float(kind.recurrent_width),
    )
