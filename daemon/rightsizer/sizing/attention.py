"""What attention takes: reading caches for new tokens, and products of a prompt with itself."""

from dataclasses import dataclass, replace
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
    """What all layers look at, whatever the stages."""
    tensor: int
    bytes_per_second: float
    flops_per_second: float
    index_flops_per_second: float
    """Of picking tokens, whose keys are of 8 bits."""

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
            cache=kv_cache(
                _unborrowed(model), kv_cache_format(precision), Parallelism(layout.tensor)
            ),
            tensor=layout.tensor,
            bytes_per_second=share * board.memory_bandwidth_bytes_per_second,
            flops_per_second=settings.attention_compute_ratio * flops,
            index_flops_per_second=settings.attention_compute_ratio
            * (board.achieved(Precision.FP8) or flops),
        )

    @property
    def is_causal(self) -> bool:
        """Whether tokens look back only; an encoder keeps no cache and looks both ways."""
        return not self.model.is_encoder

    def of_new_tokens(self, requests: float, context_tokens: float) -> PassCost:
        """One token of each request against all that came before it."""
        cache = self.cache
        picked = context_tokens
        if self.model.indexer is not None:
            picked = min(context_tokens, self.model.indexer.tokens)
        read = cache.bytes_per_token * picked + cache.index_bytes_per_token * context_tokens
        if cache.windowed_bytes_per_token:
            read += cache.windowed_bytes_per_token * min(context_tokens, cache.window_tokens)
        read += 2.0 * cache.state_bytes  # Read and written again.
        return PassCost(
            compute=self._compute_seconds(requests * self._seen(context_tokens), self._latent_width)
            + self._index_seconds(requests * context_tokens),
            bandwidth=requests * read / self.bytes_per_second,
        )

    def of_prompt(self, tokens: float, cached_tokens: float = 0.0) -> PassCost:
        """Every token of a prompt that is not cached, against those that it sees, cached or not."""
        pairs = self._pairs(tokens) - self._pairs(cached_tokens)
        # Kernels for the tokens that were picked work on what the cache keeps of them.
        width = self._head_width if self.model.indexer is None else self._latent_width
        looked_up = (tokens * tokens - cached_tokens * cached_tokens) / 2.0
        return PassCost(
            compute=self._compute_seconds(pairs, width) + self._index_seconds(looked_up)
        )

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
        return self.model.attending_layers

    @property
    def _window(self) -> float:
        """Tokens that a layer looks at, at most, where it does not look at everything."""
        if self.model.indexer is not None:
            return float(self.model.indexer.tokens)
        return float(self.model.sliding_window or 0)

    @property
    def _windowed(self) -> int:
        model = self.model
        if model.indexer is not None:
            return model.layers
        if model.sliding_window is None:
            return 0
        return model.layers if model.windowed_layers is None else model.windowed_layers

    def _compute_seconds(self, pairs: float, width: float) -> float:
        if not self.flops_per_second:
            return 0.0
        return 2.0 * pairs * self.model.heads * width / (self.tensor * self.flops_per_second)

    def _index_seconds(self, pairs: float) -> float:
        """Of picking tokens: products with each key, all heads on every GPU."""
        indexer = self.model.indexer
        if indexer is None or not self.index_flops_per_second:
            return 0.0
        return 2.0 * pairs * indexer.layers * indexer.width / self.index_flops_per_second

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


def _unborrowed(model: Transformer) -> Transformer:
    """As if each layer had a cache of its own: it is read as often as it is looked at."""
    if not model.borrowed_layers:
        return model
    return replace(model, cached_layers=None, borrowed_layers=0, borrowed_windowed_layers=0)
