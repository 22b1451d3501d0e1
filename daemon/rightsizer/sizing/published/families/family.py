"""What sets one family of Hugging Face models apart: the keys it uses, what it is made of."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

__all__ = ["Family"]


@dataclass(frozen=True, slots=True)
class Family:
    """How a family names its shape, and what it has beside its matrices."""

    types: str
    """Values of `model_type`, separated by blanks."""
    layers: str = "num_hidden_layers"
    nested: tuple[str, ...] = ()
    """Parts whose values are read as if they stood beside the others."""
    hidden: str = "hidden_size"
    heads: str = "num_attention_heads"
    kv_heads: str = "num_key_value_heads"
    ffn: str = "intermediate_size"
    embedding: str = "word_embed_proj_dim"
    """The key of how wide the embedding is where it is not as wide as the layers."""
    experts: str = ""
    expert_ffn: str = ""
    vocab: str = "vocab_size"
    window: str = "sliding_window"
    window_pattern: int = 0
    """Each so-many-th layer looks back at everything, the others through a window."""
    is_gated: bool = True
    is_tied: bool = False
    """Where the configuration does not say."""
    norm_vectors: int = 1
    """Of each norm: a weight, or a bias too."""
    layer_norms: int = 2
    has_final_norm: bool = True
    has_embedding_norm: bool = False
    attention_bias: str = ""
    """`qkv`, `all`, or the key that says so of all."""
    has_output_bias: bool = True
    """Where there are biases at all, that of attention's output too."""
    ffn_bias: str = ""
    """`all`, or the key that says so."""
    head_bias: str = ""
    """`all`, or the key that says so."""
    switched_on: tuple[str, ...] = ()
    """Keys of biases that are there where a configuration does not say."""
    has_query_key_norm: bool = False
    norms_whole_projections: bool = False
    """Queries and keys of all heads in one norm, not each head by itself."""
    has_router_bias: bool = False
    has_pooler: bool = False
    shared_experts: int = 0
    """That every token passes, where no key tells."""
    positions: str = ""
    """The key of how many learned positions there are."""
    position_offset: int = 0
    is_encoder: bool = False
    defaults: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    """Values that the family's configurations leave out."""
