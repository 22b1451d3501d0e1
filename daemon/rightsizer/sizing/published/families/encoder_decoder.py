"""T5: an encoder and a decoder without biases, whose positions are relative."""

from rightsizer.sizing.models import Transformer
from rightsizer.sizing.published.configuration import Configuration
from rightsizer.sizing.published.families.two_stacks import TwoStacks

__all__ = ["read_encoder_decoder"]

_BUCKETS = 32
"""Of relative positions, where the configuration does not say."""


def read_encoder_decoder(config: Configuration, name: str) -> Transformer:
    """Both as one stack, with the exact parameters of both."""
    encoder = config.needed("num_layers")
    stacks = TwoStacks(
        encoder=encoder,
        decoder=config.whole("num_decoder_layers") or encoder,
        hidden=config.needed("d_model"),
        heads=config.needed("num_heads"),
        ffn=config.needed("d_ff"),
        vocab=config.needed("vocab_size"),
        is_tied=config.is_set("tie_word_embeddings", otherwise=True),
        is_gated=config.is_set(
            "is_gated_act", otherwise=config.text("feed_forward_proj").startswith("gated")
        ),
        head_dim=config.needed("d_kv"),
    )
    hidden, heads = stacks.hidden, stacks.heads
    attention = 4 * hidden * heads * config.needed("d_kv") + hidden
    feed_forward = (3 if stacks.is_gated else 2) * hidden * stacks.ffn + hidden
    # Of all layers of a stack the first has positions, in UMT5 each.
    placed = stacks.encoder + stacks.decoder if config.text("model_type") == "umt5" else 2
    positions = placed * heads * (config.whole("relative_attention_num_buckets") or _BUCKETS)
    return stacks.joined(name, attention, (feed_forward, feed_forward), positions + 2 * hidden)
