"""Denoisers of diffusers that are known, by the class that loads them."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from rightsizer.domain.errors import RequirementError
from rightsizer.sizing.published.configuration import Configuration
from rightsizer.sizing.published.diffusion.crossed_transformers import (
    dit_work,
    hunyuan_dit_work,
    pixart_work,
    sana_work,
)
from rightsizer.sizing.published.diffusion.diffusion_unet import unet_work
from rightsizer.sizing.published.diffusion.joint_transformers import (
    auraflow_work,
    flux_work,
    qwen_image_work,
    stable_diffusion_3_work,
    z_image_work,
)
from rightsizer.sizing.published.diffusion.layer_work import Work

__all__ = ["DENOISERS", "Denoiser", "find_denoiser"]


@dataclass(frozen=True, slots=True)
class Denoiser:
    """One class, and what its pipeline does with it unless told otherwise."""

    name: str
    work: Callable[[Configuration, int, int], Work]
    """By its configuration, latent pixels of a side and tokens of the prompt."""
    text_tokens: int = 0
    """The longest prompt that the pipeline takes, which shorter ones are mostly filled up to."""
    patch: int | None = None
    """Latent pixels by tokens, of one side; as its `patch_size` where it is not given."""
    scale: int = 8
    """Pixels by latent pixels, of one side, where the decoder is not known."""
    has_size: bool = True
    """Whether `sample_size` tells what images it was made for."""
    is_guided: bool = True
    """Whether it runs with and without the prompt, unless it was taught the guidance."""


DENOISERS: Final = (
    Denoiser("UNet2DConditionModel", unet_work, 77, patch=2),
    Denoiser("SD3Transformer2DModel", stable_diffusion_3_work, 77 + 256),
    Denoiser("FluxTransformer2DModel", flux_work, 512, patch=2, has_size=False, is_guided=False),
    Denoiser("PixArtTransformer2DModel", pixart_work, 300),
    Denoiser("DiTTransformer2DModel", dit_work),
    Denoiser("HunyuanDiT2DModel", hunyuan_dit_work),
    Denoiser("SanaTransformer2DModel", sana_work, 300, scale=32),
    Denoiser("AuraFlowTransformer2DModel", auraflow_work, 256),
    Denoiser("QwenImageTransformer2DModel", qwen_image_work, 512, has_size=False),
    Denoiser("ZImageTransformer2DModel", z_image_work, 512, patch=2, has_size=False),
)
"""The tests hold each against its published count, and against FLOPs counted while it ran."""
_OLD_CLASS: Final = "Transformer2DModel"
_OLD: Final = {
    "ada_norm_single": "PixArtTransformer2DModel",
    "ada_norm_zero": "DiTTransformer2DModel",
}
"""What files say that are older than these classes, by their `norm_type`."""
_VIDEO: Final = ("Transformer3DModel", "VideoTransformer", "UNetSpatioTemporal", "UNet3D", "Motion")


def find_denoiser(config: Configuration) -> Denoiser:
    """The class of a configuration.

    Raises:
        RequirementError: it is not known, or makes no images.
    """
    kind = config.text("_class_name")
    wanted = _OLD.get(config.text("norm_type"), kind) if kind == _OLD_CLASS else kind
    for known in DENOISERS:
        if known.name == wanted:
            return known
    if any(part in kind for part in _VIDEO) or kind.endswith("3DModel"):
        raise RequirementError(
            f"config.json: _class_name: {kind} makes videos, which are not read; describe the model"
            " in the plan instead (kind: diffusion, parameters, forward_flops of one step of a"
            " whole clip)"
        )
    raise RequirementError(
        f"config.json: _class_name: '{kind}' is no denoiser that is known; name the folder of a"
        " whole pipeline or its denoiser's file, or describe the model in the plan instead (kind:"
        f" diffusion, parameters, forward_flops). Known are {', '.join(d.name for d in DENOISERS)}"
    )
