"""Layers of single families: Gemma 3n, LongCat, Mllama, Step-3, linear and sparse attention."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from msgspec.structs import replace

from rightsizer.planner.models.configuration import Configuration, wrong
from rightsizer.sizing.models import LayerKind, TokenIndexer, Transformer, UnreadParameters
from rightsizer.sizing.parameters import attention_parameters, plain_layer

_WINDOWED: Final = "sliding_attention"
_PATTERN: Final = 5
"""Default period of layers without a window."""
_GLOBAL_PATTERN: Final = 6
"""The same of Gemma 4."""
_CHOOSING: Final = 4
"""Tokens of one entry in layers that choose among entries."""
_HASHED: Final = 3
"""First layers whose router has no bias, if a file does not state them."""
_INTERVAL: Final = 4
"""Default period of layers with full attention."""
_SCALES: Final = {"float32": 2, "bfloat16": 1, "float16": 1, "auto": 1}
"""16-bit numbers per element of a state."""
_CROSSED: Final = (3, 8, 13, 18, 23, 28, 33, 38)
"""If the configuration does not name them."""
_IMAGE_TOKENS: Final = 8
"""Rows of the embedding outside the vocabulary."""
_GATES: Final = 2
_WIDTH_STEP: Final = 256
"""Multiple of the widths of searched blocks (`DeciLMForCausalLM`)."""
_SKIPPED: Final = 2
"""Number of first layers that all have an indexer, if others have one periodically."""


def _with(shape: Transformer, added: float, **parts: Any) -> Transformer:
    return replace(shape, parameters=(shape.parameters or 0.0) + added, **parts)


def with_layer_embeddings(shape: Transformer, config: Configuration) -> Transformer:
    """Return the shape with the extra layers of `Gemma3nTextModel`.

    A token reads one row of each layer's table, which stays in memory like the embedding. The
    last layers store no keys and values: they use those of the last earlier layer of their kind.
    """
    hidden = shape.hidden
    layers = shape.layers
    width = config.needed("hidden_size_per_layer_input")
    streams = config.needed("altup_num_inputs")
    mixing = streams**2 * (streams + 1) + streams * hidden + 2 * hidden
    low_rank = (2 * config.needed("laurel_rank") + 1) * hidden
    entering = (2 * width + 1) * hidden
    beside = layers * width * hidden + width + 2 * (streams - 1) * hidden**2
    added = layers * (mixing + low_rank + entering) + beside
    shared = config.whole("num_kv_shared_layers", 0) or 0
    if shared >= layers:
        fault = f"{shared} of {layers} layers"
        raise wrong("num_kv_shared_layers", fault, "some keep their own")
    windowed = _windowed(config, layers, _PATTERN)
    tables = float(config.needed("vocab_size_per_layer_input") * layers * width)
    return _with(
        shape,
        added,
        windowed_layers=sum(windowed) if shape.sliding_window else None,
        cached_layers=layers - shared,
        borrowed_layers=shared,
        borrowed_windowed_layers=sum(windowed[layers - shared :]) if shape.sliding_window else 0,
        unread=UnreadParameters(tables=tables),
    )


def _windowed(config: Configuration, layers: int, period: int) -> Sequence[bool]:
    kinds = config.names("layer_types")
    if not kinds:
        return [(layer + 1) % period != 0 for layer in range(layers)]
    if len(kinds) != layers:
        raise wrong("layer_types", f"{len(kinds)} of {layers} layers", "")
    return [kind == _WINDOWED for kind in kinds]


def with_wide_global_heads(shape: Transformer, config: Configuration) -> Transformer:
    """Return the shape with the layers of Gemma 4.

    Layers that see all tokens have wider and fewer heads, of which keys may be values too. The
    last layers may use the cache of earlier ones, with a feed-forward part twice as wide. Experts
    are beside a dense part.
    """
    hidden = shape.hidden
    layers = shape.layers
    width = shape.head_width
    shared = config.whole("num_kv_shared_layers", 0) or 0
    windowed = [*_windowed(config, layers, _GLOBAL_PATTERN)]
    windowed[-1] = False
    is_same = config.is_set("attention_k_eq_v")
    # Transformers 5.24 writes the widths of these layers by their number.
    listed = config.part("per_layer_config").values()
    given = Configuration(next((each for each in listed if isinstance(each, Mapping)), {}))
    wide = given.whole("head_dim") or config.whole("global_head_dim") or width
    global_keys = given.whole("num_key_value_heads") or config.whole("num_global_key_value_heads")
    few = (global_keys or 0) if is_same else 0
    added = -layers * attention_parameters(shape)
    cached = {True: 0, False: 0}
    for layer, is_windowed in enumerate(windowed):
        size = width if is_windowed else wide
        keys = size * (shape.key_value_heads if is_windowed or not few else few)
        added += 2 * hidden * shape.heads * size + size
        if layer < layers - shared:
            added += hidden * keys * (1 if is_same and not is_windowed else 2) + size
            cached[is_windowed] += 2 * keys
    dense = 3 * hidden * (shape.dense_ffn or shape.ffn_width)
    added += shared * dense if config.is_set("use_double_wide_mlp") else 0
    beside = 0
    if shape.experts > 1:
        beside = (shape.dense_ffn or 0) // shape.ffn_width
        added += layers * (dense + 4 * hidden + shape.experts)
    inputs = config.whole("hidden_size_per_layer_input", 0) or 0
    added += layers * (3 * inputs + 1) * hidden + inputs if inputs else 0
    rows = config.whole("vocab_size_per_layer_input") or shape.vocab
    return _with(
        shape,
        added,
        shared_experts=beside,
        windowed_layers=sum(windowed),
        cached_layers=layers - shared,
        cache_elements=float(cached[False]),
        windowed_cache_elements=float(cached[True]),
        borrowed_layers=shared,
        borrowed_windowed_layers=sum(windowed[layers - shared :]),
        unread=UnreadParameters(tables=float(rows * layers * inputs)),
    )


def with_windowed_heads(shape: Transformer, config: Configuration) -> Transformer:
    """Return the shape with more KV heads, and sinks, in layers with a window (MiMo V2 Flash)."""
    listed = config.lists("hybrid_layer_pattern")
    windowed = [one == 1 for one in listed] or [
        kind == _WINDOWED for kind in config.names("layer_types")
    ]
    if len(windowed) != shape.layers:
        raise wrong(
            "hybrid_layer_pattern", f"{len(windowed)} of {shape.layers} layers", "name each"
        )
    hidden = shape.hidden
    heads = shape.heads
    width = shape.head_width
    values = config.needed("v_head_dim")
    keys = shape.key_value_heads
    more = config.whole("swa_num_key_value_heads") or 2 * keys
    count = sum(windowed)
    added = -shape.layers * attention_parameters(shape)
    cached = []
    for layers, each in ((shape.layers - count, keys), (count, more)):
        added += layers * hidden * (heads + each) * (width + values)
        cached.append(float(layers * each * (width + values)))
    has_sinks = config.is_set("add_swa_attention_sink_bias", otherwise=True)
    added += count * heads if has_sinks else 0
    whole, windows = cached
    parts = {"cache_elements": whole, "windowed_cache_elements": windows}
    return _with(shape, added, windowed_layers=count, **parts)


def with_compressed_attention(shape: Transformer, config: Configuration) -> Transformer:
    """Return the shape with the layers of DeepSeek-V4: a window, and tokens before it compressed.

    Of so many tokens (4 or 128) a layer keeps one entry, of which an indexer chooses where they are
    many. A few streams run through all layers.
    """
    hidden = shape.hidden
    heads = shape.heads
    width = shape.head_width
    layers = shape.layers
    ranks = ("q_lora_rank", "o_lora_rank", "o_groups", "hc_mult", "index_head_dim", "index_n_heads")
    rank, out_rank, groups, streams, index, index_heads = map(config.needed, ranks)
    mixing = streams * (streams + 2)
    layer = rank * (hidden + 1 + heads * width) + width * (hidden + 1) + heads
    layer += out_rank * (heads * width + groups * hidden)
    layer += 2 * (mixing * (streams * hidden + 1) + 3)
    added = layers * (layer - attention_parameters(shape)) + streams * (streams * hidden + 1) + 1
    added += (layers - (config.whole("num_hash_layers") or _HASHED)) * shape.experts
    elements = 0.0
    for ratio in _compression(config, layers):
        times = 2 if ratio == _CHOOSING else 1
        added += times * width * (ratio + 2 * hidden) + width
        elements += width / ratio
        if ratio == _CHOOSING:
            added += times * index * (ratio + 2 * hidden) + index
            added += index_heads * (index * rank + hidden)
            # Keys of the indexer take 8 bits.
            elements += index / 2 / ratio
    window = float(layers * width)
    return _with(shape, added, cache_elements=elements, windowed_cache_elements=window)


def _compression(config: Configuration, layers: int) -> Sequence[int]:
    """Return the ratios of layers that compress; files may list a layer that predicts too."""
    named = {"compressed_sparse_attention": 4, "heavily_compressed_attention": 128}
    ratios = config.lists("compress_ratios")[:layers]
    ratios = ratios or tuple(named.get(kind, 0) for kind in config.names("layer_types"))
    if len(ratios) != layers:
        raise wrong("compress_ratios", f"{len(ratios)} of {layers} layers", "name each")
    return [ratio for ratio in ratios if isinstance(ratio, int) and ratio > 0]


def state_scale(config: Configuration, key: str, otherwise: str) -> int:
    """Return how many numbers of 16 bits an element of a recurrent state takes."""
    state_format = config.text(key) or otherwise
    if state_format not in _SCALES:
        raise wrong(key, f"'{state_format}' is not known", f"take one of {', '.join(_SCALES)}")
    return _SCALES[state_format]


def with_linear_attention(shape: Transformer, config: Configuration) -> Transformer:
    """Return the shape with gated delta nets in most layers if the file has them (Qwen3-Next).

    A state has a matrix of keys by values for each head (arXiv:2412.06464, equation 10), and the
    window of the preceding convolution.

    The input shape counts full attention in every layer.
    """
    if config.whole("linear_num_value_heads") is None:
        return shape
    named = config.names("layer_types")
    every = config.whole("full_attention_interval") or _INTERVAL
    full = min(named.count("full_attention") if named else shape.layers // every, shape.layers)
    recurrent = shape.layers - full
    value_heads = config.needed("linear_num_value_heads")
    key_width = config.needed("linear_key_head_dim")
    value_width = config.needed("linear_value_head_dim")
    reach = config.needed("linear_conv_kernel_dim")
    keys = config.needed("linear_num_key_heads") * key_width
    values = value_heads * value_width
    convolved = 2 * keys + values
    inputs = convolved + values + 2 * value_heads
    projections = shape.hidden * (inputs + values)
    layer = projections + convolved * reach + 2 * value_heads + value_width
    is_gated = config.is_set("attn_output_gate", otherwise=True)
    gate = shape.hidden * shape.heads * shape.head_width if is_gated else 0
    added = full * gate + recurrent * (layer - attention_parameters(shape))
    scale = state_scale(config, "mamba_ssm_dtype", "auto")
    state = scale * value_heads * key_width * value_width + convolved * (reach - 1)
    mixing = LayerKind(recurrent, recurrent_inputs=inputs, recurrent_width=values)
    kinds = (kind for kind in (LayerKind(full, has_attention=True), mixing) if kind.layers)
    parts = {"state_elements": float(recurrent * state), "layer_kinds": tuple(kinds)}
    return _with(shape, added, cached_layers=full, **parts)


def with_double_layers(shape: Transformer, config: Configuration) -> Transformer:
    """Return the shape with twice the layers, half of which have experts beside a dense part.

    Some selectable experts return their input unchanged, so fewer real ones are used: by their
    share, as chosen by a balanced router (arXiv:2509.01322).
    """
    idle = config.whole("zero_expert_num", 0) or 0
    layers = shape.layers
    chosen = max(1, round(shape.experts_per_token * shape.experts / (shape.experts + idle)))
    dense = 3 * shape.hidden * (shape.dense_ffn or 0)
    router = idle * (shape.hidden + 1)
    added = layers * (attention_parameters(shape) + 2 * shape.hidden + 2 * dense + router)
    return _with(shape, added, layers=2 * layers, dense_layers=layers, experts_per_token=chosen)


def with_cross_attention(shape: Transformer, config: Configuration) -> Transformer:
    """Return the shape with query and key norms, and gates, in the layers that attend to an image.

    They cache nothing of the text: its tokens are cached by the other layers.
    """
    listed = config.lists("cross_attention_layers") or _CROSSED
    crossed = {layer for layer in range(shape.layers) if layer in listed}
    if len(crossed) < len(listed):
        fault = f"names layers beyond the {shape.layers} of num_hidden_layers"
        raise wrong("cross_attention_layers", fault)
    added = len(crossed) * (2 * shape.head_width + _GATES) + _IMAGE_TOKENS * shape.hidden
    return _with(shape, added, cached_layers=shape.layers - len(crossed))


def with_sparse_attention(shape: Transformer, config: Configuration) -> Transformer:
    """Return the shape with an indexer in all layers, or in those named by the configuration."""
    if shape.query_lora_rank is None:
        raise wrong("q_lora_rank", "is missing")
    keys = ("index_n_heads", "index_head_dim", "index_topk")
    heads, width, tokens = map(config.needed, keys)
    indexer = TokenIndexer(heads, width, tokens, _indexed_layers(config, shape.layers))
    added = indexer.layers * indexer.parameters(shape.hidden, shape.query_lora_rank)
    return _with(shape, added, indexer=indexer)


def _indexed_layers(config: Configuration, layers: int) -> int:
    """Count layers that select tokens; GLM-5's may reuse an earlier layer's selection."""
    letters = config.text("index_topk_pattern")
    words = {"F": "full", "S": "shared"}
    kinds = config.names("indexer_types") or tuple(words.get(letter, "") for letter in letters)
    if kinds:
        if len(kinds) != layers:
            raise wrong("indexer_types", f"{len(kinds)} of {layers} layers", "name each")
        return kinds.count("full")
    every = max(1, config.whole("index_topk_freq") or 1)
    start = config.whole("index_skip_topk_offset", _SKIPPED) or 0
    return sum(max(layer - start + 1, 0) % every == 0 for layer in range(layers))


def with_factorized_queries(shape: Transformer, config: Configuration) -> Transformer:
    """Return the shape with queries from a narrow projection (arXiv:2507.19427, section 3)."""
    narrow = config.needed("share_q_dim")
    queries = shape.heads * shape.head_width
    layer = narrow * (shape.hidden + 1 + queries) - shape.hidden * queries
    return _with(shape, shape.layers * layer)


def with_relative_positions(shape: Transformer, config: Configuration) -> Transformer:
    """Return the shape with tables of DeBERTa: of distances, or of positions."""
    hidden = shape.hidden
    added = 0
    if config.is_set("relative_attention"):
        most = config.whole("position_buckets") or config.whole("max_position_embeddings") or 0
        added += 2 * most * hidden
        added += 2 * hidden if "layer_norm" in config.text("norm_rel_ebd") else 0
    if config.is_set("position_biased_input", otherwise=True):
        added += (config.whole("max_position_embeddings") or 0) * hidden
    if kernel := config.whole("conv_kernel_size"):
        added += (kernel * hidden + 3) * hidden
    if config.is_set("relative_attention") and not config.is_set("share_att_key"):
        named = config.text("pos_att_type") or config.names("pos_att_type")
        tables = shape.layers * sum(kind in named for kind in ("c2p", "p2c"))
        added += tables * hidden * (hidden + 1)
    return _with(shape, added)


def with_repeated_layers(shape: Transformer, config: Configuration) -> Transformer:
    """Return the shape with layers that share one set of parameters, or a few (ALBERT)."""
    layer = plain_layer(shape.hidden, shape.ffn_width)
    again = max(0, shape.layers - (config.whole("num_hidden_groups") or 1))
    return _with(shape, -again * layer, repeated_parameters=float(again * layer))


def with_searched_blocks(shape: Transformer, config: Configuration) -> Transformer:
    """Return the shape with the blocks of a neural architecture search (Llama Nemotron Super).

    Some lack attention, some the feed-forward part, whose width is the mean of those that have one.
    """
    listed = config.lists("block_configs")
    blocks = [Configuration(each) for each in listed if isinstance(each, Mapping)]
    if len(blocks) != shape.layers:
        raise wrong("block_configs", f"{len(blocks)} of {shape.layers} layers", "name each")
    hidden = shape.hidden
    groups = [
        Configuration(block.part("attention")).whole("n_heads_in_group", 0) for block in blocks
    ]
    widths = [_block_width(Configuration(block.part("ffn")), hidden) for block in blocks]
    slim = replace(shape, kv_heads=shape.heads // max(filter(None, groups), default=1))
    kinds = Counter((bool(one), bool(width)) for one, width in zip(groups, widths, strict=True))
    attending = sum(map(bool, groups))
    feeding = sum(map(bool, widths))
    layer = attention_parameters(shape) + 3 * hidden * shape.ffn_width + 2 * hidden
    added = attending * (attention_parameters(slim) + hidden) - shape.layers * layer
    added += 3 * hidden * sum(widths) + feeding * hidden
    parts = (Configuration(block.part(name)) for block in blocks for name in ("attention", "ffn"))
    added += sum(part.is_set("replace_with_linear") for part in parts) * hidden * (hidden + 1)
    return _with(
        slim,
        added,
        layers=shape.layers - kinds.pop((False, False), 0),
        ffn=sum(widths) // max(feeding, 1),
        cached_layers=attending,
        layer_kinds=tuple(
            LayerKind(count, has_attention=one, has_feed_forward=other, parts=one + other)
            for (one, other), count in kinds.items()
        ),
    )


def _block_width(config: Configuration, hidden: int) -> int:
    """Return the width of a feed-forward part; 0 without one."""
    width = int(2 * config.number("ffn_mult", 0.0) * hidden / 3)
    return -(-width // _WIDTH_STEP) * _WIDTH_STEP


def with_contacts(shape: Transformer, _: Configuration) -> Transformer:
    """Return the shape with the weights of attention maps that predict contacts (ESM-2)."""
    return _with(shape, shape.layers * shape.heads + 1)


FAMILY_LAYERS: Final[Mapping[str, Callable[[Transformer, Configuration], Transformer]]] = {
    "gemma3n_text": with_layer_embeddings,
    "mllama_text_model": with_cross_attention,
    "deepseek_v32": with_sparse_attention,
    "glm_moe_dsa": with_sparse_attention,
    "longcat_flash": with_double_layers,
    "step3_text": with_factorized_queries,
    **dict.fromkeys(("gemma4_text", "gemma4_unified_text"), with_wide_global_heads),
    "mimo_v2_flash": with_windowed_heads,
    "deepseek_v4": with_compressed_attention,
    "deberta-v2": with_relative_positions,
    "albert": with_repeated_layers,
    "esm": with_contacts,
    "nemotron-nas": with_searched_blocks,
}
"""By `model_type`."""
