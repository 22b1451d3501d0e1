"""What picks the tokens that sparse attention looks at."""

import math
from dataclasses import dataclass
from typing import Final

__all__ = ["TokenIndexer"]

_SCALED: Final = 128
"""Elements of a key in 8 bits that share a scale."""
_SCALE_BYTES: Final = 4


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
