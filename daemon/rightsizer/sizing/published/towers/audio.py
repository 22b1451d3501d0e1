"""How many parameters the part of a model has that hears, by the kind that its file names."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from rightsizer.sizing.published.configuration import Configuration
from rightsizer.sizing.published.families.bart import speech_encoder_parameters
from rightsizer.sizing.published.towers.tower import Tower

__all__ = ["AUDIO_TOWERS"]

_WHISPER: Final = MappingProxyType(
    {
        "d_model": 1280,
        "encoder_layers": 32,
        "encoder_ffn_dim": 5120,
        "num_mel_bins": 128,
        "max_source_positions": 1500,
    }
)
_VOXTRAL: Final = MappingProxyType(
    {
        "hidden_size": 1280,
        "num_hidden_layers": 32,
        "intermediate_size": 5120,
        "num_mel_bins": 128,
        "max_source_positions": 1500,
    }
)
_CONFORMER: Final = MappingProxyType(
    {
        "hidden_size": 1536,
        "conf_num_attention_heads": 8,
        "conf_num_hidden_layers": 12,
        "conf_conv_kernel_size": 5,
        "input_feat_size": 128,
    }
)
_CHANNELS: Final = (128, 32)
"""Of the two convolutions before a conformer, of three by three, which halve what they see."""
_KERNEL: Final = 9


def _whisper(config: Configuration) -> int:
    return speech_encoder_parameters(
        config,
        hidden=config.needed("d_model"),
        ffn=config.needed("encoder_ffn_dim"),
        layers=config.needed("encoder_layers"),
    )


def _voxtral(config: Configuration) -> int:
    return speech_encoder_parameters(
        config,
        hidden=config.needed("hidden_size"),
        ffn=config.needed("intermediate_size"),
        layers=config.needed("num_hidden_layers"),
    )


def _conformer(config: Configuration) -> int:
    """Of Gemma 3n: two feed-forward parts, attention and a convolution in each layer."""
    hidden = config.needed("hidden_size")
    head = hidden // config.needed("conf_num_attention_heads")
    feed_forward = 8 * hidden**2 + 2 * hidden
    attention = 5 * hidden**2 + head + 2 * hidden
    convolution = 3 * hidden**2 + (config.needed("conf_conv_kernel_size") + 2) * hidden
    layer = 2 * feed_forward + attention + convolution + hidden
    first, second = _CHANNELS
    bins = config.needed("input_feat_size") // 4
    before = _KERNEL * first * (1 + second) + first + second + second * bins * hidden
    return before + config.needed("conf_num_hidden_layers") * layer


AUDIO_TOWERS: Final[Mapping[str, Tower]] = MappingProxyType(
    {
        "qwen2_audio_encoder": (_whisper, _WHISPER),
        "voxtral_encoder": (_voxtral, _VOXTRAL),
        "gemma3n_audio": (_conformer, _CONFORMER),
    }
)
"""By `model_type` of the part: what counts it, and the values that its files leave out."""
