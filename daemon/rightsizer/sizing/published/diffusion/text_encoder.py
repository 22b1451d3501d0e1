"""Text encoders of diffusion models: the part of a language model that their pipelines load."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from rightsizer.domain.errors import RequirementError
from rightsizer.sizing.parameters import count_parameters
from rightsizer.sizing.published.configuration import Configuration
from rightsizer.sizing.published.hugging_face import read_config

__all__ = ["TextEncoder", "read_text_encoder"]

_HALVES: Final = ("T5EncoderModel", "MT5EncoderModel", "UMT5EncoderModel")
"""Classes that load an encoder without its decoder."""
_WITH_HEAD: Final = ("ForCausalLM", "ForConditionalGeneration", "LMHeadModel")
_REMEDY: Final = (
    "of a diffusion model, describe the whole in the plan instead (kind: diffusion, parameters,"
    " forward_flops, text_encoder_parameters)"
)
_BUCKETS: Final = 32
"""Of relative positions, where the configuration does not say."""


@dataclass(frozen=True, slots=True)
class TextEncoder:
    """What a plan has to know of a text encoder."""

    parameters: float
    notes: tuple[str, ...] = ()


def read_text_encoder(values: Mapping[str, object], loaded_as: str) -> TextEncoder:
    """A parsed `config.json` of transformers, as far as a class loads it.

    Raises:
        RequirementError: the kind of model is not known, or the shape cannot be.
    """
    config = Configuration(values, {})
    if loaded_as in _HALVES:
        return TextEncoder(_half(config, loaded_as))
    try:
        read = read_config(values)
    except RequirementError as error:
        raise RequirementError(f"{error}; {_REMEDY}") from None
    count = count_parameters(read.model)
    parameters = count.total
    if not loaded_as.endswith(_WITH_HEAD):
        parameters -= count.head
    if loaded_as.endswith("WithProjection"):
        parameters += config.needed("hidden_size") * config.needed("projection_dim")
    return TextEncoder(parameters, read.notes)


def _half(config: Configuration, loaded_as: str) -> float:
    """The encoder of T5; the first layer's table of positions serves all but in UMT5."""
    layers, hidden = config.needed("num_layers"), config.needed("d_model")
    heads, width = config.needed("num_heads"), config.needed("d_kv")
    matrices = 3 if config.text("feed_forward_proj").startswith("gated") else 2
    buckets = config.whole("relative_attention_num_buckets") or _BUCKETS
    tables = layers if loaded_as == "UMT5EncoderModel" else 1
    layer = 4 * hidden * heads * width + matrices * hidden * config.needed("d_ff") + 2 * hidden
    total = config.needed("vocab_size") * hidden + layers * layer + hidden
    return float(total + tables * buckets * heads)
