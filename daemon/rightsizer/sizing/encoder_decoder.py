"""T5: an encoder and a decoder, as far as one stack of layers can stand for both."""

from rightsizer.sizing.configuration import Configuration
from rightsizer.sizing.models import Transformer

__all__ = ["read_encoder_decoder"]

_BUCKETS = 32
"""Of relative positions, where the configuration does not say."""


def read_encoder_decoder(config: Configuration, name: str) -> Transformer:
    """A stack as long as encoder and decoder together, with the exact parameters of both.

    A token of the input is cached by the decoder's cross-attention, one of the output by its
    self-attention: each by as many layers as the decoder has.
    """
    encoder = config.needed("num_layers")
    decoder = config.whole("num_decoder_layers") or encoder
    hidden, heads = config.needed("d_model"), config.needed("num_heads")
    width, ffn = config.needed("d_kv"), config.needed("d_ff")
    is_gated = config.text("feed_forward_proj").startswith("gated")
    is_tied = config.is_set("tie_word_embeddings", otherwise=True)
    vocab = config.needed("vocab_size")
    attention = 4 * hidden * heads * width + hidden
    feed_forward = (3 if is_gated else 2) * hidden * ffn + hidden
    positions = 2 * heads * (config.whole("relative_attention_num_buckets") or _BUCKETS)
    total = (
        vocab * hidden * (1 if is_tied else 2)
        + encoder * (attention + feed_forward)
        + decoder * (2 * attention + feed_forward)
        + positions
        + 2 * hidden
    )
    return Transformer(
        layers=encoder + decoder,
        hidden=hidden,
        heads=heads,
        vocab=vocab,
        name=name,
        parameters=float(total),
        head_dim=width,
        ffn=ffn,
        gated_ffn=is_gated,
        tied_embeddings=is_tied,
        cached_layers=decoder,
    )
