"""A model of recurrent layers, alone or with layers of attention between them."""

from collections.abc import Iterable
from dataclasses import replace

from rightsizer.domain.errors import RequirementError
from rightsizer.sizing.layer_kind import LayerKind
from rightsizer.sizing.models import Transformer
from rightsizer.sizing.parameters import attention_parameters
from rightsizer.sizing.published.configuration import Configuration
from rightsizer.sizing.published.recurrent.mixer import Mixer
from rightsizer.sizing.soundness import check_model

__all__ = ["attention_shape", "feed_forward", "hybrid", "with_idle_experts"]


def attention_shape(
    config: Configuration, name: str, layers: int, *, is_tied: bool = False
) -> Transformer:
    """The shape of a model as its attention and its ends tell it.

    Args:
        config: With the defaults of its family.
        name: Of the model.
        layers: Of any kind.
        is_tied: Whether embedding and head are one where the configuration does not say.

    Raises:
        RequirementError: it cannot be.
    """
    heads, keys = config.needed("num_attention_heads"), "num_key_value_heads"
    is_null = keys in config.values and config.values[keys] is None
    shape = Transformer(
        layers=layers,
        hidden=config.needed("hidden_size"),
        heads=heads,
        vocab=config.needed("vocab_size"),
        name=name,
        kv_heads=heads if is_null else config.whole(keys) or heads,
        head_dim=config.whole("head_dim"),
        tied_embeddings=config.is_set("tie_word_embeddings", otherwise=is_tied),
    )
    check_model(shape)
    return shape


def hybrid(
    shape: Transformer,
    kinds: Iterable[LayerKind],
    mixer: Mixer,
    feed_forward_parameters: float,
    beside: float = 0.0,
) -> Transformer:
    """The shape with what its kinds of layers have and keep.

    Args:
        shape: Of attention and ends.
        kinds: All of its layers.
        mixer: Of recurrent layers.
        feed_forward_parameters: Of all layers together.
        beside: Parameters that are in none of these, nor in ends and norms.

    Raises:
        RequirementError: no layer mixes tokens.
    """
    present = tuple(kind for kind in kinds if kind.layers)
    attending = sum(kind.layers for kind in present if kind.has_attention)
    recurrent = sum(kind.layers for kind in present if kind.is_recurrent)
    if not attending + recurrent:
        raise RequirementError(
            "config.json: no layer has attention or a state; take the file as published with the"
            " model"
        )
    norms = 1 + sum(kind.layers * kind.parts for kind in present)
    total = shape.vocab * shape.hidden * (1 if shape.tied_embeddings else 2)
    total += norms * shape.hidden + recurrent * mixer.parameters
    attention = attending * attention_parameters(shape) if attending else 0.0
    is_windowed = shape.sliding_window is not None and attending > 0
    return replace(
        shape,
        parameters=total + attention + feed_forward_parameters + beside,
        sliding_window=shape.sliding_window if is_windowed else None,
        windowed_layers=attending if is_windowed else None,
        cached_layers=attending,
        state_elements=float(recurrent * mixer.state_elements),
        layer_kinds=present,
    )


def with_idle_experts(shape: Transformer, layers: int, expert: float) -> Transformer:
    """The shape of a mixture, with what one token passes.

    Args:
        shape: With all parameters.
        layers: Those that have experts.
        expert: Parameters of one.
    """
    check_model(shape)
    idle = layers * (shape.experts - shape.experts_per_token) * expert
    whole = shape.parameters or 0.0
    return replace(shape, active_parameters=whole - idle)


def feed_forward(hidden: int, ffn: int, *, is_gated: bool = True, has_bias: bool = False) -> int:
    """Parameters of one layer's feed-forward part."""
    inner = 2 if is_gated else 1
    return (inner + 1) * hidden * ffn + (inner * ffn + hidden if has_bias else 0)
