"""Shapes and layouts that cannot be, each told by its key and with what would mend it."""

from collections.abc import Iterator

from rightsizer.domain.errors import RequirementError
from rightsizer.sizing.models import (
    ConvolutionalNetwork,
    Diffusion,
    Model,
    Recommender,
    Transformer,
    VisionTransformer,
)
from rightsizer.sizing.parameters import key_value_heads
from rightsizer.sizing.requirement import Parallelism

__all__ = ["check_model", "layout_fault"]

_COUNTS = {
    Transformer: (
        "layers hidden heads vocab kv_heads head_dim ffn experts experts_per_token dense_ffn"
        " sliding_window kv_lora_rank query_lora_rank value_head_dim parameters active_parameters"
    ),
    VisionTransformer: "layers hidden heads ffn image patch classes parameters",
    ConvolutionalNetwork: "parameters forward_flops activation_bytes image",
    Diffusion: "parameters forward_flops steps image latent_scale latent_patch",
    Recommender: "embedding_rows embedding_width dense_parameters lookups",
}
"""What has to be above zero where it is given."""
_NOT_NEGATIVE = {
    Transformer: (
        "shared_experts dense_layers windowed_layers rope_head_dim cached_layers state_elements"
        " borrowed_layers borrowed_windowed_layers repeated_parameters"
    ),
    Diffusion: "text_encoder_parameters decoder_parameters",
}


def check_model(model: Model) -> None:
    """Accept a model that can be.

    Raises:
        RequirementError: it cannot; all that is wrong with it, one line each.
    """
    faults = [*_sizes(model)]
    if not faults and isinstance(model, Transformer):
        faults += _transformer(model)
    if not faults and isinstance(model, VisionTransformer):
        faults += _vision_transformer(model)
    if faults:
        raise RequirementError("\n".join(faults))


def layout_fault(model: Model, layout: Parallelism) -> str | None:
    """Why a model cannot be spread so, or `None`."""
    if min(layout.tensor, layout.pipeline, layout.data) < 1:
        return "parallel: tensor, pipeline and data are at least 1 each"
    if not isinstance(model, Transformer | VisionTransformer):
        return None
    if model.heads % layout.tensor:
        return (
            f"parallel.tensor: {model.heads} heads do not divide by {layout.tensor};"
            " take a divisor of the heads"
        )
    if isinstance(model, Transformer) and not model.kv_lora_rank and "heads" not in model.assumed:
        # Engines give each GPU whole heads of keys, or one that several GPUs have. Heads that were
        # taken as usual refuse nothing: nobody gave their number.
        keys = key_value_heads(model)
        if keys % layout.tensor and layout.tensor % keys:
            return (
                f"parallel.tensor: {keys} kv_heads do not divide by {layout.tensor}, nor the other"
                " way around; take a divisor or a multiple of them"
            )
    if layout.pipeline > model.layers:
        return (
            f"parallel.pipeline: {layout.pipeline} stages for {model.layers} layers;"
            " take at most one stage a layer"
        )
    return None


def _sizes(model: Model) -> Iterator[str]:
    for kind, keys in _COUNTS.items():
        for key in keys.split() if isinstance(model, kind) else ():
            value = getattr(model, key)
            if value is not None and not value > 0:
                yield f"model.{key}: {value:g} is not above 0; give it as published"
    for kind, keys in _NOT_NEGATIVE.items():
        for key in keys.split() if isinstance(model, kind) else ():
            value = getattr(model, key)
            if value is not None and value < 0:
                yield f"model.{key}: {value:g} is negative; give 0 or more, or leave it out"


def _transformer(model: Transformer) -> Iterator[str]:
    if model.head_dim is None and model.kv_lora_rank is None and model.hidden % model.heads:
        yield (
            f"model.heads: a hidden width of {model.hidden} does not divide by {model.heads} heads;"
            " correct one of them, or give head_dim"
        )
    keys = key_value_heads(model)
    if model.heads % keys:
        yield (
            f"model.kv_heads: {model.heads} heads do not divide by {keys} kv_heads;"
            " take a divisor of heads"
        )
    if model.experts_per_token > model.experts:
        yield (
            f"model.experts_per_token: {model.experts_per_token} of {model.experts} experts;"
            " take at most as many as there are"
        )
    for key in ("dense_layers", "windowed_layers"):
        value = getattr(model, key)
        if value is not None and value > model.layers:
            yield f"model.{key}: {value} of {model.layers} layers; take at most all of them"
    if model.windowed_layers and model.sliding_window is None:
        yield "model.windowed_layers: no sliding_window is given; give it, or leave both out"
    if model.parameters and (model.active_parameters or 0.0) > model.parameters:
        yield (
            f"model.active_parameters: {model.active_parameters:g} of {model.parameters:g};"
            " a token passes at most all parameters"
        )


def _vision_transformer(model: VisionTransformer) -> Iterator[str]:
    if model.hidden % model.heads:
        yield (
            f"model.heads: a hidden width of {model.hidden} does not divide by {model.heads} heads;"
            " correct one of them"
        )
    if model.image < model.patch:
        yield (
            f"model.patch: {model.patch} pixels of an image of {model.image};"
            " a patch is at most as wide as the image"
        )
