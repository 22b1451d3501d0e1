"""Published models with recurrent layers: what their files tell, and what is known of them."""

from typing import Any, Final, NamedTuple

from recurrent_configurations import (
    falcon,
    granite,
    jamba,
    lfm2,
    mamba,
    nemotron,
    zamba,
)

__all__ = ["PUBLISHED_RECURRENT"]


class Published(NamedTuple):
    """A model as its card and its safetensors index tell of it."""

    config: dict[str, Any]
    parameters: float
    active: float
    """Of one token; as many as there are where it is no mixture."""
    cached: int
    """Layers with keys and values."""
    token_bytes: int
    """Of keys and values in 16 bits."""
    state_bytes: int
    """By hand: what all recurrent layers keep, the convolutions' last tokens among it."""


_NEMOTRON_8B: Final = "M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M-"
_NEMOTRON_9B: Final = "M-M-M-MM-M-M-M*-M-M-M*-M-M-M-M*-M-M-M-M*-M-MM-M-M-M-M-M-"
_NEMOTRON_56B: Final = "M-M-M-M*-" + 9 * "M-M-M-M-M*-" + "M-M-M-M-M-"
_NEMOTRON_30B: Final = "MEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEMEM*EMEMEMEME"

_ROWS: Final = {
    # Mamba (arXiv:2312.00752): the counts of the checkpoints state-spaces/mamba-*-hf.
    "mamba-130m": (mamba(768, 24), 129_135_360, 0, 0, 0, 24 * 1536 * (16 + 3) * 2),
    "mamba-1.4b": (mamba(2048, 48), 1_372_178_432, 0, 0, 0, 48 * 4096 * (16 + 3) * 2),
    "mamba-2.8b": (mamba(2560, 64), 2_768_345_600, 0, 0, 0, 64 * 5120 * (16 + 3) * 2),
    # The file has an expansion of 16 beside the width that counts (card: 7.27B).
    "falcon-mamba-7b": (
        {
            **mamba(4096, 64),
            "model_type": "falcon_mamba",
            "expand": 16,
            "vocab_size": 65024,
            "tie_word_embeddings": False,
        },
        7.27e9,
        0,
        0,
        0,
        64 * 8192 * (16 + 3) * 2,
    ),
    # Mistral's announcement tells the count to the last one.
    "Codestral-Mamba-7B": (
        {
            "model_type": "mamba2",
            "hidden_size": 4096,
            "num_hidden_layers": 64,
            "num_heads": 128,
            "head_dim": 64,
            "n_groups": 8,
            "state_size": 128,
            "conv_kernel": 4,
            "expand": 2,
            "vocab_size": 32768,
            "tie_word_embeddings": False,
        },
        7_285_403_648,
        0,
        0,
        0,
        64 * (8192 * 128 + 3 * (8192 + 2 * 8 * 128)) * 2,
    ),
    # Jamba (arXiv:2403.19887) and Jamba 1.5 (arXiv:2408.12570): 52B of which 12B, 398B of 94B.
    "Jamba-v0.1": (
        jamba(4096, 14336, 32, 32),
        51.6e9,
        12e9,
        4,
        4 * 2 * 8 * 128 * 2,
        28 * 8192 * (16 + 3) * 2,
    ),
    "Jamba-1.5-Large": (
        jamba(8192, 24576, 72, 64),
        398e9,
        94e9,
        9,
        9 * 2 * 8 * 128 * 2,
        63 * 16384 * (16 + 3) * 2,
    ),
    # The card: 9.78B.
    "Bamba-9B": (
        {
            "model_type": "bamba",
            "hidden_size": 4096,
            "intermediate_size": 14336,
            "num_hidden_layers": 32,
            "attn_layer_indices": [9, 18, 27],
            "num_attention_heads": 32,
            "num_key_value_heads": 8,
            "mamba_n_heads": 128,
            "mamba_d_head": 64,
            "mamba_n_groups": 1,
            "mamba_d_state": 128,
            "mamba_d_conv": 4,
            "mamba_expand": 2,
            "vocab_size": 128256,
            "tie_word_embeddings": False,
        },
        9.78e9,
        0,
        3,
        3 * 2 * 8 * 128 * 2,
        29 * (8192 * 128 + 3 * (8192 + 2 * 128)) * 2,
    ),
    # Zamba 2 (arXiv:2411.15242): the safetensors of 1.2B; 7.36B on the card of 7B.
    "Zamba2-1.2B": (
        zamba(
            (2048, 38, 8192),
            (5, 11, 17, 23, 29, 35),
            num_mem_blocks=1,
            mamba_ngroups=1,
            mamba_d_state=128,
            use_shared_attention_adapter=True,
        ),
        1_215_064_704,
        0,
        6,
        6 * 2 * 32 * 128 * 2,
        38 * (4096 * 128 + 3 * (4096 + 2 * 128)) * 2,
    ),
    "Zamba2-7B": (
        zamba(
            (3584, 81, 14336),
            (6, 11, 17, 23, 29, 35, 41, 47, 53, 59, 65, 71, 77),
            num_mem_blocks=2,
            mamba_ngroups=2,
            mamba_d_state=64,
            use_shared_attention_adapter=False,
        ),
        7.36e9,
        0,
        13,
        13 * 2 * 32 * 224 * 2,
        81 * (7168 * 64 + 3 * (7168 + 2 * 2 * 64)) * 2,
    ),
    # Nemotron-H (arXiv:2504.03624, table 1): states in 32 bits. 8B by its safetensors, 56B by name.
    "Nemotron-H-8B": (
        nemotron(4096, 21504, _NEMOTRON_8B, 32),
        8_100_852_736,
        0,
        4,
        4 * 2 * 8 * 128 * 2,
        24 * (2 * 8192 * 128 + 3 * (8192 + 2 * 8 * 128)) * 2,
    ),
    "Nemotron-H-56B": (
        nemotron(8192, 32768, _NEMOTRON_56B, 64, mamba_num_heads=256, ssm_state_size=256),
        56e9,
        0,
        10,
        10 * 2 * 8 * 128 * 2,
        54 * (2 * 16384 * 256 + 3 * (16384 + 2 * 8 * 256)) * 2,
    ),
    # Nemotron Nano 2 (arXiv:2508.14444, table 1): 8.89B.
    "Nemotron-Nano-9B-v2": (
        nemotron(4480, 15680, _NEMOTRON_9B, 40, mamba_head_dim=80),
        8.89e9,
        0,
        4,
        4 * 2 * 8 * 128 * 2,
        27 * (2 * 10240 * 128 + 3 * (10240 + 2 * 8 * 128)) * 2,
    ),
    # Nemotron 3 Nano: 31.6B, of which 3.6B with embeddings.
    "Nemotron-3-Nano-30B-A3B": (
        nemotron(
            2688,
            1856,
            _NEMOTRON_30B,
            32,
            num_key_value_heads=2,
            mamba_num_heads=64,
            n_routed_experts=128,
            num_experts_per_tok=6,
            moe_intermediate_size=1856,
            moe_shared_expert_intermediate_size=3712,
        ),
        31.6e9,
        3.6e9,
        6,
        6 * 2 * 2 * 128 * 2,
        23 * (2 * 4096 * 128 + 3 * (4096 + 2 * 8 * 128)) * 2,
    ),
    # Falcon-H1 (arXiv:2507.22448): the safetensors of 0.5B; 7.59B and 33.6B on the cards.
    "Falcon-H1-0.5B": (
        falcon(
            (1024, 2048, 36),
            (8, 2, 24),
            head_dim=64,
            mamba_d_head=64,
            mamba_d_ssm=1536,
            mamba_d_state=128,
            vocab_size=32784,
        ),
        521_411_104,
        0,
        36,
        36 * 2 * 2 * 64 * 2,
        36 * (1536 * 128 + 3 * (1536 + 2 * 128)) * 2,
    ),
    "Falcon-H1-7B": (
        falcon((3072, 12288, 44), (12, 2, 24), vocab_size=130049),
        7.59e9,
        0,
        44,
        44 * 2 * 2 * 128 * 2,
        44 * (3072 * 256 + 3 * (3072 + 2 * 256)) * 2,
    ),
    "Falcon-H1-34B": (
        falcon((5120, 21504, 72), (20, 4, 32), mamba_n_groups=2, vocab_size=261120),
        33.6e9,
        0,
        72,
        72 * 2 * 4 * 128 * 2,
        72 * (4096 * 256 + 3 * (4096 + 2 * 2 * 256)) * 2,
    ),
    # LFM 2: the safetensors of LiquidAI/LFM2-*; the card of 8B-A1B tells 8.3B of which 1.5B.
    "LFM2-350M": (lfm2(1024, 6656, 16), 354_483_968, 0, 6, 6 * 2 * 8 * 64 * 2, 10 * 2 * 1024 * 2),
    "LFM2-1.2B": (
        lfm2(2048, 12288, 32),
        1_170_340_608,
        0,
        6,
        6 * 2 * 8 * 64 * 2,
        10 * 2 * 2048 * 2,
    ),
    "LFM2-8B-A1B": (
        {
            "model_type": "lfm2_moe",
            "hidden_size": 2048,
            "intermediate_size": 7168,
            "moe_intermediate_size": 1792,
            "num_hidden_layers": 24,
            "layer_types": [
                "full_attention" if at in {2, 6, 10, 14, 18, 21} else "conv" for at in range(24)
            ],
            "num_attention_heads": 32,
            "num_key_value_heads": 8,
            "num_experts": 32,
            "num_experts_per_tok": 4,
            "num_dense_layers": 2,
            "use_expert_bias": True,
            "conv_L_cache": 3,
            "vocab_size": 65536,
        },
        8.3e9,
        1.5e9,
        6,
        6 * 2 * 8 * 64 * 2,
        18 * 2 * 2048 * 2,
    ),
    # Granite 4.0: 32B of which 9B, and 3B that are dense.
    "granite-4.0-h-small": (
        granite(
            4096,
            (32, 8, 128),
            intermediate_size=768,
            shared_intermediate_size=1536,
            num_local_experts=72,
            num_experts_per_tok=10,
        ),
        32e9,
        9e9,
        4,
        4 * 2 * 8 * 128 * 2,
        36 * (8192 * 128 + 3 * (8192 + 2 * 128)) * 2,
    ),
    "granite-4.0-h-micro": (
        granite(
            2048,
            (32, 8, 64),
            intermediate_size=8192,
            shared_intermediate_size=8192,
            num_local_experts=0,
        ),
        3.19e9,
        0,
        4,
        4 * 2 * 8 * 64 * 2,
        36 * (4096 * 128 + 3 * (4096 + 2 * 128)) * 2,
    ),
}

PUBLISHED_RECURRENT: Final = {
    name: Published(config, total, active or total, cached, token, state)
    for name, (config, total, active, cached, token, state) in _ROWS.items()
}
"""Configurations are facts of the published files; a key that does not matter here is left out."""
