"""Models by properties that determine size and speed: transformers, images, recommenders."""

import math
from typing import Final

from msgspec import Struct

_SCALED: Final = 128
"""Elements of an 8-bit key that share a scale."""
_SCALE_BYTES: Final = 4
_LATENT_HEAD_DIM: Final = 128
"""Default for multi-head latent attention (DeepSeek V2 and V3, config.json)."""


class LayerKind(Struct, frozen=True):
    """Layers with the same parts."""

    layers: int
    has_attention: bool = False
    has_feed_forward: bool = True
    recurrent_inputs: int = 0
    """Elements per token projected by a recurrent mixer; 0 without such a mixer."""
    recurrent_width: int = 0
    """Elements per token produced by the recurrence."""
    parts: int = 2
    """Sequential parts, each with a norm and a residual; parallel ones count as one."""


class TokenIndexer(Struct, frozen=True):
    """Separate small attention with many heads and one key (DeepSeek-V3.2, arXiv:2512.02556)."""

    heads: int
    head_dim: int
    tokens: int
    """Maximum number of selected tokens."""
    layers: int
    """Layers with an indexer; the others reuse the selection of the layer before."""

    @property
    def key_bytes(self) -> int:
        """Per token and layer: engines store keys in 8 bits regardless of the cache format.

        132 bytes for a key of width 128 (vLLM, `DeepseekV32IndexerCache`).
        """
        return self.head_dim + math.ceil(self.head_dim / _SCALED) * _SCALE_BYTES

    @property
    def width(self) -> int:
        """Total of all heads."""
        return self.heads * self.head_dim


class UnreadParameters(Struct, frozen=True):
    """Parameters outside the layers, all in memory."""

    tables: float = 0.0
    """Tables with one row read per token, besides the embedding; quantized like the embedding."""
    towers: float = 0.0
    """Vision or audio encoders, used once per image or sound."""
    encoder_elements: float = 0.0
    """Numbers live while a vision encoder reads the largest image, which engines try at start."""
    are_towers_quantized: bool = False
    """Whether quantization includes the towers; otherwise they stay in 16 bits."""

    @property
    def total(self) -> float:
        """Total of both."""
        return self.tables + self.towers


class Transformer(Struct, frozen=True):
    """Decoder or encoder of tokens."""

    layers: int
    hidden: int
    heads: int
    vocab: int
    name: str = ""
    parameters: float | None = None
    """As published, without `unread`; derived from the shape if not given."""
    active_parameters: float | None = None
    """Used per token in a mixture of experts."""
    kv_heads: int | None = None
    """As many as heads if not given."""
    head_dim: int | None = None
    """Hidden width divided by heads if not given."""
    ffn: int | None = None
    """Width of the feed-forward part, or of one expert; four times the hidden width if not
    given."""
    gated_ffn: bool = True
    """Three matrices (SwiGLU) or two (GELU)."""
    tied_embeddings: bool = False
    attention_bias: bool = False
    query_key_norm: bool = False
    experts: int = 1
    experts_per_token: int = 1
    shared_experts: int = 0
    """Experts used by every token, each as wide as the others."""
    expert_input: int | None = None
    """Width of what experts receive and return, if narrower than `hidden`."""
    dense_layers: int = 0
    """Layers of a mixture of experts with one plain feed-forward part."""
    dense_ffn: int | None = None
    sliding_window: int | None = None
    """Number of tokens visible in a windowed layer."""
    windowed_layers: int | None = None
    """Number of windowed layers; all if a window is given without it."""
    kv_lora_rank: int | None = None
    """Rank of multi-head latent attention."""
    rope_head_dim: int = 0
    """Part of a head that multi-head latent attention leaves uncompressed."""
    query_lora_rank: int | None = None
    value_head_dim: int | None = None
    attention_in_16_bits: bool = False
    """Whether quantization excludes attention, as in gpt-oss."""
    stored_bytes: float | None = None
    """Of all tensors of a quantized checkpoint; derived from the shape if not given."""
    cached_layers: int | None = None
    """Layers with a KV cache; all if not given, none in an encoder."""
    cache_elements: float | None = None
    """Numbers cached per token by all layers that see every token; if not given, keys and values
    of all KV heads in each."""
    windowed_cache_elements: float = 0.0
    """The same of layers with a window, beside `cache_elements`."""
    borrowed_layers: int = 0
    """Layers without a cache that read that of an earlier layer."""
    borrowed_windowed_layers: int = 0
    indexer: TokenIndexer | None = None
    unread: UnreadParameters = UnreadParameters()
    state_elements: float = 0.0
    """Numbers kept by recurrent layers per request, regardless of length; one of 32 bits is two."""
    layer_kinds: tuple[LayerKind, ...] = ()
    """For models with layers that lack attention or the feed-forward part; empty if none do."""
    repeated_parameters: float = 0.0
    """Parameters used again by a token, because several layers share them."""
    input_ratio: float = 0.0
    """Fraction of layer parameters in an encoder before the decoder: only prompts use them, and
    generated tokens use the rest; 0 if all tokens use all."""
    sound_seconds: float = 0.0
    """Length of audio per request, for speech models; 0 for text requests."""
    assumed: frozenset[str] = frozenset()
    """Keys that were not given, with usual values for the model's size."""

    @property
    def head_width(self) -> int:
        """Width of one head; for multi-head latent attention without the rotated part."""
        if self.head_dim or self.kv_lora_rank:
            return self.head_dim or _LATENT_HEAD_DIM
        return self.hidden // self.heads

    @property
    def key_value_heads(self) -> int:
        """Number of key and value heads."""
        return self.kv_heads or self.heads

    @property
    def ffn_width(self) -> int:
        """Width of the feed-forward part, or of one expert."""
        return self.ffn or 4 * self.hidden

    @property
    def kinds(self) -> tuple[LayerKind, ...]:
        """Kinds of layers, also if all are alike."""
        return self.layer_kinds or (LayerKind(self.layers, has_attention=True),)

    @property
    def is_encoder(self) -> bool:
        """Whether tokens see both directions, so that nothing is kept of a request."""
        return self.cached_layers == 0 and not self.state_elements

    @property
    def writes(self) -> bool:
        """Whether it generates token by token, with a cache as the only state."""
        return not (self.is_encoder or self.sound_seconds or self.state_elements)

    @property
    def window_layers(self) -> int:
        """Number of layers with a sliding window."""
        if self.sliding_window is None:
            return 0
        return self.layers if self.windowed_layers is None else self.windowed_layers

    @property
    def attending_layers(self) -> int:
        """Layers that attend to individual tokens; all others consist of products only."""
        is_mixed = bool(self.layer_kinds) or self.state_elements > 0
        if self.cached_layers is None or not is_mixed:
            return self.layers
        return self.cached_layers

    @property
    def depth(self) -> float:
        """Number of layers, scaled to the usual two parts: a mixer and a feed-forward part."""
        return sum(kind.layers * kind.parts for kind in self.kinds) / 2.0


class ConvolutionalNetwork(Struct, frozen=True):
    """Convolutional network for images."""

    parameters: float
    forward_flops: float
    """Per image: two per multiply-add."""
    name: str = ""
    activation_bytes: float | None = None
    """Kept in training per image in 16 bits; derived from the FLOPs if not given."""
    image: int = 224
    outputs: float | None = None
    """Elements of all layers' outputs per image; derived from the FLOPs if not given."""
    is_transformer: bool = False
    """Whether these are layers of a transformer over patches, with little between products."""


class VisionTransformer(Struct, frozen=True):
    """Transformer over patches of an image."""

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
        """Patches of one image plus the class token."""
        return (self.image // self.patch) ** 2 + 1


class Diffusion(Struct, frozen=True):
    """Denoiser with its text encoder and latent decoder."""

    parameters: float
    """Denoiser only."""
    forward_flops: float | None = None
    """Per denoising step and image; derived from parameters and tokens if not given."""
    name: str = ""
    steps: int = 30
    guided: bool = True
    """Whether each step runs twice, with and without the prompt."""
    text_encoder_parameters: float = 0.0
    decoder_parameters: float = 8.4e7
    image: int = 1024
    latent_scale: int = 8
    """Pixels per latent pixel, along one side."""
    latent_patch: int = 2
    """Latent pixels per token, along one side."""
    frames: int = 1
    """Of a video; an image is one."""
    frame_scale: int = 4
    """Frames per latent frame, after the first."""
    layers: int | None = None
    hidden: int | None = None
    """Width of the denoiser's transformer; both derived from the parameters if not given."""
    token_parameters: float | None = None
    """Parameters multiplied with one token of the image or video; all if not given."""

    @property
    def latent_frames(self) -> int:
        """Frames of the latent video."""
        return 1 + (self.frames - 1) // self.frame_scale


class RecommenderModel(Struct, frozen=True):
    """Embedding tables and a small dense part."""

    embedding_rows: float
    embedding_width: int
    dense_parameters: float
    name: str = ""
    lookups: int = 100
    """Rows read per sample."""


LayeredModel = Transformer | VisionTransformer
ImageNetwork = ConvolutionalNetwork | VisionTransformer
Model = Transformer | ImageNetwork | Diffusion | RecommenderModel
