"""Models whose layers are mostly recurrent: linear attention between layers of full attention."""

from dataclasses import replace
from typing import Final

from rightsizer.sizing.layer_kind import LayerKind
from rightsizer.sizing.models import Transformer
from rightsizer.sizing.parameters import attention_parameters, head_dimension
from rightsizer.sizing.published.configuration import Configuration

__all__ = ["has_linear_attention", "with_linear_attention"]

_INTERVAL: Final = 4
"""Each so-many-th layer has full attention, where the configuration does not say."""


def has_linear_attention(config: Configuration) -> bool:
    """Whether some layers keep a state of a request in place of a cache."""
    return config.whole("linear_num_value_heads") is not None


def with_linear_attention(shape: Transformer, config: Configuration) -> Transformer:
    """The shape with gated delta nets in all layers but those of full attention (Qwen3-Next).

    A state has a matrix of keys by values for each head (arXiv:2412.06464, equation 10), and what
    the convolution before it looks back at.

    Args:
        shape: With the parameters of full attention in every layer.
        config: Where the widths of the recurrent layers are.
    """
    named = config.names("layer_types")
    every = config.whole("full_attention_interval") or _INTERVAL
    full = min(named.count("full_attention") if named else shape.layers // every, shape.layers)
    recurrent = shape.layers - full
    value_heads = config.needed("linear_num_value_heads")
    key_width = config.needed("linear_key_head_dim")
    value_width = config.needed("linear_value_head_dim")
    reach = config.needed("linear_conv_kernel_dim")
    keys, values = config.needed("linear_num_key_heads") * key_width, value_heads * value_width
    convolved = 2 * keys + values
    inputs = convolved + values + 2 * value_heads
    projections = shape.hidden * (inputs + values)
    layer = projections + convolved * reach + 2 * value_heads + value_width
    is_gated = config.is_set("attn_output_gate", otherwise=True)
    gate = shape.hidden * shape.heads * head_dimension(shape) if is_gated else 0
    total = (shape.parameters or 0.0) + full * gate
    total += recurrent * (layer - attention_parameters(shape))
    state = value_heads * key_width * value_width + convolved * (reach - 1)
    kinds = (
        LayerKind(full, has_attention=True),
        LayerKind(recurrent, recurrent_inputs=inputs, recurrent_width=values),
    )
    return replace(
        shape,
        parameters=total,
        cached_layers=full,
        state_elements=float(recurrent * state),
        layer_kinds=tuple(kind for kind in kinds if kind.layers),
    )
