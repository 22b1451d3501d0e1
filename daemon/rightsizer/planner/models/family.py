"""Hugging Face model families: keys, experts, and exact parameters with all biases."""

from collections.abc import Sequence
from typing import Any, Final

from msgspec import Struct

from rightsizer.planner.models.configuration import MODEL_TYPES, Configuration, wrong
from rightsizer.sizing.models import Transformer
from rightsizer.sizing.parameters import count_parameters

_EXPERTS: Final = ("num_experts", "num_local_experts", "n_routed_experts")
"""Spellings by version and family of transformers, also for the next four."""
_CHOSEN: Final = (
    "num_experts_per_tok",
    "experts_per_token",
    "num_experts_per_token",
    "moe_top_k",
    "moe_topk",
    "moe_k",
    "top_k_experts",
)
_SHARED: Final = (
    "n_shared_experts",
    "num_shared_experts",
    "moe_num_shared_experts",
    "num_shared_expert",
)
_SHARED_WIDTHS: Final = (
    "shared_expert_intermediate_size",
    "shared_intermediate_size",
    "share_expert_dim",
)
_DENSE_FIRST: Final = ("first_k_dense_replace", "moe_layer_start_index", "num_dense_layers")
_STEPS: Final = ("decoder_sparse_step", "interleave_moe_layer_step", "moe_layer_interval")
_EXPANSION: Final = 4
_MOST_LAYERS: Final = 10_000


class TransformerFamily(Struct, frozen=True):
    """How a family names its shape, and its parameters beside matrices."""

    layers: str = "num_hidden_layers"
    nested: Sequence[str] = ()
    """Parts whose values are read as if they were at the top level."""
    hidden: str = "hidden_size"
    heads: str = "num_attention_heads"
    kv_heads: str = "num_key_value_heads"
    ffn: str = "intermediate_size"
    embedding: str = "word_embed_proj_dim"
    """Key of the embedding width, if it differs from the layers'."""
    experts: str = ""
    expert_ffn: str = ""
    vocab: str = "vocab_size"
    window: str = "sliding_window"
    window_pattern: int = 0
    """Period of layers with full attention; the others have a window."""
    is_gated: bool = True
    is_tied: bool = False
    """If the configuration does not state it."""
    norm_vectors: int = 1
    """Per norm: a weight, or a bias too."""
    layer_norms: int = 2
    has_final_norm: bool = True
    has_embedding_norm: bool = False
    attention_bias: str = ""
    """`qkv`, `output`, `all`, or the key that decides for all."""
    has_attention_gate: bool = False
    """Whether a matrix as large as the queries' gates what attention returns."""
    has_output_bias: bool = True
    """If there are biases at all, whether attention's output has one."""
    ffn_bias: str = ""
    """`all`, or the key that decides it."""
    head_bias: str = ""
    """`all`, or the key that decides it."""
    switched_on: Sequence[str] = ()
    """Keys of biases that exist by default."""
    has_query_key_norm: bool = False
    norms_whole_projections: bool = False
    """One norm over queries and keys of all heads, instead of one per head."""
    has_router_bias: bool = False
    has_pooler: bool = False
    shared_experts: int = 0
    """Passed by every token, if no key states it."""
    positions: str = ""
    """Key of the number of learned positions."""
    position_offset: int = 0
    position_buckets: str = ""
    """Key of the number of distances with a bias per head, shared by all layers."""
    is_encoder: bool = False


FAMILIES: Final = {kind: TransformerFamily(**row) for kind, row in MODEL_TYPES["families"].items()}
"""By `model_type`; encoder-decoders, hybrids and vision transformers are read separately."""


def mixture_shape(
    config: Configuration, family: TransformerFamily, layers: int, hidden: int
) -> dict[str, Any]:
    """Return the feed-forward fields of a `Transformer`; one expert if dense."""
    usual = (config.whole("expansion_ratio") or _EXPANSION) * hidden
    dense = _mean_over_layers(config, family.ffn, layers) or usual
    keys = (family.experts, *_EXPERTS) if family.experts else ()
    experts = next((count for key in keys if (count := _mean_over_layers(config, key, layers))), 1)
    if experts == 1:
        return {"ffn": dense}
    if layers > _MOST_LAYERS:
        raise wrong(family.layers, f"{layers} is more than any model has")
    chosen = next(
        (count for key in _CHOSEN if (count := _mean_over_layers(config, key, layers))), 0
    )
    if not chosen:
        raise wrong(_CHOSEN[0], "is missing")
    width = (
        _mean_over_layers(config, family.expert_ffn, layers) if family.expert_ffn else 0
    ) or dense
    return {
        "experts": experts,
        "experts_per_token": chosen,
        "shared_experts": _shared_width(config, family, layers, width) // width,
        "ffn": width,
        "dense_layers": layers - sum(_has_experts(config, layer) for layer in range(layers)),
        "dense_ffn": dense,
    }


def _mean_over_layers(config: Configuration, key: str, layers: int) -> int:
    """Return a number, or the layers' mean if listed for each; 0 if absent."""
    if not config.lists(key):
        return config.whole(key) or 0
    return round(sum(config.wholes(key, layers)) / layers)


def _shared_width(config: Configuration, family: TransformerFamily, layers: int, width: int) -> int:
    """Return the width of the part of a layer that every token passes."""
    given = (key for key in _SHARED if config.lists(key) or config.whole(key) is not None)
    if (key := next(given, None)) is not None:
        return _mean_over_layers(config, key, layers) * width
    wide = next((value for key in _SHARED_WIDTHS if (value := config.whole(key))), 0)
    return wide or family.shared_experts * width


def _has_experts(config: Configuration, layer: int) -> bool:
    """Whether a layer has experts; each family has its own key for that."""
    listed = _numbers(config, "moe_layers") or _numbers(config, "moe_layers_enum")
    if listed:
        return layer in listed
    kinds = config.names("mlp_layer_types")
    if layer < len(kinds):
        return kinds[layer] != "dense"
    if layer in _numbers(config, "mlp_only_layers"):
        return False
    if layer < next((first for key in _DENSE_FIRST if (first := config.whole(key))), 0):
        return False
    last = config.values.get("moe_layer_end_index")  # ERNIE writes -1 for the last layer.
    if isinstance(last, int) and 0 <= last < layer:
        return False
    listed = config.lists("moe_layer_freq")
    if layer < len(listed):
        return listed[layer] == 1
    every = config.whole("moe_layer_freq") or 1
    step = next((value for key in _STEPS if (value := config.whole(key))), 1)
    return layer % every == 0 and (layer + 1) % step == 0


def _numbers(config: Configuration, key: str) -> Sequence[object]:
    """Return the numbers of a list; Step-3 writes them as one text."""
    spelled = [int(each) for each in config.text(key).split(",") if each.strip().isdecimal()]
    return spelled or config.lists(key)


def family_parameters(
    shape: Transformer, config: Configuration, family: TransformerFamily
) -> float:
    """Count a shape's matrices, with the norms, biases and positions of its family."""
    matrices = count_parameters(shape).total - (2 * shape.layers + 1) * shape.hidden
    kind = config.text("model_type")
    norms = family.layer_norms
    if kind == "falcon" and config.is_set("parallel_attn", otherwise=True):
        usual = 2 if config.is_set("new_decoder_architecture") else 1
        norms = min(config.whole("num_ln_in_parallel_attn") or usual, 2)
    if kind == "stablelm" and config.is_set("use_parallel_residual"):
        norms = 1
    layer = norms * _norm(shape, config, family) + _attention_bias(shape, config, family)
    if family.norms_whole_projections:  # In addition to one head's norm for each of the two.
        layer += (shape.heads + shape.key_value_heads - 2) * shape.head_width
    total = matrices + shape.layers * layer + _ffn_bias(shape, config, family)
    mixed = _layers_with_experts(shape)
    width = shape.ffn_width
    if mixed:  # Shared width beyond a whole number of experts.
        rest = _shared_width(config, family, shape.layers, width) - shape.shared_experts * width
        total += mixed * (3 if shape.gated_ffn else 2) * shape.hidden * rest
    return float(total + _outer_parameters(shape, config, family))


def _norm(shape: Transformer, config: Configuration, family: TransformerFamily) -> int:
    """Parameters of one norm; a configuration may add a bias, or omit the weight."""
    if not config.is_set("layer_norm_elementwise_affine", otherwise=True):
        return 0
    vectors = 2 if config.is_set("norm_bias") else family.norm_vectors
    return vectors * shape.hidden


def _has_bias(config: Configuration, family: TransformerFamily, switch: str) -> bool:
    """Whether a family has a bias: always, or by its configuration."""
    if switch == "all":
        return True
    return bool(switch) and config.is_set(switch, otherwise=switch in family.switched_on)


def _attention_bias(shape: Transformer, config: Configuration, family: TransformerFamily) -> int:
    """Biases of queries, keys, values and output; the shape only counts the first three."""
    queries = shape.heads * shape.head_width
    keys = shape.key_value_heads * shape.head_width
    sinks = shape.heads if config.text("model_type") == "gpt_oss" else 0
    if family.attention_bias == "output":
        return shape.hidden
    if family.has_attention_gate:
        sinks += shape.hidden * queries
    if family.attention_bias == "qkv" or not _has_bias(config, family, family.attention_bias):
        return sinks
    if shape.kv_lora_rank:
        # Biases of compression and output; expansion has none.
        compressed = shape.kv_lora_rank + shape.rope_head_dim
        return (shape.query_lora_rank or 0) + compressed + shape.hidden
    output = shape.hidden if family.has_output_bias else 0
    return queries + 2 * keys + output + sinks


def _ffn_bias(shape: Transformer, config: Configuration, family: TransformerFamily) -> int:
    """Biases of all layers, including the router and the gate of shared experts."""
    count = 0
    mixed = _layers_with_experts(shape)
    if family.ffn_bias == "output":
        return shape.layers * shape.hidden
    if _has_bias(config, family, family.ffn_bias):
        inner = 2 if shape.gated_ffn else 1
        dense = inner * (shape.dense_ffn or shape.ffn_width) + shape.hidden
        count += (shape.layers - mixed) * dense
        shared = shape.shared_experts * shape.ffn_width
        of_experts = inner * shared + shape.hidden if shared else 0
        if family.ffn_bias == "all":
            of_experts = shape.experts * (inner * shape.ffn_width + shape.hidden + 1)
        count += mixed * of_experts
    if config.whole("shared_expert_intermediate_size"):
        count += (mixed or shape.layers) * shape.hidden
    if family.has_router_bias:
        count += (shape.layers - shape.dense_layers) * shape.experts
    return count


def _layers_with_experts(shape: Transformer) -> int:
    return shape.layers - shape.dense_layers if shape.experts > 1 else 0


def _outer_parameters(shape: Transformer, config: Configuration, family: TransformerFamily) -> int:
    """Parameters before the first layer and after the last."""
    norm = _norm(shape, config, family)
    # Layers that normalize their input need a final norm for the output.
    is_first = config.is_set("do_layer_norm_before", otherwise=True)
    is_kept = is_first and not config.is_set("_remove_final_layer_norm")
    count = norm if family.has_final_norm and is_kept else 0
    count += norm if family.has_embedding_norm else 0
    count += shape.vocab if _has_bias(config, family, family.head_bias) else 0
    if family.positions:
        places = config.whole(family.positions) or 0
        count += (places + family.position_offset) * shape.hidden
    count += (config.whole(family.position_buckets) or 0) * shape.heads
    if family.is_encoder:
        count += (config.whole("type_vocab_size") or 0) * shape.hidden
    pooled = config.whole("projection_size") or shape.hidden
    count += pooled * (shape.hidden + 1) if family.has_pooler else 0
    # An embedding narrower than the layers has shorter rows, and needs projections.
    width = config.whole(family.embedding) or shape.hidden
    saved = shape.hidden - width
    if not saved:
        return count
    if not family.is_encoder:  # Only OPT: projections in and out.
        return count - shape.vocab * saved + 2 * width * shape.hidden
    places = (config.whole(family.positions) or 0) + (config.whole("type_vocab_size") or 0)
    rows = shape.vocab + places + family.norm_vectors
    return count - rows * saved + (width + 1) * shape.hidden
