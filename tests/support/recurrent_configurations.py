"""Configurations of families with recurrent layers, by the widths that their models differ in."""

from typing import Any

__all__ = ["falcon", "granite", "jamba", "lfm2", "mamba", "nemotron", "zamba"]


def mamba(hidden: int, layers: int) -> dict[str, Any]:
    """Mamba, by its width and depth."""
    return {
        "model_type": "mamba",
        "hidden_size": hidden,
        "num_hidden_layers": layers,
        "intermediate_size": 2 * hidden,
        "state_size": 16,
        "conv_kernel": 4,
        "expand": 2,
        "time_step_rank": hidden // 16,
        "use_bias": False,
        "use_conv_bias": True,
        "vocab_size": 50280,
    }


def jamba(hidden: int, ffn: int, layers: int, heads: int) -> dict[str, Any]:
    """Jamba: one layer in eight attends, one in two is a mixture."""
    return {
        "model_type": "jamba",
        "hidden_size": hidden,
        "intermediate_size": ffn,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": 8,
        "num_experts": 16,
        "num_experts_per_tok": 2,
        "expert_layer_period": 2,
        "expert_layer_offset": 1,
        "attn_layer_period": 8,
        "attn_layer_offset": 4,
        "mamba_d_state": 16,
        "mamba_d_conv": 4,
        "mamba_expand": 2,
        "mamba_dt_rank": hidden // 16,
        "vocab_size": 65536,
        "tie_word_embeddings": False,
    }


def zamba(sizes: tuple[int, int, int], hybrids: tuple[int, ...], **more: Any) -> dict[str, Any]:
    """Zamba 2: width, layers, feed-forward, and the layers that share attention."""
    hidden, layers, ffn = sizes
    return {
        "model_type": "zamba2",
        "hidden_size": hidden,
        "num_hidden_layers": layers,
        "intermediate_size": ffn,
        "hybrid_layer_ids": list(hybrids),
        "layers_block_type": ["hybrid" if at in hybrids else "mamba" for at in range(layers)],
        "num_attention_heads": 32,
        "num_key_value_heads": 32,
        "mamba_headdim": 64,
        "n_mamba_heads": hidden // 32,
        "adapter_rank": 128,
        "vocab_size": 32000,
        **more,
    }


def nemotron(hidden: int, ffn: int, pattern: str, heads: int, **more: Any) -> dict[str, Any]:
    """Nemotron-H, by the pattern of its layers."""
    return {
        "model_type": "nemotron_h",
        "hidden_size": hidden,
        "intermediate_size": ffn,
        "num_hidden_layers": len(pattern),
        "hybrid_override_pattern": pattern,
        "num_attention_heads": heads,
        "num_key_value_heads": 8,
        "head_dim": 128,
        "mamba_num_heads": 128,
        "mamba_head_dim": 64,
        "n_groups": 8,
        "ssm_state_size": 128,
        "conv_kernel": 4,
        "vocab_size": 131072,
        "tie_word_embeddings": False,
        **more,
    }


def falcon(sizes: tuple[int, int, int], heads: tuple[int, int, int], **more: Any) -> dict[str, Any]:
    """Falcon-H1: width, feed-forward, layers; heads of attention and of the mixer."""
    hidden, ffn, layers = sizes
    return {
        "model_type": "falcon_h1",
        "hidden_size": hidden,
        "intermediate_size": ffn,
        "num_hidden_layers": layers,
        "num_attention_heads": heads[0],
        "num_key_value_heads": heads[1],
        "head_dim": 128,
        "mamba_n_heads": heads[2],
        "mamba_d_head": 128,
        "mamba_d_ssm": 128 * heads[2],
        "mamba_d_state": 256,
        "mamba_d_conv": 4,
        "mamba_n_groups": 1,
        "mamba_rms_norm": False,
        "tie_word_embeddings": False,
        **more,
    }


def lfm2(hidden: int, ffn: int, heads: int) -> dict[str, Any]:
    """LFM 2 of sixteen layers, six of which attend."""
    return {
        "model_type": "lfm2",
        "hidden_size": hidden,
        "block_ff_dim": ffn,
        "block_multiple_of": 256,
        "block_ffn_dim_multiplier": 1.0,
        "block_auto_adjust_ff_dim": True,
        "num_hidden_layers": 16,
        "full_attn_idxs": [2, 5, 8, 10, 12, 14],
        "num_attention_heads": heads,
        "num_key_value_heads": 8,
        "conv_L_cache": 3,
        "conv_bias": False,
        "vocab_size": 65536,
    }


def granite(hidden: int, heads: tuple[int, int, int], **more: Any) -> dict[str, Any]:
    """Granite 4.0 of forty layers, four of which attend."""
    attending = (5, 15, 25, 35)
    return {
        "model_type": "granitemoehybrid",
        "hidden_size": hidden,
        "num_hidden_layers": 40,
        "layer_types": ["attention" if at in attending else "mamba" for at in range(40)],
        "num_attention_heads": heads[0],
        "num_key_value_heads": heads[1],
        "mamba_n_heads": heads[2],
        "mamba_d_head": 64,
        "mamba_d_state": 128,
        "mamba_n_groups": 1,
        "mamba_expand": 2,
        "vocab_size": 100352,
        "tie_word_embeddings": True,
        **more,
    }
