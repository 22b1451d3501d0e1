"""The families of Hugging Face models that are read: which keys they use, what they are made of."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

__all__ = ["FAMILIES", "Family"]


@dataclass(frozen=True, slots=True)
class Family:
    """How a family names its shape, and what it has beside its matrices."""

    types: str
    """Values of `model_type`, separated by blanks."""
    layers: str = "num_hidden_layers"
    hidden: str = "hidden_size"
    heads: str = "num_attention_heads"
    kv_heads: str = "num_key_value_heads"
    ffn: str = "intermediate_size"
    experts: str = ""
    expert_ffn: str = ""
    is_gated: bool = True
    is_tied: bool = False
    """Where the configuration does not say."""
    norm_vectors: int = 1
    """Of each norm: a weight, or a bias too."""
    layer_norms: int = 2
    has_final_norm: bool = True
    has_embedding_norm: bool = False
    attention_bias: str = ""
    """`qkv`, `all`, `none`, or the key that says so of all."""
    ffn_bias: str = ""
    """`all`, or the key that says so."""
    has_head_bias: bool = False
    has_query_key_norm: bool = False
    positions: str = ""
    """The key of how many learned positions there are."""
    position_offset: int = 0
    is_encoder: bool = False
    defaults: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    """Values that the family's configurations leave out."""


_LLAMA: Final = MappingProxyType(
    {
        "hidden_size": 4096,
        "intermediate_size": 11008,
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "vocab_size": 32000,
    }
)
_GEMMA_3: Final = MappingProxyType(
    {
        "num_attention_heads": 8,
        "num_key_value_heads": 4,
        "head_dim": 256,
        "vocab_size": 262208,
        "sliding_window": 4096,
        "sliding_window_pattern": 6,
    }
)

FAMILIES: Final = (
    Family(
        "llama granite internlm2 yi",
        attention_bias="attention_bias",
        ffn_bias="mlp_bias",
        defaults=_LLAMA,
    ),
    Family("mistral phi3 ministral"),
    Family("mixtral", experts="num_local_experts"),
    Family("qwen2 qwen2_vl_text qwen2_5_vl_text", attention_bias="qkv"),
    Family(
        "qwen2_moe", attention_bias="qkv", experts="num_experts", expert_ffn="moe_intermediate_size"
    ),
    Family("qwen3", attention_bias="attention_bias", has_query_key_norm=True),
    Family(
        "qwen3_moe",
        attention_bias="attention_bias",
        has_query_key_norm=True,
        experts="num_experts",
        expert_ffn="moe_intermediate_size",
    ),
    Family("gemma", is_tied=True),
    Family("gemma2", is_tied=True, layer_norms=4),
    Family("gemma3_text", is_tied=True, layer_norms=4, has_query_key_norm=True, defaults=_GEMMA_3),
    Family("cohere", is_tied=True, layer_norms=1),
    Family("stablelm", norm_vectors=2, attention_bias="use_qkv_bias"),
    Family(
        "phi",
        is_gated=False,
        norm_vectors=2,
        layer_norms=1,
        attention_bias="all",
        ffn_bias="all",
        has_head_bias=True,
    ),
    Family(
        "falcon",
        kv_heads="num_kv_heads",
        ffn="ffn_hidden_size",
        is_gated=False,
        is_tied=True,
        norm_vectors=2,
        attention_bias="bias",
        ffn_bias="bias",
    ),
    Family(
        "gpt2 gpt_bigcode",
        layers="n_layer",
        hidden="n_embd",
        heads="n_head",
        ffn="n_inner",
        is_gated=False,
        is_tied=True,
        norm_vectors=2,
        attention_bias="all",
        ffn_bias="all",
        positions="n_positions",
    ),
    Family(
        "gptj codegen",
        layers="n_layer",
        hidden="n_embd",
        heads="n_head",
        ffn="n_inner",
        is_gated=False,
        norm_vectors=2,
        layer_norms=1,
        ffn_bias="all",
        has_head_bias=True,
    ),
    Family("gpt_neox", is_gated=False, norm_vectors=2, attention_bias="all", ffn_bias="all"),
    Family(
        "opt",
        ffn="ffn_dim",
        is_gated=False,
        is_tied=True,
        norm_vectors=2,
        attention_bias="all",
        ffn_bias="all",
        positions="max_position_embeddings",
        position_offset=2,
    ),
    Family(
        "bloom",
        layers="n_layer",
        heads="n_head",
        is_gated=False,
        is_tied=True,
        norm_vectors=2,
        has_embedding_norm=True,
        attention_bias="all",
        ffn_bias="all",
    ),
    Family(
        "mpt", layers="n_layers", hidden="d_model", heads="n_heads", is_gated=False, is_tied=True
    ),
    Family(
        "starcoder2",
        is_gated=False,
        is_tied=True,
        norm_vectors=2,
        attention_bias="use_bias",
        ffn_bias="use_bias",
    ),
    Family(
        "deepseek_v2 deepseek_v3", experts="n_routed_experts", expert_ffn="moe_intermediate_size"
    ),
    Family("gpt_oss", experts="num_local_experts", attention_bias="all", ffn_bias="all"),
    Family(
        "bert roberta xlm-roberta camembert electra",
        is_gated=False,
        is_tied=True,
        norm_vectors=2,
        has_final_norm=False,
        has_embedding_norm=True,
        attention_bias="all",
        ffn_bias="all",
        positions="max_position_embeddings",
        is_encoder=True,
    ),
    Family(
        "distilbert",
        layers="n_layers",
        hidden="dim",
        heads="n_heads",
        ffn="hidden_dim",
        is_gated=False,
        is_tied=True,
        norm_vectors=2,
        has_final_norm=False,
        has_embedding_norm=True,
        attention_bias="all",
        ffn_bias="all",
        positions="max_position_embeddings",
        is_encoder=True,
    ),
    Family(
        "clip_text_model",
        is_gated=False,
        is_tied=True,
        norm_vectors=2,
        attention_bias="all",
        ffn_bias="all",
        positions="max_position_embeddings",
        is_encoder=True,
        defaults=MappingProxyType(
            {
                "hidden_size": 512,
                "intermediate_size": 2048,
                "num_hidden_layers": 12,
                "num_attention_heads": 8,
                "vocab_size": 49408,
                "max_position_embeddings": 77,
            }
        ),
    ),
)
"""Transformers of one stack; T5 and the vision transformer are read apart."""
