"""Published diffusion models: what their files say, and what they count and compute."""

from typing import Any, Final, NamedTuple

__all__ = ["CLIP_L", "DECODERS", "DENOISERS", "T5_XXL", "PublishedDenoiser"]


class PublishedDenoiser(NamedTuple):
    """A denoiser as its card tells of it, and as diffusers 0.42 runs it."""

    config: dict[str, Any]
    card: float
    """Parameters that its card or paper tells."""
    parameters: float
    """All that diffusers' class keeps of it, tables of positions among them."""
    image: int
    """Pixels of a side that the model was made for."""
    flops: float
    """Of one step of such an image with the longest prompt, as PyTorch's FLOP counter saw it."""


_STABLE: Final = {
    "_class_name": "UNet2DConditionModel",
    "sample_size": 64,
    "in_channels": 4,
    "out_channels": 4,
    "down_block_types": [*["CrossAttnDownBlock2D"] * 3, "DownBlock2D"],
    "up_block_types": ["UpBlock2D", *["CrossAttnUpBlock2D"] * 3],
    "block_out_channels": [320, 640, 1280, 1280],
    "layers_per_block": 2,
    "cross_attention_dim": 768,
    "attention_head_dim": 8,
}
_LARGE: Final = {
    **_STABLE,
    "sample_size": 128,
    "down_block_types": ["DownBlock2D", "CrossAttnDownBlock2D", "CrossAttnDownBlock2D"],
    "up_block_types": ["CrossAttnUpBlock2D", "CrossAttnUpBlock2D", "UpBlock2D"],
    "block_out_channels": [320, 640, 1280],
    "cross_attention_dim": 2048,
    "attention_head_dim": [5, 10, 20],
    "transformer_layers_per_block": [1, 2, 10],
    "use_linear_projection": True,
    "addition_embed_type": "text_time",
    "projection_class_embeddings_input_dim": 2816,
}
_SD3: Final = {
    "_class_name": "SD3Transformer2DModel",
    "sample_size": 128,
    "patch_size": 2,
    "in_channels": 16,
    "num_layers": 24,
    "attention_head_dim": 64,
    "num_attention_heads": 24,
    "joint_attention_dim": 4096,
    "caption_projection_dim": 1536,
    "pooled_projection_dim": 2048,
    "out_channels": 16,
    "pos_embed_max_size": 192,
}
_SD35: Final = {**_SD3, "qk_norm": "rms_norm"}
_PATCHED: Final = {
    "num_attention_heads": 16,
    "attention_head_dim": 72,
    "in_channels": 4,
    "out_channels": 8,
    "num_layers": 28,
    "attention_bias": True,
    "patch_size": 2,
    "num_embeds_ada_norm": 1000,
}
_PIXART: Final = {
    **_PATCHED,
    "_class_name": "PixArtTransformer2DModel",
    "sample_size": 128,
    "cross_attention_dim": 1152,
    "caption_channels": 4096,
    "norm_type": "ada_norm_single",
}
_DIT: Final = {
    **_PATCHED,
    "_class_name": "DiTTransformer2DModel",
    "sample_size": 32,
    "norm_type": "ada_norm_zero",
}
_FLUX: Final = {
    "_class_name": "FluxTransformer2DModel",
    "patch_size": 1,
    "in_channels": 64,
    "num_layers": 19,
    "num_single_layers": 38,
    "attention_head_dim": 128,
    "num_attention_heads": 24,
    "joint_attention_dim": 4096,
    "pooled_projection_dim": 768,
    "guidance_embeds": True,
}
_SANA: Final = {
    "_class_name": "SanaTransformer2DModel",
    "in_channels": 32,
    "out_channels": 32,
    "num_attention_heads": 70,
    "attention_head_dim": 32,
    "num_layers": 20,
    "cross_attention_dim": 2240,
    "caption_channels": 2304,
    "mlp_ratio": 2.5,
    "attention_bias": False,
    "sample_size": 32,
    "patch_size": 1,
}
_AURAFLOW: Final = {
    "_class_name": "AuraFlowTransformer2DModel",
    "sample_size": 64,
    "patch_size": 2,
    "in_channels": 4,
    "num_mmdit_layers": 4,
    "num_single_dit_layers": 32,
    "attention_head_dim": 256,
    "num_attention_heads": 12,
    "joint_attention_dim": 2048,
    "caption_projection_dim": 3072,
    "out_channels": 4,
    "pos_embed_max_size": 9216,
}
_QWEN: Final = {
    "_class_name": "QwenImageTransformer2DModel",
    "patch_size": 2,
    "in_channels": 64,
    "out_channels": 16,
    "num_layers": 60,
    "attention_head_dim": 128,
    "num_attention_heads": 24,
    "joint_attention_dim": 3584,
    "guidance_embeds": False,
}
_Z_IMAGE: Final = {
    "_class_name": "ZImageTransformer2DModel",
    "all_patch_size": [2],
    "all_f_patch_size": [1],
    "in_channels": 16,
    "dim": 3840,
    "n_layers": 30,
    "n_refiner_layers": 2,
    "n_heads": 30,
    "n_kv_heads": 30,
    "qk_norm": True,
    "cap_feat_dim": 2560,
}
DENOISERS: Final = {
    name: PublishedDenoiser(*row)
    for name, row in {
        "Stable Diffusion 1.5": (_STABLE, 859.5e6, 859_520_964, 512, 803_273_441_280),
        "Stable Diffusion 2.1": (
            {
                **_STABLE,
                "sample_size": 96,
                "cross_attention_dim": 1024,
                "attention_head_dim": [5, 10, 20, 20],
                "use_linear_projection": True,
            },
            866e6,
            865_910_724,
            768,
            2_149_105_745_920,
        ),
        "Stable Diffusion XL": (_LARGE, 2.567e9, 2_567_463_684, 1024, 6_761_236_398_080),
        "Stable Diffusion 3": (_SD3, 2.085e9, 2_084_951_104, 1024, 8_904_337_539_072),
        "Stable Diffusion 3.5 Large": (
            {
                **_SD35,
                "num_layers": 38,
                "num_attention_heads": 38,
                "caption_projection_dim": 2432,
            },
            8.1e9,
            8_146_280_768,
            1024,
            31_121_114_907_648,
        ),
        "Stable Diffusion 3.5 Medium": (
            {**_SD35, "pos_embed_max_size": 384, "dual_attention_layers": list(range(13))},
            2.47e9,
            2_469_663_936,
            1024,
            11_249_573_707_776,
        ),
        "FLUX.1 dev": (_FLUX, 11.9e9, 11_901_408_320, 1024, 74_384_653_418_496),
        "PixArt Alpha": (_PIXART, 0.61e9, 611_349_152, 1024, 6_633_581_248_512),
        # Its paper (arXiv:2212.09748) tells 675 million: diffusers keeps 28 tables of classes.
        "DiT-XL/2": (_DIT, 0.75e9, 749_826_464, 256, 237_333_676_032),
        "Sana 1.6B": (_SANA, 1.6e9, 1_604_462_752, 1024, 2_966_661_160_960),
        "AuraFlow": (_AURAFLOW, 6.8e9, 6_858_605_568, 512, 11_243_874_680_832),
        "Qwen-Image": (_QWEN, 20.4e9, 20_430_401_088, 1024, 78_303_922_225_152),
        "Z-Image": (_Z_IMAGE, 6.15e9, 6_154_908_736, 1024, 62_506_373_349_376),
    }.items()
}

_PLAIN: Final = {
    "_class_name": "AutoencoderKL",
    "block_out_channels": [128, 256, 512, 512],
    "layers_per_block": 2,
    "latent_channels": 4,
}
_DEEP: Final = {
    f"{half}_{key}": value
    for half, layers in (("encoder", [2, 2, 2, 3, 3, 3]), ("decoder", [3] * 6))
    for key, value in {
        "block_out_channels": [128, 256, 512, 512, 1024, 1024],
        "block_types": [*["ResBlock"] * 3, *["EfficientViTBlock"] * 3],
        "layers_per_block": layers,
        "qkv_multiscales": [[], [], [], [5], [5], [5]],
    }.items()
}
DECODERS: Final[dict[str, tuple[dict[str, Any], int, int]]] = {
    "Stable Diffusion": (_PLAIN, 83_653_863, 8),
    "FLUX.1": (
        {
            **_PLAIN,
            "latent_channels": 16,
            "use_quant_conv": False,
            "use_post_quant_conv": False,
        },
        83_819_683,
        8,
    ),
    "Qwen-Image": (
        {
            "_class_name": "AutoencoderKLQwenImage",
            "base_dim": 96,
            "z_dim": 16,
            "dim_mult": [1, 2, 4, 4],
            "num_res_blocks": 2,
            "temperal_downsample": [False, True, True],
        },
        126_892_531,
        8,
    ),
    "Sana": (
        {
            "_class_name": "AutoencoderDC",
            "attention_head_dim": 32,
            "latent_channels": 32,
            "downsample_block_type": "Conv",
            "upsample_block_type": "interpolate",
            **_DEEP,
        },
        312_250_275,
        32,
    ),
}
"""Their files, the parameters that diffusers' class keeps of them, and pixels by latent pixels."""

CLIP_L: Final = {
    "architectures": ["CLIPTextModel"],
    "model_type": "clip_text_model",
    "hidden_size": 768,
    "intermediate_size": 3072,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "vocab_size": 49408,
    "max_position_embeddings": 77,
    "projection_dim": 768,
}
T5_XXL: Final = {
    "architectures": ["T5EncoderModel"],
    "model_type": "t5",
    "d_model": 4096,
    "d_ff": 10240,
    "d_kv": 64,
    "num_heads": 64,
    "num_layers": 24,
    "num_decoder_layers": 24,
    "vocab_size": 32128,
    "feed_forward_proj": "gated-gelu",
    "tie_word_embeddings": False,
}
