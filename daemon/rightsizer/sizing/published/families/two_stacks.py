"""An encoder and a decoder, as far as one stack of layers can stand for both."""

from dataclasses import dataclass

from rightsizer.sizing.models import Transformer

__all__ = ["TwoStacks"]


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

        Args:
            name: Of the model.
            attention: Parameters of one attention, with its norm.
            feed_forwards: Those of the other part of a layer, in the encoder and in the decoder.
            beside: All that is neither in layers nor in the embedding and the head.
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
