"""BART and Whisper: an encoder and a decoder with biases and learned positions."""

from dataclasses import replace

from rightsizer.sizing.models import Transformer
from rightsizer.sizing.published.configuration import Configuration
from rightsizer.sizing.published.families.two_stacks import TwoStacks
from rightsizer.sizing.unread_parameters import UnreadParameters

__all__ = ["read_bart", "speech_encoder_parameters"]

_OFFSET = 2
"""Learned positions of BART start after so many."""


def read_bart(config: Configuration, name: str) -> Transformer:
    """Both as one stack, with the exact parameters of both."""
    stacks = TwoStacks(
        encoder=config.needed("encoder_layers"),
        decoder=config.needed("decoder_layers"),
        hidden=config.needed("d_model"),
        heads=config.needed("encoder_attention_heads"),
        ffn=config.needed("encoder_ffn_dim"),
        vocab=config.needed("vocab_size"),
        is_tied=config.is_set("tie_word_embeddings", otherwise=True),
    )
    hidden, is_speech = stacks.hidden, config.text("model_type") == "whisper"
    attention = _attention(hidden, has_key_bias=not is_speech)
    feed_forwards = (
        _feed_forward(hidden, stacks.ffn),
        _feed_forward(hidden, config.needed("decoder_ffn_dim")),
    )
    beside = 4 * hidden + (_of_speech(config, hidden) if is_speech else _of_text(config, hidden))
    whole = stacks.joined(name, attention, feed_forwards, beside)
    if stacks.is_tied or is_speech:
        return whole
    # Untied, both stacks have a table of their own, beside one that nobody reads.
    return replace(whole, unread=UnreadParameters(tables=2.0 * stacks.vocab * hidden))


def speech_encoder_parameters(config: Configuration, hidden: int, ffn: int, layers: int) -> int:
    """Of Whisper's encoder alone, as models that hear have it."""
    layer = _attention(hidden, has_key_bias=False) + _feed_forward(hidden, ffn)
    positions = config.needed("max_source_positions") * hidden
    return layers * layer + positions + _convolutions(config, hidden) + 2 * hidden


def _attention(hidden: int, *, has_key_bias: bool) -> int:
    """With its norm; Whisper's keys have no bias."""
    return 4 * hidden**2 + (4 if has_key_bias else 3) * hidden + 2 * hidden


def _feed_forward(hidden: int, ffn: int) -> int:
    return 2 * hidden * ffn + ffn + hidden + 2 * hidden


def _of_text(config: Configuration, hidden: int) -> int:
    """Positions of both; mBART has a norm after each, beside those after the embeddings."""
    positions = 2 * (config.needed("max_position_embeddings") + _OFFSET) * hidden
    return positions + (4 * hidden if config.text("model_type") == "mbart" else 0)


def _of_speech(config: Configuration, hidden: int) -> int:
    """Positions of both, and what stands before the encoder."""
    places = config.needed("max_source_positions") + config.needed("max_target_positions")
    return places * hidden + _convolutions(config, hidden)


def _convolutions(config: Configuration, hidden: int) -> int:
    """Two of three frames."""
    return 3 * hidden * (config.needed("num_mel_bins") + hidden) + 2 * hidden
