"""Configurations of well-known models as published, and how many parameters each has."""

from typing import Any, Final

__all__ = ["PUBLISHED"]


def _llama(hidden: int, ffn: int, layers: int, heads: int, **more: Any) -> dict[str, Any]:
    return {
        "model_type": "llama",
        "hidden_size": hidden,
        "intermediate_size": ffn,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "vocab_size": 32000,
        "tie_word_embeddings": False,
        **more,
    }


def _named(kind: str, sizes: tuple[int, int, int, int, int], **more: Any) -> dict[str, Any]:
    keys = ("hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads")
    return {
        "model_type": kind,
        **dict(zip((*keys, "vocab_size"), sizes, strict=True)),
        **more,
    }


def _gpt2(hidden: int, layers: int, heads: int, **more: Any) -> dict[str, Any]:
    return {
        "model_type": "gpt2",
        "n_embd": hidden,
        "n_layer": layers,
        "n_head": heads,
        "n_positions": 1024,
        "vocab_size": 50257,
        **more,
    }


def _opt(hidden: int, layers: int, heads: int, embedding: int = 0) -> dict[str, Any]:
    return {
        "model_type": "opt",
        "hidden_size": hidden,
        "ffn_dim": 4 * hidden,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "max_position_embeddings": 2048,
        "word_embed_proj_dim": embedding or hidden,
        "do_layer_norm_before": not embedding,
        "vocab_size": 50272,
    }


def _bloom(hidden: int, layers: int, heads: int) -> dict[str, Any]:
    return {
        "model_type": "bloom",
        "hidden_size": hidden,
        "n_layer": layers,
        "n_head": heads,
        "vocab_size": 250880,
    }


def _falcon(hidden: int, layers: int, heads: int, **more: Any) -> dict[str, Any]:
    return {
        "model_type": "falcon",
        "hidden_size": hidden,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "multi_query": True,
        "vocab_size": 65024,
        **more,
    }


def _deepseek(**more: Any) -> dict[str, Any]:
    return {
        "kv_lora_rank": 512,
        "qk_nope_head_dim": 128,
        "qk_rope_head_dim": 64,
        "v_head_dim": 128,
        "tie_word_embeddings": False,
        **more,
    }


PUBLISHED: Final[dict[str, tuple[dict[str, Any], float]]] = {
    "Llama-2-7B": (_llama(4096, 11008, 32, 32), 6_738_415_616),
    "Llama-2-13B": (_llama(5120, 13824, 40, 40), 13_015_864_320),
    "Llama-2-70B": (_llama(8192, 28672, 80, 64, num_key_value_heads=8), 68_976_648_192),
    "CodeLlama-34B": (_llama(8192, 22016, 48, 64, num_key_value_heads=8), 33_743_970_304),
    "Llama-3.1-8B": (
        _llama(4096, 14336, 32, 32, num_key_value_heads=8, vocab_size=128256),
        8_030_261_248,
    ),
    "Llama-3.1-70B": (
        _llama(8192, 28672, 80, 64, num_key_value_heads=8, vocab_size=128256),
        70_553_706_496,
    ),
    "Llama-3.1-405B": (
        _llama(16384, 53248, 126, 128, num_key_value_heads=8, vocab_size=128256),
        405_853_388_800,
    ),
    "Llama-3.2-1B": (
        _llama(
            2048,
            8192,
            16,
            32,
            num_key_value_heads=8,
            head_dim=64,
            vocab_size=128256,
            tie_word_embeddings=True,
        ),
        1_235_814_400,
    ),
    "Mistral-7B": (
        _named("mistral", (4096, 14336, 32, 32, 32000), num_key_value_heads=8),
        7_241_732_096,
    ),
    "Mixtral-8x7B": (
        _named(
            "mixtral",
            (4096, 14336, 32, 32, 32000),
            num_key_value_heads=8,
            num_local_experts=8,
            num_experts_per_tok=2,
        ),
        46_702_792_704,
    ),
    "Qwen2.5-0.5B": (
        _named(
            "qwen2",
            (896, 4864, 24, 14, 151936),
            num_key_value_heads=2,
            tie_word_embeddings=True,
        ),
        494_032_768,
    ),
    "Qwen2.5-7B": (
        _named("qwen2", (3584, 18944, 28, 28, 152064), num_key_value_heads=4),
        7_615_616_512,
    ),
    "Qwen1.5-MoE-A2.7B": (
        _named(
            "qwen2_moe",
            (2048, 5632, 24, 16, 151936),
            num_key_value_heads=16,
            num_experts=60,
            num_experts_per_tok=4,
            moe_intermediate_size=1408,
            shared_expert_intermediate_size=5632,
        ),
        14_315_784_192,
    ),
    "Qwen3-8B": (
        _named("qwen3", (4096, 12288, 36, 32, 151936), num_key_value_heads=8, head_dim=128),
        8_190_735_360,
    ),
    "Qwen3-30B-A3B": (
        _named(
            "qwen3_moe",
            (2048, 6144, 48, 32, 151936),
            num_key_value_heads=4,
            head_dim=128,
            num_experts=128,
            num_experts_per_tok=8,
            moe_intermediate_size=768,
        ),
        30_532_122_624,
    ),
    "Qwen3-235B-A22B": (
        _named(
            "qwen3_moe",
            (4096, 12288, 94, 64, 151936),
            num_key_value_heads=4,
            head_dim=128,
            num_experts=128,
            num_experts_per_tok=8,
            moe_intermediate_size=1536,
        ),
        235_093_634_560,
    ),
    "gemma-2b": (
        _named("gemma", (2048, 16384, 18, 8, 256000), num_key_value_heads=1, head_dim=256),
        2_506_172_416,
    ),
    "gemma-7b": (
        _named("gemma", (3072, 24576, 28, 16, 256000), num_key_value_heads=16, head_dim=256),
        8_537_680_896,
    ),
    "gemma-2-9b": (
        _named(
            "gemma2",
            (3584, 14336, 42, 16, 256000),
            num_key_value_heads=8,
            head_dim=256,
            sliding_window=4096,
        ),
        9_241_705_984,
    ),
    "gemma-2-27b": (
        _named("gemma2", (4608, 36864, 46, 32, 256000), num_key_value_heads=16, head_dim=128),
        27_227_128_320,
    ),
    "gemma-3-1b": (
        _named(
            "gemma3_text",
            (1152, 6912, 26, 4, 262144),
            num_key_value_heads=1,
            head_dim=256,
            sliding_window=512,
            sliding_window_pattern=6,
        ),
        999_885_952,
    ),
    "phi-1.5": (_named("phi", (2048, 8192, 24, 32, 51200)), 1_418_270_720),
    "phi-2": (_named("phi", (2560, 10240, 32, 32, 51200)), 2_779_683_840),
    "Phi-3-mini": (_named("phi3", (3072, 8192, 32, 32, 32064)), 3_821_079_552),
    "falcon-7b": (_falcon(4544, 32, 71, parallel_attn=True), 6_921_720_704),
    "falcon-40b": (
        _falcon(8192, 60, 128, num_kv_heads=8, new_decoder_architecture=True),
        41_303_293_952,
    ),
    "gpt2": (_gpt2(768, 12, 12), 124_439_808),
    "gpt2-xl": (_gpt2(1600, 48, 25), 1_557_611_200),
    "gpt-j-6b": (
        {
            "model_type": "gptj",
            "n_embd": 4096,
            "n_layer": 28,
            "n_head": 16,
            "n_inner": None,
            "vocab_size": 50400,
            "tie_word_embeddings": False,
        },
        6_050_882_784,
    ),
    "starcoder": (
        _gpt2(
            6144,
            40,
            48,
            model_type="gpt_bigcode",
            n_positions=8192,
            vocab_size=49152,
            multi_query=True,
        ),
        15_517_456_384,
    ),
    "pythia-6.9b": (_named("gpt_neox", (4096, 16384, 32, 32, 50432)), 6_857_302_016),
    "pythia-12b": (_named("gpt_neox", (5120, 20480, 36, 40, 50688)), 11_846_072_320),
    "opt-125m": (_opt(768, 12, 12), 125_239_296),
    "opt-350m": (_opt(1024, 24, 16, 512), 331_196_416),
    "opt-6.7b": (_opt(4096, 32, 32), 6_658_473_984),
    "bloom-560m": (_bloom(1024, 24, 16), 559_214_592),
    "bloom": (_bloom(14336, 70, 112), 176_247_271_424),
    "mpt-7b": (
        {
            "model_type": "mpt",
            "d_model": 4096,
            "n_layers": 32,
            "n_heads": 32,
            "expansion_ratio": 4,
            "no_bias": True,
            "vocab_size": 50432,
            "attn_config": {"alibi": True},
        },
        6_649_286_656,
    ),
    "starcoder2-3b": (
        _named("starcoder2", (3072, 12288, 30, 24, 49152), num_key_value_heads=2, use_bias=True),
        3_030_371_328,
    ),
    "starcoder2-7b": (
        _named("starcoder2", (4608, 18432, 32, 36, 49152), num_key_value_heads=4, use_bias=True),
        7_173_923_840,
    ),
    "c4ai-command-r-v01": (
        _named("cohere", (8192, 22528, 40, 64, 256000), num_key_value_heads=64),
        34_980_831_232,
    ),
    "DeepSeek-V2-Lite": (
        _named(
            "deepseek_v2",
            (2048, 10944, 27, 16, 102400),
            n_routed_experts=64,
            n_shared_experts=2,
            num_experts_per_tok=6,
            moe_intermediate_size=1408,
            first_k_dense_replace=1,
            q_lora_rank=None,
            **_deepseek(),
        ),
        15_706_484_224,
    ),
    "DeepSeek-V3": (
        _named(
            "deepseek_v3",
            (7168, 18432, 61, 128, 129280),
            n_routed_experts=256,
            n_shared_experts=1,
            num_experts_per_tok=8,
            moe_intermediate_size=2048,
            first_k_dense_replace=3,
            q_lora_rank=1536,
            **_deepseek(),
        ),
        671_026_419_200,
    ),
    "gpt-oss-20b": (
        _named(
            "gpt_oss",
            (2880, 2880, 24, 64, 201088),
            num_key_value_heads=8,
            head_dim=64,
            num_local_experts=32,
            num_experts_per_tok=4,
            sliding_window=128,
        ),
        20_914_757_184,
    ),
    "gpt-oss-120b": (
        _named(
            "gpt_oss",
            (2880, 2880, 36, 64, 201088),
            num_key_value_heads=8,
            head_dim=64,
            num_local_experts=128,
            num_experts_per_tok=4,
            sliding_window=128,
        ),
        116_829_156_672,
    ),
    "bert-base-uncased": (
        _named(
            "bert",
            (768, 3072, 12, 12, 30522),
            max_position_embeddings=512,
            type_vocab_size=2,
        ),
        109_482_240,
    ),
    "roberta-base": (
        _named(
            "roberta",
            (768, 3072, 12, 12, 50265),
            max_position_embeddings=514,
            type_vocab_size=1,
        ),
        124_645_632,
    ),
    "distilbert-base-uncased": (
        {
            "model_type": "distilbert",
            "dim": 768,
            "hidden_dim": 3072,
            "n_layers": 6,
            "n_heads": 12,
            "max_position_embeddings": 512,
            "vocab_size": 30522,
        },
        66_362_880,
    ),
    "t5-small": (
        {
            "model_type": "t5",
            "d_model": 512,
            "d_ff": 2048,
            "d_kv": 64,
            "num_heads": 8,
            "num_layers": 6,
            "vocab_size": 32128,
        },
        60_506_624,
    ),
    "flan-t5-xl": (
        {
            "model_type": "t5",
            "d_model": 2048,
            "d_ff": 5120,
            "d_kv": 64,
            "num_heads": 32,
            "num_layers": 24,
            "num_decoder_layers": 24,
            "feed_forward_proj": "gated-gelu",
            "tie_word_embeddings": False,
            "vocab_size": 32128,
        },
        2_849_757_184,
    ),
    "vit-base-patch16-224": (
        _named("vit", (768, 3072, 12, 12, 0), image_size=224, patch_size=16),
        86_567_656,
    ),
}
"""Counts as the models' own cards and safetensors indexes give them."""
