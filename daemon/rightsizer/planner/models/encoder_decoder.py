"""Encoders with decoders: T5, BART, Whisper, as one stack of layers."""

from msgspec.structs import replace

from rightsizer.planner.models.configuration import Configuration
from rightsizer.sizing.models import Transformer, UnreadParameters

_BUCKETS = 32
"""Relative positions, if the configuration does not state them."""
_FRAME_SECONDS = 0.02
BART_KINDS = {
    "bart": (2, 1),
    "mvp": (2, 1),
    "mbart": (2, 2),
    "pegasus": (0, 1),
    "blenderbot": (0, 1),
    "marian": (0, 0),
    "m2m_100": (None, 1),
}
"""By `model_type`: rows before the first position, `None` if none are kept, and norms of a stack
beside those of its layers."""


def _joined(
    shape: Transformer, encoder: int, attention: int, feed_forwards: tuple[int, int], beside: int
) -> Transformer:
    """Return a stack as long as both together, with their exact parameters.

    Input tokens (for speech, frames of 20 ms) are cached by the decoder's cross-attention, output
    tokens by its self-attention: each in as many layers as the decoder has.

    `shape` is the decoder's, with the encoder's widths where they differ; `encoder` its layers;
    `attention` includes its norm; `feed_forwards` are per layer of encoder and decoder;
    `beside`: everything outside of layers, embedding and head.
    """
    of_encoder, of_decoder = feed_forwards
    tables = shape.vocab * shape.hidden * (1 if shape.tied_embeddings else 2)
    first = encoder * (attention + of_encoder)
    second = shape.layers * (2 * attention + of_decoder)
    return replace(
        shape,
        layers=encoder + shape.layers,
        parameters=float(tables + first + second + beside),
        cached_layers=shape.layers,
        input_ratio=first / (first + second),
    )


def read_encoder_decoder(config: Configuration, name: str) -> Transformer:
    """Return both as one stack, with the exact parameters of both."""
    encoder = config.needed("num_layers")
    gated = config.text("feed_forward_proj").startswith("gated")
    shape = Transformer(
        layers=config.whole("num_decoder_layers") or encoder,
        hidden=config.needed("d_model"),
        heads=config.needed("num_heads"),
        vocab=config.needed("vocab_size"),
        name=name,
        head_dim=config.needed("d_kv"),
        ffn=config.needed("d_ff"),
        gated_ffn=config.is_set("is_gated_act", otherwise=gated),
        tied_embeddings=config.is_set("tie_word_embeddings", otherwise=True),
    )
    attention, feed_forward, positions = _t5_parts(config, is_gated=shape.gated_ffn)
    # Only the first layer of a stack has positions; in UMT5 each does.
    placed = encoder + shape.layers if config.text("model_type") == "umt5" else 2
    beside = placed * positions + 2 * shape.hidden
    return _joined(shape, encoder, attention, (feed_forward, feed_forward), beside)


def t5_encoder_parameters(config: Configuration, *, is_umt5: bool) -> float:
    """Return the parameters of only the encoder, with its embedding."""
    layers = config.needed("num_layers")
    hidden = config.needed("d_model")
    is_gated = config.text("feed_forward_proj").startswith("gated")
    attention, feed_forward, positions = _t5_parts(config, is_gated=is_gated)
    total = config.needed("vocab_size") * hidden + layers * (attention + feed_forward) + hidden
    return float(total + (layers if is_umt5 else 1) * positions)


def _t5_parts(config: Configuration, *, is_gated: bool) -> tuple[int, int, int]:
    """Return parameters of attention and feed-forward part, with norms, and of positions."""
    hidden = config.needed("d_model")
    heads = config.needed("num_heads")
    attention = 4 * hidden * heads * config.needed("d_kv") + hidden
    feed_forward = (3 if is_gated else 2) * hidden * config.needed("d_ff") + hidden
    buckets = config.whole("relative_attention_num_buckets") or _BUCKETS
    return attention, feed_forward, heads * buckets


def read_bart(config: Configuration, name: str) -> Transformer:
    """Return both as one stack, with the exact parameters of both."""
    encoder = config.needed("encoder_layers")
    shape = Transformer(
        layers=config.needed("decoder_layers"),
        hidden=config.needed("d_model"),
        heads=config.needed("encoder_attention_heads"),
        vocab=config.needed("vocab_size"),
        name=name,
        ffn=config.needed("encoder_ffn_dim"),
        gated_ffn=False,
        tied_embeddings=config.is_set("tie_word_embeddings", otherwise=True),
    )
    hidden = shape.hidden
    is_speech = config.text("model_type") == "whisper"
    attention = _attention(hidden, has_key_bias=not is_speech)
    feed_forwards = (
        _feed_forward(hidden, config.needed("encoder_ffn_dim")),
        _feed_forward(hidden, config.needed("decoder_ffn_dim")),
    )
    if is_speech:  # Positions of both, and layers before the encoder.
        places = config.needed("max_source_positions") + config.needed("max_target_positions")
        beside = places * hidden + _convolutions(config, hidden) + 4 * hidden
    else:
        offset, norms = BART_KINDS[config.text("model_type")]
        beside = 4 * norms * hidden
        if offset is not None:
            beside += 2 * (config.needed("max_position_embeddings") + offset) * hidden
    whole = _joined(shape, encoder, attention, feed_forwards, beside)
    if is_speech:  # A frame is 20 ms of sound.
        heard = config.needed("max_source_positions") * _FRAME_SECONDS
        whole = replace(whole, sound_seconds=heard)
    if shape.tied_embeddings or is_speech:
        return whole
    # Untied, both stacks have a separate table, beside an unused one.
    return replace(whole, unread=UnreadParameters(tables=2.0 * shape.vocab * hidden))


def speech_encoder_parameters(config: Configuration, keys: tuple[str, str, str]) -> int:
    """Return the parameters of Whisper's encoder, by keys of widths and layers."""
    hidden, ffn, layers = map(config.needed, keys)
    layer = _attention(hidden, has_key_bias=False) + _feed_forward(hidden, ffn)
    positions = config.needed("max_source_positions") * hidden
    return layers * layer + positions + _convolutions(config, hidden) + 2 * hidden


def _attention(hidden: int, *, has_key_bias: bool) -> int:
    """Include its norm; Whisper's keys have no bias."""
    return 4 * hidden**2 + (4 if has_key_bias else 3) * hidden + 2 * hidden


def _feed_forward(hidden: int, ffn: int) -> int:
    return 2 * hidden * ffn + ffn + hidden + 2 * hidden


def _convolutions(config: Configuration, hidden: int) -> int:
    """Two convolutions with a kernel of three frames."""
    return 3 * hidden * (config.needed("num_mel_bins") + hidden) + 2 * hidden
