"""What activations take in models of images other than transformers, and in recommenders."""

from typing import Final

from rightsizer.sizing.block import Block
from rightsizer.sizing.models import ConvolutionalNetwork, Diffusion, Recommender
from rightsizer.sizing.number_format import NumberFormat

__all__ = [
    "convolution_inference_bytes",
    "convolution_training_bytes",
    "decoder_peak_bytes",
    "denoiser_block",
    "denoiser_tokens",
    "recommender_bytes",
]

_PIXELS: Final = 224.0**2
_OUTPUTS: Final = 6.5e6
"""Elements that convolutions write for a 224-pixel image at one GFLOP. With the cube root of the
FLOPs it meets the published counts of MobileNetV2 (6.7 M at 0.6), EfficientNet-B0 (6.7 M at 0.8),
ResNet-50 (11.1 M at 8.2) and ResNet-152 (22.6 M at 23) within a quarter."""
_KEPT_COPIES: Final = 4.0
"""Inputs of convolution, norm and ReLU and their outputs, of each of these elements: about 90 MB an
image for ResNet-50 in 16 bits."""
_LIVE_SHARE: Final = 1 / 12
"""Of what training keeps, what one forward pass holds at a time: input, output and workspace of
the widest layer."""
_DECODER_CHANNELS: Final = 1280.0
"""Elements live for one pixel at the peak of a latent decoder: its last block's 256 channels in,
128 out, the norm's fp32 copy, and the convolution's workspace."""
_ASPECT: Final = 128.0
"""Hidden width by layers, as is usual for transformers."""
_HEAD_DIM: Final = 64.0


def convolution_training_bytes(
    model: ConvolutionalNetwork, number_format: NumberFormat, images: float
) -> float:
    """Kept for the backward pass of so many images."""
    half = number_format.bytes_per_parameter / 2.0
    return images * half * _image_bytes(model)


def convolution_inference_bytes(
    model: ConvolutionalNetwork, number_format: NumberFormat, images: float
) -> float:
    """The peak of a forward pass over so many images."""
    return convolution_training_bytes(model, number_format, images) * _LIVE_SHARE


def decoder_peak_bytes(model: Diffusion, number_format: NumberFormat, images: float) -> float:
    """What turning latents into pixels takes; it often sets the peak of the whole pipeline."""
    return images * model.image**2 * _DECODER_CHANNELS * number_format.bytes_per_parameter


def denoiser_tokens(model: Diffusion) -> float:
    """Positions that one denoising step works on, both halves of guidance together."""
    side = model.image / (model.latent_scale * model.latent_patch)
    return side**2 * (2.0 if model.guided else 1.0)


def denoiser_block(model: Diffusion) -> Block:
    """The widths of a transformer with as many parameters: 12 times its square in each layer."""
    hidden = float((model.parameters * _ASPECT / 12.0) ** (1 / 3))
    heads = max(1, round(hidden / _HEAD_DIM))
    layers = max(1, round(hidden / _ASPECT))
    return Block(hidden, hidden, hidden, heads, 4 * hidden, is_gated=False, layers=layers)


def recommender_bytes(model: Recommender, samples: float, *, trains: bool) -> float:
    """Looked-up rows and the dense part's outputs in fp32; their gradients too where it trains."""
    width = model.lookups * model.embedding_width + float(model.dense_parameters**0.5)
    return samples * width * 4.0 * (2.0 if trains else 1.0)


def _image_bytes(model: ConvolutionalNetwork) -> float:
    """In 16 bits, by what is known: given, or as many outputs as is usual for the FLOPs."""
    if model.activation_bytes is not None:
        return model.activation_bytes
    images = model.image**2 / _PIXELS
    at_224 = model.forward_flops / 1e9 / images
    return float(images * _OUTPUTS * at_224 ** (1 / 3) * _KEPT_COPIES * 2.0)
