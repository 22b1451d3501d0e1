"""Registry of families: dense decoders, encoders, mixtures."""

from types import MappingProxyType
from typing import Final

from rightsizer.planner.models.families.family import TransformerFamily
from rightsizer.planner.models.families.mixtures import MIXTURES

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
    TransformerFamily(
        "llama granite internlm2 yi baichuan",
        attention_bias="attention_bias",
        ffn_bias="mlp_bias",
        defaults=_LLAMA,
    ),
    TransformerFamily(
        "smollm3", is_tied=True, attention_bias="attention_bias", ffn_bias="mlp_bias"
    ),
    TransformerFamily("mistral ministral ministral3 phi3"),
    TransformerFamily("minicpm", is_tied=True),
    TransformerFamily(
        "qwen2 qwen2_vl qwen2_vl_text qwen2_5_vl qwen2_5_vl_text",
        attention_bias="qkv",
    ),
    TransformerFamily(
        "qwen3 qwen3_vl_text", attention_bias="attention_bias", has_query_key_norm=True
    ),
    TransformerFamily(
        "qwen3_5_text",
        attention_bias="attention_bias",
        has_query_key_norm=True,
        defaults=_QWEN_3_5,
    ),
    TransformerFamily("hunyuan_v1_dense", attention_bias="attention_bias", has_query_key_norm=True),
    TransformerFamily("mimo", attention_bias="attention_bias", has_output_bias=False),
    TransformerFamily(
        "apertus", is_gated=False, attention_bias="attention_bias", has_query_key_norm=True
    ),
    TransformerFamily("ernie4_5", is_tied=True, attention_bias="use_bias", ffn_bias="use_bias"),
    TransformerFamily("mllama_text_model", defaults=_LLAMA_3_2_VISION),
    TransformerFamily("gemma", is_tied=True, attention_bias="attention_bias"),
    TransformerFamily(
        "gemma2",
        is_tied=True,
        layer_norms=4,
        attention_bias="attention_bias",
        window_pattern=2,
    ),
    TransformerFamily(
        "gemma3_text",
        is_tied=True,
        layer_norms=4,
        attention_bias="attention_bias",
        has_query_key_norm=True,
        window_pattern=6,
        defaults=_GEMMA_3,
    ),
    TransformerFamily(
        "gemma3n_text",
        is_tied=True,
        layer_norms=4,
        has_query_key_norm=True,
        window_pattern=5,
        defaults=_GEMMA_3N,
    ),
    TransformerFamily("cohere", is_tied=True, layer_norms=1, attention_bias="attention_bias"),
    TransformerFamily(
        "cohere2",
        is_tied=True,
        layer_norms=1,
        attention_bias="attention_bias",
        window_pattern=4,
    ),
    TransformerFamily("glm", attention_bias="attention_bias", has_output_bias=False),
    TransformerFamily(
        "glm4", layer_norms=4, attention_bias="attention_bias", has_output_bias=False
    ),
    TransformerFamily("glm4v_text", layer_norms=4, attention_bias="qkv"),
    TransformerFamily(
        "chatglm",
        layers="num_layers",
        kv_heads="multi_query_group_num",
        ffn="ffn_hidden_size",
        vocab="padded_vocab_size",
        attention_bias="add_qkv_bias",
        has_output_bias=False,
    ),
    TransformerFamily("olmo", layer_norms=0, has_final_norm=False, attention_bias="attention_bias"),
    TransformerFamily(
        "olmo2 olmo3",
        attention_bias="attention_bias",
        has_query_key_norm=True,
        norms_whole_projections=True,
        window_pattern=4,
    ),
    TransformerFamily(
        "seed_oss",
        attention_bias="attention_bias",
        has_output_bias=False,
        ffn_bias="mlp_bias",
    ),
    TransformerFamily("exaone", layers="num_layers", is_tied=True),
    TransformerFamily("exaone4", has_query_key_norm=True, window_pattern=4),
    TransformerFamily(
        "nemotron",
        is_gated=False,
        norm_vectors=2,
        attention_bias="attention_bias",
        ffn_bias="mlp_bias",
    ),
    TransformerFamily(
        "stablelm", norm_vectors=2, attention_bias="use_qkv_bias", has_output_bias=False
    ),
    TransformerFamily(
        "phi",
        is_gated=False,
        norm_vectors=2,
        layer_norms=1,
        attention_bias="all",
        ffn_bias="all",
        head_bias="all",
    ),
    TransformerFamily(
        "falcon",
        kv_heads="num_kv_heads",
        ffn="ffn_hidden_size",
        is_gated=False,
        is_tied=True,
        norm_vectors=2,
        attention_bias="bias",
        ffn_bias="bias",
    ),
    TransformerFamily(
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
    TransformerFamily(
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
    TransformerFamily(
        "gpt_neox",
        is_gated=False,
        norm_vectors=2,
        attention_bias="attention_bias",
        ffn_bias="all",
        switched_on=("attention_bias",),
    ),
    TransformerFamily(
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
    TransformerFamily(
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
    TransformerFamily(
        "mpt",
        layers="n_layers",
        nested=("attn_config",),
        hidden="d_model",
        heads="n_heads",
        kv_heads="kv_n_heads",
        is_gated=False,
        is_tied=True,
    ),
    TransformerFamily(
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


ENCODERS: Final = (
    TransformerFamily(
        "bert roberta xlm-roberta camembert",
        is_gated=False,
        is_tied=True,
        norm_vectors=2,
        has_final_norm=False,
        has_embedding_norm=True,
        attention_bias="all",
        ffn_bias="all",
        positions="max_position_embeddings",
        has_pooler=True,
        is_encoder=True,
    ),
    TransformerFamily(
        "electra",
        embedding="embedding_size",
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
    # The final norm takes the place of the one that the first layer lacks.
    TransformerFamily(
        "modernbert",
        window="",
        is_tied=True,
        has_final_norm=False,
        has_embedding_norm=True,
        attention_bias="attention_bias",
        ffn_bias="mlp_bias",
        head_bias="decoder_bias",
        switched_on=("decoder_bias",),
        has_pooler=True,
        is_encoder=True,
    ),
    TransformerFamily(
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
    TransformerFamily(
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
    TransformerFamily(
        "siglip_text_model",
        is_gated=False,
        is_tied=True,
        norm_vectors=2,
        attention_bias="all",
        ffn_bias="all",
        positions="max_position_embeddings",
        has_pooler=True,
        is_encoder=True,
        defaults=MappingProxyType(
            {
                "hidden_size": 768,
                "intermediate_size": 3072,
                "num_hidden_layers": 12,
                "num_attention_heads": 12,
                "vocab_size": 32000,
                "max_position_embeddings": 64,
            }
        ),
    ),
)
"""Each as its class in transformers has it; the tests hold them against published counts."""


FAMILIES: Final = (*DECODERS, *MIXTURES, *ENCODERS)
"""All but models of an encoder and a decoder, and vision transformers, which are read apart."""
