"""Families of mixtures of experts, of which a token passes a few."""

from types import MappingProxyType
from typing import Final

from rightsizer.planner.models.families.family import TransformerFamily

_EXPERT_FFN: Final = "moe_intermediate_size"
_DEEPSEEK_V3_2: Final = MappingProxyType(
    {
        "vocab_size": 129280,
        "hidden_size": 7168,
        "intermediate_size": 18432,
        "moe_intermediate_size": 2048,
        "num_hidden_layers": 61,
        "num_attention_heads": 128,
        "n_shared_experts": 1,
        "n_routed_experts": 256,
        "num_experts_per_tok": 8,
        "first_k_dense_replace": 3,
        "kv_lora_rank": 512,
        "q_lora_rank": 1536,
        "qk_rope_head_dim": 64,
        "v_head_dim": 128,
        "qk_nope_head_dim": 128,
        "index_topk": 2048,
        "index_head_dim": 128,
        "index_n_heads": 64,
    }
)
_GLM_5: Final = MappingProxyType(
    {
        **_DEEPSEEK_V3_2,
        "vocab_size": 154880,
        "hidden_size": 6144,
        "intermediate_size": 12288,
        "num_hidden_layers": 78,
        "num_attention_heads": 64,
        "q_lora_rank": 2048,
        "v_head_dim": 256,
        "qk_nope_head_dim": 192,
        "index_n_heads": 32,
    }
)
_LONGCAT: Final = MappingProxyType(
    {
        "vocab_size": 131072,
        "hidden_size": 6144,
        "num_layers": 28,
        "num_attention_heads": 64,
        "ffn_hidden_size": 12288,
        "q_lora_rank": 1536,
        "kv_lora_rank": 512,
        "qk_nope_head_dim": 128,
        "qk_rope_head_dim": 64,
        "v_head_dim": 128,
        "moe_topk": 12,
        "n_routed_experts": 512,
        "zero_expert_num": 256,
        "expert_ffn_hidden_size": 2048,
    }
)

MIXTURES: Final = (
    TransformerFamily("mixtral", experts="num_local_experts"),
    TransformerFamily(
        "phimoe",
        experts="num_local_experts",
        norm_vectors=2,
        attention_bias="attention_bias",
        head_bias="lm_head_bias",
    ),
    TransformerFamily("granitemoe", experts="num_local_experts", attention_bias="attention_bias"),
    TransformerFamily(
        "qwen2_moe", attention_bias="qkv", experts="num_experts", expert_ffn=_EXPERT_FFN
    ),
    TransformerFamily(
        "qwen3_moe qwen3_vl_moe_text qwen3_next qwen3_5_moe_text",
        attention_bias="attention_bias",
        has_query_key_norm=True,
        experts="num_experts",
        expert_ffn=_EXPERT_FFN,
    ),
    TransformerFamily(
        "olmoe",
        attention_bias="attention_bias",
        has_query_key_norm=True,
        norms_whole_projections=True,
        experts="num_experts",
    ),
    TransformerFamily(
        "deepseek deepseek_v2",
        attention_bias="attention_bias",
        ffn_bias="mlp_bias",
        experts="n_routed_experts",
        expert_ffn=_EXPERT_FFN,
    ),
    TransformerFamily(
        "deepseek_v3 kimi_k2 glm4_moe_lite",
        attention_bias="attention_bias",
        experts="n_routed_experts",
        expert_ffn=_EXPERT_FFN,
        has_router_bias=True,
    ),
    TransformerFamily(
        "deepseek_v32",
        attention_bias="attention_bias",
        experts="n_routed_experts",
        expert_ffn=_EXPERT_FFN,
        has_router_bias=True,
        defaults=_DEEPSEEK_V3_2,
    ),
    TransformerFamily(
        "glm_moe_dsa",
        attention_bias="attention_bias",
        experts="n_routed_experts",
        expert_ffn=_EXPERT_FFN,
        has_router_bias=True,
        defaults=_GLM_5,
    ),
    TransformerFamily(
        "longcat_flash",
        layers="num_layers",
        ffn="ffn_hidden_size",
        experts="n_routed_experts",
        expert_ffn="expert_ffn_hidden_size",
        has_router_bias=True,
        defaults=_LONGCAT,
    ),
    TransformerFamily(
        "dots1",
        attention_bias="attention_bias",
        has_query_key_norm=True,
        experts="n_routed_experts",
        expert_ffn=_EXPERT_FFN,
        has_router_bias=True,
    ),
    TransformerFamily(
        "hunyuan_v1_moe",
        attention_bias="attention_bias",
        has_query_key_norm=True,
        experts="num_experts",
        expert_ffn=_EXPERT_FFN,
        shared_experts=1,
    ),
    TransformerFamily(
        "bailing_moe bailing_moe_v2",
        attention_bias="use_qkv_bias",
        has_output_bias=False,
        has_query_key_norm=True,
        experts="num_experts",
        expert_ffn=_EXPERT_FFN,
        has_router_bias=True,
    ),
    TransformerFamily(
        "step3_text",
        kv_heads="num_attention_groups",
        experts="moe_num_experts",
        expert_ffn=_EXPERT_FFN,
    ),
    TransformerFamily(
        "glm4_moe glm4v_moe_text",
        attention_bias="attention_bias",
        has_output_bias=False,
        experts="n_routed_experts",
        expert_ffn=_EXPERT_FFN,
        has_router_bias=True,
    ),
    TransformerFamily(
        "llama4_text",
        attention_bias="attention_bias",
        ffn="intermediate_size_mlp",
        experts="num_local_experts",
        expert_ffn="intermediate_size",
        shared_experts=1,
        window="attention_chunk_size",
        window_pattern=4,
    ),
    TransformerFamily(
        "minimax_m2",
        has_query_key_norm=True,
        norms_whole_projections=True,
        experts="num_local_experts",
        has_router_bias=True,
    ),
    TransformerFamily(
        "ernie4_5_moe",
        is_tied=True,
        attention_bias="use_bias",
        ffn_bias="use_bias",
        head_bias="use_bias",
        experts="moe_num_experts",
        expert_ffn=_EXPERT_FFN,
        has_router_bias=True,
    ),
    TransformerFamily(
        "dbrx",
        layers="n_layers",
        nested=("attn_config", "ffn_config"),
        hidden="d_model",
        heads="n_heads",
        kv_heads="kv_n_heads",
        ffn="ffn_hidden_size",
        experts="moe_num_experts",
    ),
    TransformerFamily(
        "gpt_oss",
        experts="num_local_experts",
        attention_bias="attention_bias",
        ffn_bias="all",
        switched_on=("attention_bias",),
        window_pattern=2,
    ),
)
"""Each as its class in transformers has it; the tests hold them against published counts."""
