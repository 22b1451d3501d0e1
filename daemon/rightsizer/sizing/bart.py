"""BART and Whisper: an encoder and a decoder with biases, as one stack of layers."""

from rightsizer.sizing.configuration import Configuration
from rightsizer.sizing.models import Transformer

__all__ = ["read_bart"]

_BART_OFFSET = 2
"""Learned positions start after so many."""


def read_bart(config: Configuration, name: str) -> Transformer:
    """A stack as long as encoder and decoder together, with the exact parameters of both.

    A token of the input (of Whisper a frame of 20 ms) is cached by the decoder's cross-attention,
    one of the output by its self-attention: each by as many layers as the decoder has.
    """
    hidden, heads = config.needed("d_model"), config.needed("encoder_attention_heads")
    encoder, decoder = config.needed("encoder_layers"), config.needed("decoder_layers")
    ffn, vocab = config.needed("encoder_ffn_dim"), config.needed("vocab_size")
    is_tied = config.is_set("tie_word_embeddings", otherwise=True)
    is_speech = config.text("model_type") == "whisper"
    norm = 2 * hidden
    # Whisper's keys have no bias.
    attention = 4 * hidden**2 + (3 if is_speech else 4) * hidden + norm
    total = (
        vocab * hidden * (1 if is_tied else 2)
        + encoder * (attention + _feed_forward(hidden, ffn))
        + decoder * (2 * attention + _feed_forward(hidden, config.needed("decoder_ffn_dim")))
        + 2 * norm
        + (_of_speech(config, hidden) if is_speech else _of_text(config, hidden))
    )
    return Transformer(
        layers=encoder + decoder,
        hidden=hidden,
        heads=heads,
        vocab=vocab,
        name=name,
        parameters=float(total),
        ffn=ffn,
        gated_ffn=False,
        tied_embeddings=is_tied,
        cached_layers=decoder,
    )


def _feed_forward(hidden: int, ffn: int) -> int:
    return 2 * hidden * ffn + ffn + hidden + 2 * hidden


def _of_text(config: Configuration, hidden: int) -> int:
    """Positions of both; mBART has a norm after each, beside those after the embeddings."""
    positions = 2 * (config.needed("max_position_embeddings") + _BART_OFFSET) * hidden
    return positions + (4 * hidden if config.text("model_type") == "mbart" else 0)


def _of_speech(config: Configuration, hidden: int) -> int:
    """Positions of both, and two convolutions of three frames before the encoder."""
    places = config.needed("max_source_positions") + config.needed("max_target_positions")
    mels = config.needed("num_mel_bins")
    return places * hidden + 3 * hidden * (mels + hidden) + 2 * hidden
