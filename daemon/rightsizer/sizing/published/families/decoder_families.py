"""Families of decoders whose every token passes all of the model."""

from types import MappingProxyType
from typing import Final

from rightsizer.sizing.published.families.family import Family

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
_GEMMA_3N: Final = MappingProxyType(
    {
        "vocab_size": 262400,
        "hidden_size": 2048,
        "intermediate_size": 16384,
        "num_hidden_layers": 35,
        "num_attention_heads": 8,
        "num_key_value_heads": 2,
        "head_dim": 256,
        "sliding_window": 512,
        "vocab_size_per_layer_input": 262144,
        "hidden_size_per_layer_input": 256,
        "altup_num_inputs": 4,
        "num_kv_shared_layers": 15,
        "laurel_rank": 64,
    }
)
_LLAMA_3_2_VISION: Final = MappingProxyType(
    {
        "vocab_size": 128256,
        "hidden_size": 4096,
        "intermediate_size": 14336,
        "num_hidden_layers": 40,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
    }
)
_QWEN_3_5: Final = MappingProxyType(
    {
        "vocab_size": 248320,
        "hidden_size": 4096,
        "intermediate_size": 12288,
        "num_hidden_layers": 32,
        "num_attention_heads": 16,
        "num_key_value_heads": 4,
        "head_dim": 256,
        "linear_conv_kernel_dim": 4,
        "linear_key_head_dim": 128,
        "linear_value_head_dim": 128,
        "linear_num_key_heads": 16,
        "linear_num_value_heads": 32,
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
    Family(
        "qwen3_5_text",
        attention_bias="attention_bias",
        has_query_key_norm=True,
        defaults=_QWEN_3_5,
    ),
    Family("hunyuan_v1_dense", attention_bias="attention_bias", has_query_key_norm=True),
    Family("mimo", attention_bias="attention_bias", has_output_bias=False),
    Family("apertus", is_gated=False, attention_bias="attention_bias", has_query_key_norm=True),
    Family("ernie4_5", is_tied=True, attention_bias="use_bias", ffn_bias="use_bias"),
    Family("mllama_text_model", defaults=_LLAMA_3_2_VISION),
    Family("gemma", is_tied=True, attention_bias="attention_bias"),
    Family(
        "gemma2",
        is_tied=True,
        layer_norms=4,
        attention_bias="attention_bias",
        window_pattern=2,
    ),
    Family(
        "gemma3_text",
        is_tied=True,
        layer_norms=4,
        attention_bias="attention_bias",
        has_query_key_norm=True,
        window_pattern=6,
        defaults=_GEMMA_3,
    ),
    Family(
        "gemma3n_text",
        is_tied=True,
        layer_norms=4,
        has_query_key_norm=True,
        window_pattern=5,
        defaults=_GEMMA_3N,
    ),
    Family("cohere", is_tied=True, layer_norms=1, attention_bias="attention_bias"),
    Family(
        "cohere2",
        is_tied=True,
        layer_norms=1,
        attention_bias="attention_bias",
        window_pattern=4,
    ),
    Family("glm", attention_bias="attention_bias", has_output_bias=False),
    Family("glm4", layer_norms=4, attention_bias="attention_bias", has_output_bias=False),
    Family("glm4v_text", layer_norms=4, attention_bias="qkv"),
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
    Family(
        "seed_oss",
        attention_bias="attention_bias",
        has_output_bias=False,
        ffn_bias="mlp_bias",
    ),
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
        head_bias="all",
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
        head_bias="all",
    ),
    Family(
        "gpt_neox",
        is_gated=False,
        norm_vectors=2,
        attention_bias="attention_bias",
        ffn_bias="all",
        switched_on=("attention_bias",),
    ),
    Family(
        "opt",
        ffn="ffn_dim",
        is_gated=False,
        is_tied=True,
        norm_vectors=2,
        attention_bias="enable_bias",
        ffn_bias="enable_bias",
        switched_on=("enable_bias",),
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
        switched_on=("use_bias",),
    ),
)
"""Each as its class in transformers has it; the tests hold them against published counts."""
