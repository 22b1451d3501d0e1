"""Encoders with decoders: T5, BART, Whisper, as one stack of layers."""

from rightsizer.model.frozen import dataclass, replace
from rightsizer.planner.models.configuration import Configuration
from rightsizer.sizing.models import Transformer, UnreadParameters


@dataclass(frozen=True, slots=True)
class TwoStacks:
    """The shape that both have; widths of the encoder where they differ."""

    encoder: int
    decoder: int
    hidden: int
    heads: int
    ffn: int
    vocab: int
    is_tied: bool
    is_gated: bool = False
    head_dim: int | None = None

    def joined(
        self, name: str, attention: int, feed_forwards: tuple[int, int], beside: int
    ) -> Transformer:
        """A stack as long as both together, with the exact parameters of both.

        A token of the input (of speech a frame of 20 ms) is cached by the decoder's
        cross-attention, one of the output by its self-attention: each by as many layers as the
        decoder has.

        `attention` with its norm; `feed_forwards` of a layer in the encoder and in the decoder;
        `beside`: all that is neither in layers nor in the embedding and the head.
        """
        of_encoder, of_decoder = feed_forwards
        total = (
            self.vocab * self.hidden * (1 if self.is_tied else 2)
            + self.encoder * (attention + of_encoder)
            + self.decoder * (2 * attention + of_decoder)
            + beside
        )
        return Transformer(
            layers=self.encoder + self.decoder,
            hidden=self.hidden,
            heads=self.heads,
            vocab=self.vocab,
            name=name,
            parameters=float(total),
            head_dim=self.head_dim,
            ffn=self.ffn,
            gated_ffn=self.is_gated,
            tied_embeddings=self.is_tied,
            cached_layers=self.decoder,
        )


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
