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

__all__ = ["family_parameters"]


def family_parameters(shape: Transformer, config: Configuration, family: Family) -> float:
    """The count of a shape's matrices, with the norms, biases and positions of its family."""
    matrices = count_parameters(shape).total - (2 * shape.layers + 1) * shape.hidden
    layer = _norms(shape, config, family) + _attention_bias(shape, config, family)
    total = matrices + shape.layers * layer + _ffn_bias(shape, config, family)
    total += _ends(shape, config, family)
    return float(total)


def _norms(shape: Transformer, config: Configuration, family: Family) -> int:
    count = family.layer_norms
    if config.text("model_type") == "falcon" and config.is_set("parallel_attn", otherwise=True):
        is_new = config.is_set("new_decoder_architecture")
        count = (config.whole("num_ln_in_parallel_attn") or 2) if is_new else 1
    whole = 0
    if family.norms_whole_projections:  # Beside one norm of a head for each of the two.
        heads = shape.heads + key_value_heads(shape)
        whole = (heads - 2) * head_dimension(shape)
    return count * family.norm_vectors * shape.hidden + whole


def _says(config: Configuration, switch: str) -> bool:
    """Whether a family has a bias: always, or where its configuration says so."""
    if switch == "all":
        return True
    otherwise = switch == "use_bias"
    return bool(switch) and config.is_set(switch, otherwise=otherwise)


def _attention_bias(shape: Transformer, config: Configuration, family: Family) -> int:
    """Of queries, keys, values and the output.

    Where a family always has the first three alone, they are counted with the shape.
    """
    queries = shape.heads * head_dimension(shape)
    keys = key_value_heads(shape) * head_dimension(shape)
    if not _says(config, family.attention_bias) or family.attention_bias == "qkv":
        return 0
    sinks = shape.heads if config.text("model_type") == "gpt_oss" else 0
    output = shape.hidden if family.has_output_bias else 0
    return queries + 2 * keys + output + sinks


def _ffn_bias(shape: Transformer, config: Configuration, family: Family) -> int:
    """Of all layers, with the router's and the gate of experts that every token passes."""
    count = 0
    if _says(config, family.ffn_bias):
        inner = (2 if shape.gated_ffn else 1) * ffn_width(shape) + shape.hidden
        router = shape.experts if shape.experts > 1 else 0
        count += shape.layers * (shape.experts * inner + router)
    if config.whole("shared_expert_intermediate_size"):
        count += shape.layers * shape.hidden
    if family.has_router_bias:
        count += (shape.layers - shape.dense_layers) * shape.experts
    return count


def _ends(shape: Transformer, config: Configuration, family: Family) -> int:
    """What stands before the first layer and after the last."""
    norm = family.norm_vectors * shape.hidden
    count = norm if family.has_final_norm else 0
    count += norm if family.has_embedding_norm else 0
    count += shape.vocab if family.has_head_bias else 0
    if family.positions:
        places = config.whole(family.positions) or 0
        count += (places + family.position_offset) * shape.hidden
    if family.is_encoder:
        count += (config.whole("type_vocab_size") or 0) * shape.hidden
    count += shape.hidden * (shape.hidden + 1) if family.has_pooler else 0
    return count - _narrowing(shape, config, family)


def _narrowing(shape: Transformer, config: Configuration, family: Family) -> int:
    """What an embedding narrower than the layers saves, its projections taken off."""
    width = config.whole(family.embedding) or shape.hidden
    saved = shape.hidden - width
    if not saved:
        return 0
    if not family.is_encoder:  # OPT-350m alone: projected in and out, and no norm at the end.
        return shape.vocab * saved - 2 * width * shape.hidden + family.norm_vectors * shape.hidden
    places = (config.whole(family.positions) or 0) + (config.whole("type_vocab_size") or 0)
    rows = shape.vocab + places + family.norm_vectors
    return rows * saved - (width + 1) * shape.hidden
