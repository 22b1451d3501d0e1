"""Families of mixtures of experts, of which a token passes a few."""

from typing import Final

from rightsizer.sizing.family import Family

__all__ = ["MIXTURES"]

_EXPERT_FFN: Final = "moe_intermediate_size"

MIXTURES: Final = (
    Family("mixtral", experts="num_local_experts"),
    Family(
        "phimoe",
        experts="num_local_experts",
        norm_vectors=2,
        attention_bias="attention_bias",
        has_head_bias=True,
    ),
    Family("granitemoe", experts="num_local_experts", attention_bias="attention_bias"),
    Family("qwen2_moe", attention_bias="qkv", experts="num_experts", expert_ffn=_EXPERT_FFN),
    Family(
        "qwen3_moe qwen3_vl_moe_text qwen3_next qwen3_5_moe_text",
        attention_bias="attention_bias",
        has_query_key_norm=True,
        experts="num_experts",
        expert_ffn=_EXPERT_FFN,
    ),
    Family(
        "olmoe",
        attention_bias="attention_bias",
        has_query_key_norm=True,
        norms_whole_projections=True,
        experts="num_experts",
    ),
    Family("deepseek deepseek_v2", experts="n_routed_experts", expert_ffn=_EXPERT_FFN),
    Family(
        "deepseek_v3 kimi_k2 glm4_moe_lite",
        experts="n_routed_experts",
        expert_ffn=_EXPERT_FFN,
        has_router_bias=True,
    ),
    Family(
        "glm4_moe glm4v_moe_text",
        attention_bias="attention_bias",
        has_output_bias=False,
        experts="n_routed_experts",
        expert_ffn=_EXPERT_FFN,
        has_router_bias=True,
    ),
    Family(
        "llama4_text",
        ffn="intermediate_size_mlp",
        experts="num_local_experts",
        expert_ffn="intermediate_size",
        shared_experts=1,
        window="attention_chunk_size",
        window_pattern=4,
    ),
    Family(
        "minimax_m2",
        has_query_key_norm=True,
        norms_whole_projections=True,
        experts="num_local_experts",
        has_router_bias=True,
    ),
    Family(
        "ernie4_5_moe",
        is_tied=True,
        experts="moe_num_experts",
        expert_ffn=_EXPERT_FFN,
        has_router_bias=True,
    ),
    Family(
        "dbrx",
        layers="n_layers",
        nested=("attn_config", "ffn_config"),
        hidden="d_model",
        heads="n_heads",
        kv_heads="kv_n_heads",
        ffn="ffn_hidden_size",
        experts="moe_num_experts",
    ),
    Family(
        "gpt_oss",
        experts="num_local_experts",
        attention_bias="all",
        ffn_bias="all",
        window_pattern=2,
    ),
)
"""Each as its class in transformers has it; the tests hold them against published counts."""
