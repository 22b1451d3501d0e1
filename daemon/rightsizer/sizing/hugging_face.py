"""A model from a `config.json` as Hugging Face's transformers write it."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from rightsizer.domain.errors import RequirementError
from rightsizer.sizing.checkpoint_format import checkpoint_format
from rightsizer.sizing.configuration import Configuration
from rightsizer.sizing.encoder_decoder import read_encoder_decoder
from rightsizer.sizing.family_parameters import family_parameters
from rightsizer.sizing.model_families import FAMILIES, Family
from rightsizer.sizing.models import Transformer, VisionTransformer
from rightsizer.sizing.number_format import NumberFormat
from rightsizer.sizing.soundness import check_model

__all__ = ["PublishedModel", "read_config"]

_ENCODER_DECODER: Final = frozenset({"t5", "mt5", "umt5"})
_VISION: Final = frozenset({"vit", "deit"})
_TEXT_PARTS: Final = ("text_config", "llm_config", "language_config")
_DTYPES: Final = ("torch_dtype", "dtype", "quantization_config")
_CLASSES: Final = 1000


@dataclass(frozen=True, slots=True)
class PublishedModel:
    """What a configuration says of a model."""

    model: Transformer | VisionTransformer
    weights: NumberFormat | None
    """The format of the checkpoint; `None` where the file does not say."""
    notes: tuple[str, ...] = ()
    """What of the model is not counted."""


def read_config(values: Mapping[str, object], name: str = "") -> PublishedModel:
    """The model that a parsed `config.json` describes.

    Of a model with several parts (vision and text) the text part is read, and a note says so.

    Raises:
        RequirementError: the kind of model is not known, or the shape cannot be.
    """
    config = Configuration(values, {})
    named = name or config.text("_name_or_path") or config.text("model_type")
    for key in _TEXT_PARTS:
        if part := config.part(key):
            kind = config.text("model_type")
            inner = {"model_type": _text_type(kind), **part}
            beside = {key: values[key] for key in _DTYPES if key in values and key not in part}
            read = read_config({**inner, **beside}, named)
            note = f"only the text part of {kind} is counted, without what sees or hears"
            return replace(read, notes=(*read.notes, note))
    model = _read(config, named)
    check_model(model)
    return PublishedModel(model, checkpoint_format(config))


def _text_type(kind: str) -> str:
    """The family of the text part, where the part itself does not name it."""
    usual = {"clip": "clip_text_model", "gemma3": "gemma3_text"}
    return usual.get(kind, "llama" if kind.startswith("llava") else kind)


def _read(config: Configuration, name: str) -> Transformer | VisionTransformer:
    kind = config.text("model_type")
    if kind in _VISION:
        return _vision_transformer(config, name)
    if kind in _ENCODER_DECODER:
        return read_encoder_decoder(config, name)
    for family in FAMILIES:
        if kind in family.types.split():
            return _transformer(Configuration(config.values, family.defaults), family, name)
    known = sorted({*_VISION, *_ENCODER_DECODER, *" ".join(f.types for f in FAMILIES).split()})
    raise RequirementError(
        f"config.json: model_type: '{kind}' is not known; describe the model in the plan instead"
        " (parameters, layers, hidden, heads, kv_heads, ffn, vocab)."
        f" Known are {', '.join(known)}"
    )


def _vision_transformer(config: Configuration, name: str) -> VisionTransformer:
    labels = config.part("id2label")
    return VisionTransformer(
        layers=config.needed("num_hidden_layers"),
        hidden=config.needed("hidden_size"),
        heads=config.needed("num_attention_heads"),
        name=name,
        ffn=config.whole("intermediate_size"),
        image=config.whole("image_size") or 224,
        patch=config.whole("patch_size") or 16,
        classes=len(labels) or _CLASSES,
    )


def _transformer(config: Configuration, family: Family, name: str) -> Transformer:
    layers = config.needed(family.layers)
    heads, hidden = config.needed(family.heads), config.needed(family.hidden)
    experts = (config.whole(family.experts) or 1) if family.experts else 1
    ffn = config.whole(family.ffn) or (config.whole("expansion_ratio") or 4) * hidden
    expert_ffn = config.whole(family.expert_ffn, ffn) if family.expert_ffn else ffn
    is_latent = config.whole("kv_lora_rank") is not None
    window, windowed = _window(config, layers)
    shape = Transformer(
        layers=layers,
        hidden=hidden,
        heads=heads,
        vocab=config.needed("vocab_size"),
        name=name,
        kv_heads=_kv_heads(config, family, heads),
        head_dim=config.whole("qk_nope_head_dim" if is_latent else "head_dim"),
        ffn=expert_ffn if experts > 1 else ffn,
        gated_ffn=family.is_gated,
        tied_embeddings=config.is_set("tie_word_embeddings", otherwise=family.is_tied),
        attention_bias=family.attention_bias == "qkv",
        query_key_norm=family.has_query_key_norm,
        experts=experts,
        experts_per_token=_experts_per_token(config) if experts > 1 else 1,
        shared_experts=_shared_experts(config, expert_ffn or ffn),
        dense_layers=config.whole("first_k_dense_replace", 0) or 0,
        dense_ffn=ffn if experts > 1 else None,
        sliding_window=window,
        windowed_layers=windowed,
        kv_lora_rank=config.whole("kv_lora_rank"),
        rope_head_dim=config.whole("qk_rope_head_dim", 0) or 0,
        query_lora_rank=config.whole("q_lora_rank"),
        value_head_dim=config.whole("v_head_dim"),
        cached_layers=0 if family.is_encoder else None,
    )
    check_model(shape)
    return replace(shape, parameters=family_parameters(shape, config, family))


def _kv_heads(config: Configuration, family: Family, heads: int) -> int | None:
    if config.is_set("multi_query") and not config.is_set("new_decoder_architecture"):
        return 1
    nested = config.part("attn_config").get("kv_n_heads")
    if isinstance(nested, int):
        return nested
    return config.whole(family.kv_heads) or heads


def _experts_per_token(config: Configuration) -> int:
    keys = ("num_experts_per_tok", "experts_per_token", "num_experts_per_token")
    return next((value for key in keys if (value := config.whole(key))), 1)


def _shared_experts(config: Configuration, expert_ffn: int) -> int:
    """How many experts wide the part is that every token passes."""
    counted = config.whole("n_shared_experts")
    if counted is not None:
        return counted
    return (config.whole("shared_expert_intermediate_size") or 0) // expert_ffn


def _window(config: Configuration, layers: int) -> tuple[int | None, int | None]:
    """How far windowed layers look back, and how many there are.

    Gemma 2 windows every second layer, Gemma 3 five of six; Qwen 2 only where it is switched on.
    """
    window = config.whole("sliding_window")
    if not window or not config.is_set("use_sliding_window", otherwise=True):
        return None, None
    kinds = config.names("layer_types")
    if kinds:
        windowed = sum(kind == "sliding_attention" for kind in kinds)
        return (window, windowed) if windowed else (None, None)
    pattern = config.whole("sliding_window_pattern")
    if config.text("model_type") in {"gemma2", "gpt_oss"}:
        pattern = pattern or 2
    if pattern:
        return window, layers - layers // pattern
    if config.text("model_type").startswith("qwen"):
        full = min(config.whole("max_window_layers") or 0, layers)
        return (window, layers - full) if full < layers else (None, None)
    return window, None
