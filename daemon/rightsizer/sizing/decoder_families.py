"""Families of decoders whose every token passes all of the model."""

from types import MappingProxyType
from typing import Final

from rightsizer.sizing.family import Family

__all__ = ["DECODERS"]

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
    }
)

DECODERS: Final = (
    Family(
        "llama granite internlm2 yi baichuan",
        attention_bias="attention_bias",
        ffn_bias="mlp_bias",
        defaults=_LLAMA,
    ),
    Family("smollm3", is_tied=True, attention_bias="attention_bias", ffn_bias="mlp_bias"),
    Family("mistral ministral ministral3 phi3"),
    Family("minicpm", is_tied=True),
    Family(
        "qwen2 qwen2_vl qwen2_vl_text qwen2_5_vl qwen2_5_vl_text",
        attention_bias="qkv",
    ),
    Family("qwen3 qwen3_vl_text", attention_bias="attention_bias", has_query_key_norm=True),
    Family("gemma", is_tied=True),
    Family("gemma2", is_tied=True, layer_norms=4, window_pattern=2),
    Family(
        "gemma3_text",
        is_tied=True,
        layer_norms=4,
        has_query_key_norm=True,
        window_pattern=6,
        defaults=_GEMMA_3,
    ),
    Family("cohere", is_tied=True, layer_norms=1),
    Family("cohere2", is_tied=True, layer_norms=1, window_pattern=4),
    Family("glm", attention_bias="attention_bias", has_output_bias=False),
    Family(
        "glm4 glm4v_text", layer_norms=4, attention_bias="attention_bias", has_output_bias=False
    ),
    Family(
        "chatglm",
        layers="num_layers",
        kv_heads="multi_query_group_num",
        ffn="ffn_hidden_size",
        vocab="padded_vocab_size",
        attention_bias="add_qkv_bias",
        has_output_bias=False,
    ),
    Family("olmo", layer_norms=0, has_final_norm=False, attention_bias="attention_bias"),
    Family(
        "olmo2 olmo3",
        attention_bias="attention_bias",
        has_query_key_norm=True,
        norms_whole_projections=True,
        window_pattern=4,
    ),
    Family("seed_oss", attention_bias="attention_bias", has_output_bias=False),
    Family("exaone", layers="num_layers", is_tied=True),
    Family("exaone4", has_query_key_norm=True, window_pattern=4),
    Family(
        "nemotron",
        is_gated=False,
        norm_vectors=2,
        attention_bias="attention_bias",
        ffn_bias="mlp_bias",
    ),
    Family("stablelm", norm_vectors=2, attention_bias="use_qkv_bias", has_output_bias=False),
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
        "mpt",
        layers="n_layers",
        nested=("attn_config",),
        hidden="d_model",
        heads="n_heads",
        kv_heads="kv_n_heads",
        is_gated=False,
        is_tied=True,
    ),
    Family(
        "starcoder2",
        is_gated=False,
        is_tied=True,
        norm_vectors=2,
        attention_bias="use_bias",
        ffn_bias="use_bias",
    ),
)
"""Each as its class in transformers has it; the tests hold them against published counts."""
