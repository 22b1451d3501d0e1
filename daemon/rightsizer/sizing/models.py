"""Models by what their size and speed depend on: transformers, images, diffusion, recommenders."""

import math
from typing import Final

from rightsizer.model.frozen import dataclass, field

_SCALED: Final = 128
"""Elements of a key in 8 bits that share a scale."""
_SCALE_BYTES: Final = 4
_LATENT_HEAD_DIM: Final = 128
"""Of multi-head latent attention where it is not given (DeepSeek V2 and V3, config.json)."""


@dataclass(frozen=True, slots=True)
class LayerKind:
    """Layers that are made of the same parts."""

    layers: int
    has_attention: bool = False
    has_feed_forward: bool = True
    recurrent_inputs: int = 0
    """Elements of one token that a recurrent mixer projects to; 0 where there is no such mixer."""
    recurrent_width: int = 0
    """Elements of one token that the recurrence makes of them."""
    parts: int = 2
    """One after the other, each with a norm and a residual; what runs side by side is one."""


@dataclass(frozen=True, slots=True)
class TokenIndexer:
    """A small attention of its own, of many heads and one key (DeepSeek-V3.2, arXiv:2512.02556)."""

    heads: int
    head_dim: int
    tokens: int
    """That it picks, at most."""
    layers: int
    """That have one; the others look at what the layer before them picked."""

    @property
    def key_bytes(self) -> int:
        """Of one token in one layer: engines keep it in 8 bits, whatever the format of the cache.

        132 bytes where a key is 128 wide (vLLM, `DeepseekV32IndexerCache`).
        """
        return self.head_dim + math.ceil(self.head_dim / _SCALED) * _SCALE_BYTES

    @property
    def width(self) -> int:
        """Of all heads together."""
        return self.heads * self.head_dim

    def parameters(self, hidden: int, query_rank: int) -> int:
        """Of one layer: queries, the key with its norm, and the weight of each head."""
        return query_rank * self.width + hidden * (self.head_dim + self.heads) + 2 * self.head_dim


@dataclass(frozen=True, slots=True)
class UnreadParameters:
    """Parameters beside the layers, all in memory."""

    tables: float = 0.0
    """Of which a token reads a row, beside the embedding: as quantized checkpoints have that."""
    towers: float = 0.0
    """Of what sees or hears, which an image or a sound passes once."""
    are_towers_quantized: bool = False
    """Whether quantized weights have those of the towers too; else they stay in 16 bits."""

    @property
    def total(self) -> float:
        """All of them."""
        return self.tables + self.towers


@dataclass(frozen=True, slots=True)
class Transformer:
    """A decoder, or an encoder, of tokens."""

    layers: int
    hidden: int
    heads: int
    vocab: int
    name: str = ""
    parameters: float | None = None
    """As published, `unread` left out; counted from the shape where it is not given."""
    active_parameters: float | None = None
    """Used for one token of a mixture of experts."""
    kv_heads: int | None = None
    """As many as heads where it is not given."""
    head_dim: int | None = None
    """Hidden by heads where it is not given."""
    ffn: int | None = None
    """Width of the feed-forward part, of one expert where there are several; four times the hidden
    width where it is not given."""
    gated_ffn: bool = True
    """Three matrices (SwiGLU) or two (GELU)."""
    tied_embeddings: bool = False
    attention_bias: bool = False
    query_key_norm: bool = False
    experts: int = 1
    experts_per_token: int = 1
    shared_experts: int = 0
    """Experts that every token passes, each as wide as one of the others."""
    dense_layers: int = 0
    """Layers of a mixture of experts that have one plain feed-forward part."""
    dense_ffn: int | None = None
    sliding_window: int | None = None
    """Tokens that a windowed layer looks back."""
    windowed_layers: int | None = None
    """How many layers are windowed; all where a window is given and this is not."""
    kv_lora_rank: int | None = None
    """Of multi-head latent attention."""
    rope_head_dim: int = 0
    """The part of a head that multi-head latent attention keeps uncompressed."""
    query_lora_rank: int | None = None
    value_head_dim: int | None = None
    attention_in_16_bits: bool = False
    """Whether quantized weights leave attention out, as those of gpt-oss do."""
    cached_layers: int | None = None
    """Layers with a KV cache; all where it is not given, none in an encoder."""
    borrowed_layers: int = 0
    """Layers among those without a cache that look at the cache of an earlier one."""
    borrowed_windowed_layers: int = 0
    indexer: TokenIndexer | None = None
    unread: UnreadParameters = field(default_factory=UnreadParameters)
    state_elements: float = 0.0
    """Numbers that recurrent layers keep of one request of any length; one of 32 bits is two."""
    layer_kinds: tuple[LayerKind, ...] = ()
    """Where not each layer has attention and a feed-forward part; all have where it is empty."""
    repeated_parameters: float = 0.0
    """That a token passes again, for several layers have the same."""
    input_ratio: float = 0.0
    """Of the layers' parameters, those of an encoder before the decoder: prompts alone pass them,
    and tokens that are written pass the rest; 0 where all tokens pass all."""
    sound_seconds: float = 0.0
    """Of sound that a request is, of models that hear and write; 0 where requests are of text."""
    assumed: frozenset[str] = frozenset()
    """Keys that were not given and were taken as is usual for a model of this size."""

    @property
    def head_width(self) -> int:
        """Of one head; of multi-head latent attention without the rotated part."""
        if self.head_dim or self.kv_lora_rank:
            return self.head_dim or _LATENT_HEAD_DIM
        return self.hidden // self.heads

    @property
    def key_value_heads(self) -> int:
        """Heads of keys and values."""
        return self.kv_heads or self.heads

    @property
    def ffn_width(self) -> int:
        """Of the feed-forward part, of one expert where there are several."""
        return self.ffn or 4 * self.hidden

    @property
    def kinds(self) -> tuple[LayerKind, ...]:
        """What layers are made of, where they are all alike too."""
        return self.layer_kinds or (LayerKind(self.layers, has_attention=True),)

    @property
    def is_encoder(self) -> bool:
        """Whether tokens look both ways: nothing is kept of a request."""
        return self.cached_layers == 0 and not self.state_elements

    @property
    def writes(self) -> bool:
        """Whether it writes token by token, of layers that keep what they saw as a cache alone."""
        return not (self.is_encoder or self.sound_seconds or self.state_elements)

    @property
    def window_layers(self) -> int:
        """How many layers look back through a window."""
        if self.sliding_window is None:
            return 0
        return self.layers if self.windowed_layers is None else self.windowed_layers

    @property
    def attending_layers(self) -> int:
        """Layers that look at tokens one by one; what others do is no more than products."""
        is_mixed = bool(self.layer_kinds) or self.state_elements > 0
        if self.cached_layers is None or not is_mixed:
            return self.layers
        return self.cached_layers

    @property
    def depth(self) -> float:
        """Layers, as if each had the two parts that are usual: a mixer and a feed-forward part."""
        return sum(kind.layers * kind.parts for kind in self.kinds) / 2.0


@dataclass(frozen=True, slots=True)
class ConvolutionalNetwork:
    """A network of convolutions over images."""

    parameters: float
    forward_flops: float
    """Of one image: two for each multiply-add."""
    name: str = ""
    activation_bytes: float | None = None
    """That training keeps of one image in 16 bits; from the FLOPs where it is not given."""
    image: int = 224


@dataclass(frozen=True, slots=True)
class VisionTransformer:
    """A transformer over patches of an image."""

    layers: int
    hidden: int
    heads: int
    name: str = ""
    ffn: int | None = None
    image: int = 224
    patch: int = 16
    classes: int = 1000
    parameters: float | None = None

    @property
    def tokens(self) -> int:
        """Patches of one image, and the class token."""
        return (self.image // self.patch) ** 2 + 1


@dataclass(frozen=True, slots=True)
class Diffusion:
    """A denoiser with its text encoder and the decoder of its latents."""

    parameters: float
    """Of the denoiser."""
    forward_flops: float | None = None
    """Of one denoising step of one image; from parameters and tokens where it is not given."""
    name: str = ""
    steps: int = 30
    guided: bool = True
    """Whether each step runs twice, with and without the prompt."""
    text_encoder_parameters: float = 0.0
    decoder_parameters: float = 8.4e7
    image: int = 1024
    latent_scale: int = 8
    """Pixels by latent pixels, of one side."""
    latent_patch: int = 2
    """Latent pixels by tokens, of one side."""


@dataclass(frozen=True, slots=True)
class RecommenderModel:
    """Embedding tables and a small dense part."""

    embedding_rows: float
    embedding_width: int
    dense_parameters: float
    name: str = ""
    lookups: int = 100
    """Rows that one sample reads."""


LayeredModel = Transformer | VisionTransformer
Model = Transformer | ConvolutionalNetwork | VisionTransformer | Diffusion | RecommenderModel
