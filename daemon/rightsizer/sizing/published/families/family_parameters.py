"""How many parameters a Hugging Face model has, to the last bias."""

from rightsizer.sizing.models import Transformer
from rightsizer.sizing.parameters import (
    count_parameters,
    ffn_width,
    head_dimension,
    key_value_heads,
)
from rightsizer.sizing.published.configuration import Configuration
from rightsizer.sizing.published.families.family import Family
from rightsizer.sizing.published.families.mixture_shape import shared_width

__all__ = ["family_parameters"]


def family_parameters(shape: Transformer, config: Configuration, family: Family) -> float:
    """The count of a shape's matrices, with the norms, biases and positions of its family."""
    matrices = count_parameters(shape).total - (2 * shape.layers + 1) * shape.hidden
    layer = _norms(shape, config, family) + _attention_bias(shape, config, family)
    total = matrices + shape.layers * layer + _ffn_bias(shape, config, family)
    total += _shared_rest(shape, config, family) + _ends(shape, config, family)
    return float(total)


def _norms(shape: Transformer, config: Configuration, family: Family) -> int:
    count = family.layer_norms
    if config.text("model_type") == "falcon" and config.is_set("parallel_attn", otherwise=True):
        usual = 2 if config.is_set("new_decoder_architecture") else 1
        count = min(config.whole("num_ln_in_parallel_attn") or usual, 2)
    if config.text("model_type") == "stablelm" and config.is_set("use_parallel_residual"):
        count = 1
    whole = 0
    if family.norms_whole_projections:  # Beside one norm of a head for each of the two.
        heads = shape.heads + key_value_heads(shape)
        whole = (heads - 2) * head_dimension(shape)
    return count * _norm(shape, config, family) + whole


def _norm(shape: Transformer, config: Configuration, family: Family) -> int:
    """Of one norm; a configuration may add a bias to all, or leave them without any weight."""
    if not config.is_set("layer_norm_elementwise_affine", otherwise=True):
        return 0
    vectors = 2 if config.is_set("norm_bias") else family.norm_vectors
    return vectors * shape.hidden


def _says(config: Configuration, family: Family, switch: str) -> bool:
    """Whether a family has a bias: always, or where its configuration says so."""
    if switch == "all":
        return True
    return bool(switch) and config.is_set(switch, otherwise=switch in family.switched_on)


def _attention_bias(shape: Transformer, config: Configuration, family: Family) -> int:
    """Of queries, keys, values and the output.

    Where a family always has the first three alone, they are counted with the shape.
    """
    queries = shape.heads * head_dimension(shape)
    keys = key_value_heads(shape) * head_dimension(shape)
    sinks = shape.heads if config.text("model_type") == "gpt_oss" else 0
    if family.attention_bias == "qkv" or not _says(config, family, family.attention_bias):
        return sinks
    if shape.kv_lora_rank:
        # Of what compresses and of the output; what expands has none.
        compressed = shape.kv_lora_rank + shape.rope_head_dim
        return (shape.query_lora_rank or 0) + compressed + shape.hidden
    output = shape.hidden if family.has_output_bias else 0
    return queries + 2 * keys + output + sinks


def _ffn_bias(shape: Transformer, config: Configuration, family: Family) -> int:
    """Of all layers, with the router's and the gate of experts that every token passes."""
    count, mixed = 0, _mixed_layers(shape)
    if _says(config, family, family.ffn_bias):
        inner = 2 if shape.gated_ffn else 1
        dense = inner * (shape.dense_ffn or ffn_width(shape)) + shape.hidden
        count += (shape.layers - mixed) * dense
        count += mixed * _experts_bias(shape, family, inner)
    if config.whole("shared_expert_intermediate_size"):
        count += (mixed or shape.layers) * shape.hidden
    if family.has_router_bias:
        count += (shape.layers - shape.dense_layers) * shape.experts
    return count


def _experts_bias(shape: Transformer, family: Family, inner: int) -> int:
    """Of one layer: all have one where the family always does, else what each token passes."""
    if family.ffn_bias == "all":
        return shape.experts * (inner * ffn_width(shape) + shape.hidden + 1)
    shared = shape.shared_experts * ffn_width(shape)
    return inner * shared + shape.hidden if shared else 0


def _mixed_layers(shape: Transformer) -> int:
    return shape.layers - shape.dense_layers if shape.experts > 1 else 0


def _shared_rest(shape: Transformer, config: Configuration, family: Family) -> int:
    """Of all layers, what every token passes beyond a whole number of experts."""
    mixed, width = _mixed_layers(shape), ffn_width(shape)
    if not mixed:
        return 0
    rest = shared_width(config, family, shape.layers, width) - shape.shared_experts * width
    return mixed * (3 if shape.gated_ffn else 2) * shape.hidden * rest


def _ends(shape: Transformer, config: Configuration, family: Family) -> int:
    """What stands before the first layer and after the last."""
    norm = _norm(shape, config, family)
    count = norm if family.has_final_norm and _keeps_final_norm(config) else 0
    count += norm if family.has_embedding_norm else 0
    count += shape.vocab if _says(config, family, family.head_bias) else 0
    if family.positions:
        places = config.whole(family.positions) or 0
        count += (places + family.position_offset) * shape.hidden
    if family.is_encoder:
        count += (config.whole("type_vocab_size") or 0) * shape.hidden
    pooled = config.whole("projection_size") or shape.hidden
    count += pooled * (shape.hidden + 1) if family.has_pooler else 0
    return count - _narrowing(shape, config, family)


def _keeps_final_norm(config: Configuration) -> bool:
    """Whether layers that normalize what they see leave what comes out to a last norm."""
    is_removed = config.is_set("_remove_final_layer_norm")
    return config.is_set("do_layer_norm_before", otherwise=True) and not is_removed


def _narrowing(shape: Transformer, config: Configuration, family: Family) -> int:
    """What an embedding narrower than the layers saves, its projections taken off."""
    width = config.whole(family.embedding) or shape.hidden
    saved = shape.hidden - width
    if not saved:
        return 0
    if not family.is_encoder:  # OPT alone: projected in and out.
        return shape.vocab * saved - 2 * width * shape.hidden
    places = (config.whole(family.positions) or 0) + (config.whole("type_vocab_size") or 0)
    rows = shape.vocab + places + family.norm_vectors
    return rows * saved - (width + 1) * shape.hidden
