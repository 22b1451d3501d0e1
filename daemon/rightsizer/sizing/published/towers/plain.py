"""Vision transformers whose patches go to the text one by one: CLIP, SigLIP, Pixtral, InternViT."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from rightsizer.sizing.published.configuration import Configuration
from rightsizer.sizing.published.towers.patches import patch_positions, patches, plain_layer, widths
from rightsizer.sizing.published.towers.tower import Tower

__all__ = ["PLAIN_TOWERS"]

_TIMM_PARAMETERS: Final = MappingProxyType({"mobilenetv5_300m_enc": 294_126_912})
"""Of networks that a file names and does not describe: what the published counts of gemma-3n-E2B
and E4B leave for it, the same in both."""
_CLIP: Final = MappingProxyType(
    {
        "hidden_size": 768,
        "intermediate_size": 3072,
        "num_hidden_layers": 12,
        "image_size": 224,
        "patch_size": 32,
    }
)
_SIGLIP: Final = MappingProxyType({**_CLIP, "patch_size": 16})
_IDEFICS: Final = MappingProxyType({**_CLIP, "hidden_size": 1152})
_PIXTRAL: Final = MappingProxyType(
    {"hidden_size": 1024, "intermediate_size": 4096, "num_hidden_layers": 24, "patch_size": 16}
)
_INTERN: Final = MappingProxyType(
    {**_PIXTRAL, "image_size": 448, "patch_size": 14, "num_hidden_layers": 24}
)


def _clip(config: Configuration) -> int:
    layers, hidden, ffn = widths(config)
    positions = (patch_positions(config) + 2) * hidden  # And the class token itself.
    return patches(config, hidden) + positions + 4 * hidden + layers * plain_layer(hidden, ffn)


def _without_class(config: Configuration) -> int:
    layers, hidden, ffn = widths(config)
    positions = (patch_positions(config) + 1) * hidden  # And a bias of the convolution.
    return patches(config, hidden) + positions + 2 * hidden + layers * plain_layer(hidden, ffn)


def _siglip(config: Configuration) -> int:
    _, hidden, ffn = widths(config)
    has_head = config.is_set("vision_use_head", otherwise=True)
    # A probe in place of one norm of a layer: it is as wide as half of that.
    pooled = plain_layer(hidden, ffn) - hidden if has_head else 0
    return _without_class(config) + pooled


def _pixtral(config: Configuration) -> int:
    layers, hidden, ffn = widths(config)
    layer = 4 * hidden**2 + 3 * hidden * ffn + 2 * hidden
    return patches(config, hidden) + hidden + layers * layer


def _intern(config: Configuration) -> int:
    """InternViT, by the keys of transformers and by those of its own files."""
    layers, hidden, ffn = widths(config)
    has_bias = config.is_set("attention_bias") or config.is_set("qkv_bias")
    has_norms = config.is_set("use_qk_norm") or config.is_set("qk_normalization")
    layer = 4 * hidden**2 + hidden + 2 * hidden * ffn + ffn + hidden
    layer += (3 * hidden if has_bias else 0) + (2 * hidden if has_norms else 0)
    norm = hidden if config.text("norm_type") == "rms_norm" else 2 * hidden
    positions = (patch_positions(config) + 3) * hidden
    return patches(config, hidden) + positions + layers * (layer + 2 * norm + 2 * hidden)


def _timm(config: Configuration) -> int | None:
    return _TIMM_PARAMETERS.get(config.text("architecture") or next(iter(_TIMM_PARAMETERS)))


PLAIN_TOWERS: Final[Mapping[str, Tower]] = MappingProxyType(
    {
        "clip_vision_model": (_clip, _CLIP),
        "siglip_vision_model": (_siglip, _SIGLIP),
        "idefics3_vision": (_without_class, _IDEFICS),
        "smolvlm_vision": (_without_class, _IDEFICS),
        "pixtral": (_pixtral, _PIXTRAL),
        "internvl_vision": (_intern, _INTERN),
        "intern_vit_6b": (_intern, _INTERN),
        "gemma3n_vision": (_timm, MappingProxyType({})),
    }
)
"""By `model_type` of the part: what counts it, and the values that its files leave out."""
