"""Mamba, Falcon Mamba and Mamba 2: every layer is recurrent, and there is nothing else."""

from typing import Final

from rightsizer.domain.errors import RequirementError
from rightsizer.sizing.layer_kind import LayerKind
from rightsizer.sizing.models import Transformer
from rightsizer.sizing.published.configuration import Configuration
from rightsizer.sizing.published.recurrent.hybrid import hybrid
from rightsizer.sizing.published.recurrent.layer_pattern import layer_count
from rightsizer.sizing.published.recurrent.mixer import Mixer
from rightsizer.sizing.published.recurrent.state_space import Mamba, Mamba2
from rightsizer.sizing.published.recurrent.widths import inner_width, time_step_rank

__all__ = ["read_mamba", "read_mamba2"]

_MAMBA: Final = {
    "vocab_size": 50280,
    "hidden_size": 768,
    "state_size": 16,
    "num_hidden_layers": 32,
    "expand": 2,
    "conv_kernel": 4,
}
_MAMBA_2: Final = {
    "num_heads": 128,
    "head_dim": 64,
    "vocab_size": 32768,
    "hidden_size": 4096,
    "state_size": 128,
    "num_hidden_layers": 64,
    "expand": 2,
    "conv_kernel": 4,
    "n_groups": 8,
}


def read_mamba(given: Configuration, name: str) -> Transformer:
    """Each channel is a head of its own, with a state of its own."""
    config = Configuration(given.values, _MAMBA)
    hidden = config.needed("hidden_size")
    # Falcon Mamba's file has an expansion of 16, and tells the width that it has beside it.
    inner = config.whole("intermediate_size") or inner_width(config, "expand")
    mixer = Mamba(
        hidden=hidden,
        inner=inner,
        state=config.needed("state_size"),
        rank=time_step_rank(config, "time_step_rank", hidden),
        reach=config.needed("conv_kernel"),
        has_bias=config.is_set("use_bias"),
        has_convolution_bias=config.is_set("use_conv_bias", otherwise=True),
    ).mixer
    return _stack(config, name, (inner, 1), mixer, is_tied=True)


def read_mamba2(given: Configuration, name: str) -> Transformer:
    """Heads, and groups of them.

    Raises:
        RequirementError: heads are not as wide together as the layer expands to.
    """
    config = Configuration(given.values, _MAMBA_2)
    heads, width = config.needed("num_heads"), config.needed("head_dim")
    inner = inner_width(config, "expand")
    if heads * width != inner:
        raise RequirementError(
            f"config.json: num_heads: {heads} heads of {width} are not {inner} wide, as hidden_size"
            " and expand tell; correct one of them"
        )
    has_bias = config.is_set("use_bias")
    mixer = Mamba2(
        hidden=config.needed("hidden_size"),
        heads=heads,
        head_dim=width,
        groups=config.needed("n_groups"),
        state=config.needed("state_size"),
        reach=config.needed("conv_kernel"),
        has_input_bias=has_bias,
        has_output_bias=has_bias,
        has_convolution_bias=config.is_set("use_conv_bias", otherwise=True),
    ).mixer
    return _stack(config, name, (heads, width), mixer, is_tied=False)


def _stack(
    config: Configuration, name: str, heads: tuple[int, int], mixer: Mixer, *, is_tied: bool
) -> Transformer:
    layers = layer_count(config)
    shape = Transformer(
        layers=layers,
        hidden=config.needed("hidden_size"),
        heads=heads[0],
        vocab=config.needed("vocab_size"),
        name=name,
        head_dim=heads[1],
        tied_embeddings=config.is_set("tie_word_embeddings", otherwise=is_tied),
    )
    kind = LayerKind(
        layers,
        has_feed_forward=False,
        recurrent_inputs=mixer.inputs,
        recurrent_width=mixer.width,
        parts=1,
    )
    return hybrid(shape, (kind,), mixer, 0.0)
