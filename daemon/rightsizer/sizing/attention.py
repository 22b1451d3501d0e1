"""What attention takes: reading caches for new tokens, and products of a prompt with itself."""

from dataclasses import dataclass
from typing import Self

from rightsizer.catalogue.board import Board
from rightsizer.catalogue.precision import Precision
from rightsizer.sizing.kv_cache import KvCache, kv_cache, kv_cache_format
from rightsizer.sizing.models import Transformer
from rightsizer.sizing.parameters import head_dimension
from rightsizer.sizing.pass_cost import PassCost
from rightsizer.sizing.requirement import Parallelism, Precisions
from rightsizer.sizing.serving_settings import ServingSettings

__all__ = ["Attention"]


@dataclass(frozen=True, slots=True)
class Attention:
    """Attention of all layers on one GPU of a tensor-parallel group."""

    model: Transformer
    cache: KvCache
    """Of all layers, whatever the stages."""
    tensor: int
    bytes_per_second: float
    flops_per_second: float

    @classmethod
    def of(
        cls,
        model: Transformer,
        precision: Precisions,
        board: Board,
        layout: Parallelism,
        settings: ServingSettings,
    ) -> Self:
        """That of a model in the formats given; caches of 8 bits are multiplied in 16."""
        flops = board.achieved(Precision.BF16) or 0.0
        share = board.efficiency.decode_attention_ratio(Precision.BF16)
        return cls(
            model=model,
            cache=kv_cache(model, kv_cache_format(precision), Parallelism(layout.tensor)),
            tensor=layout.tensor,
            bytes_per_second=share * board.memory_bandwidth_bytes_per_second,
            flops_per_second=settings.attention_compute_ratio * flops,
        )

    @property
    def is_causal(self) -> bool:
        """Whether tokens look back only; an encoder keeps no cache and looks both ways."""
        return self.model.cached_layers != 0

    def of_new_tokens(self, requests: float, context_tokens: float) -> PassCost:
        """One token of each request against all that came before it."""
        cache = self.cache
        read = cache.bytes_per_token * context_tokens
        if cache.windowed_bytes_per_token:
            read += cache.windowed_bytes_per_token * min(context_tokens, cache.window_tokens)
        read += 2.0 * cache.state_bytes  # Read and written again.
        return PassCost(
            compute=self._compute_seconds(
                requests * self._seen(context_tokens), self._latent_width
            ),
            bandwidth=requests * read / self.bytes_per_second,
        )

    def of_prompt(self, tokens: float, cached_tokens: float = 0.0) -> PassCost:
        """Every token of a prompt that is not cached, against those that it sees, cached or not."""
        pairs = self._pairs(tokens) - self._pairs(cached_tokens)
        return PassCost(compute=self._compute_seconds(pairs, self._head_width))

    def _pairs(self, tokens: float) -> float:
        """Tokens with tokens that they see, over all layers: half where a model looks back."""
        if not self.is_causal:
            return self._layers * tokens * tokens
        windowed = self._windowed * min(self._window, tokens / 2.0)
        return tokens * (windowed + (self._layers - self._windowed) * tokens / 2.0)

    def _seen(self, context_tokens: float) -> float:
        """Tokens that one new token looks at, over all layers."""
        whole = self._layers - self._windowed
        return self._windowed * min(context_tokens, self._window) + whole * context_tokens

    @property
    def _layers(self) -> int:
        """Those that look at tokens one by one; what recurrent ones do is no more than products."""
        model = self.model
        return (model.cached_layers or 0) if model.state_elements else model.layers

    @property
    def _window(self) -> float:
        return float(self.model.sliding_window or 0)

    @property
    def _windowed(self) -> int:
        model = self.model
        if model.sliding_window is None:
            return 0
        return model.layers if model.windowed_layers is None else model.windowed_layers

    def _compute_seconds(self, pairs: float, width: float) -> float:
        if not self.flops_per_second:
            return 0.0
        return 2.0 * pairs * self.model.heads * width / (self.tensor * self.flops_per_second)

    @property
    def _head_width(self) -> float:
        """Of queries with keys, and of weights with values."""
        model = self.model
        width = head_dimension(model)
        rotated = model.rope_head_dim if model.kv_lora_rank else 0
        return float(width + rotated + (model.value_head_dim or width))

    @property
    def _latent_width(self) -> float:
        """The same for a new token: latent attention works on what it keeps."""
        rank = self.model.kv_lora_rank
        return 2.0 * rank + self.model.rope_head_dim if rank else self._head_width
