"""Memory of a serving model on one GPU: weights, KV cache, activations, by requests in flight."""

import math
from bisect import bisect_right
from functools import cache, lru_cache
from typing import Final, NamedTuple

from msgspec import Struct

from rightsizer.sizing import activations
from rightsizer.sizing.memory_estimate import (
    MemoryEstimate,
    communication_bytes,
    graph_bytes,
    memory_error_factor,
)
from rightsizer.sizing.models import (
    ConvolutionalNetwork,
    Diffusion,
    LayeredModel,
    Model,
    RecommenderModel,
    Transformer,
    VisionTransformer,
)
from rightsizer.sizing.parameters import (
    NumberFormat,
    ParameterCount,
    attention_parameters,
    count_parameters,
    expert_parameters,
)
from rightsizer.sizing.requirement import Lora, Parallelism, Precisions, Requirement
from rightsizer.sizing.settings import MemorySettings

_SINGLE: Final = Parallelism()
_DEFAULTS: Final = MemorySettings()
_BLOCK_TOKENS: Final = 16
"""Block size of caches (vLLM's default)."""
_STATE_BYTES: Final = 2.0
"""States use the model's own number format (vLLM's `mamba_cache_dtype: auto`)."""
_ADAPTER_BYTES: Final = 2.0
_UNBOUNDED = 1 << 20
"""Limit of requests per replica if none uses memory of its own."""


def weight_bytes(
    model: Model, count: ParameterCount, number_format: NumberFormat, layout: Parallelism = _SINGLE
) -> float:
    """Weights on the fullest GPU.

    Quantized checkpoints keep embedding and head in 16 bits, except for recommenders, where these
    are all there is to quantize; for a diffusion model only the denoiser is quantized. Where one is
    at hand, all are as much as it stores.
    """
    shaped = _shaped_bytes(model, count, number_format, layout)
    stored = model.stored_bytes if isinstance(model, Transformer) else None
    if stored is None or not number_format.is_quantized:
        return shaped
    return shaped * stored / _shaped_bytes(model, count, number_format, _SINGLE)


def _shaped_bytes(
    model: Model, count: ParameterCount, number_format: NumberFormat, layout: Parallelism
) -> float:
    if isinstance(model, RecommenderModel):
        return placed_parameters(model, count, layout) * number_format.bytes_per_parameter
    if isinstance(model, Diffusion):
        denoiser = model.parameters / layout.tensor * number_format.bytes_per_parameter
        return denoiser + (count.total - model.parameters) * number_format.bytes_per_embedding
    staged, ends = _placed(model, count, layout)
    spread = 0.0
    if layout.expert > 1 and isinstance(model, Transformer):
        # Experts held by the other replicas that share them.
        shared = expert_parameters(model, count) / (count.layers or 1.0)
        spread = shared * (1.0 - 1.0 / layout.expert) * staged
    kept = stored_parameters(model, count, number_format) * staged / (count.layers or 1.0)
    ends += kept
    staged -= kept + spread
    if isinstance(model, Transformer) and model.unread.are_towers_quantized:
        towers = model.unread.towers / layout.tensor
        ends -= towers
        staged += towers
    return staged * number_format.bytes_per_parameter + ends * number_format.bytes_per_embedding


def stored_parameters(model: Model, count: ParameterCount, number_format: NumberFormat) -> float:
    """Parameters of all layers that a quantized checkpoint keeps in 16 bits."""
    if not isinstance(model, Transformer) or not number_format.is_quantized:
        return 0.0
    attention = min(count.layers, model.attending_layers * attention_parameters(model))
    return attention if model.attention_in_16_bits else 0.0


def placed_parameters(model: Model, count: ParameterCount, layout: Parallelism = _SINGLE) -> float:
    """Trainable parameters on the fullest GPU, before sharding by data parallelism.

    For a diffusion model these are the denoiser's; text encoder and decoder are not trained.
    """
    if isinstance(model, Diffusion):
        return model.parameters / layout.tensor
    return sum(_placed(model, count, layout))


def _placed(model: Model, count: ParameterCount, layout: Parallelism) -> tuple[float, float]:
    """Parameters of layers in the fullest stage, and of its embedding and head.

    The first stage has the embedding and unread parameters, the last one the head, or a copy of
    the embedding if they are shared.
    """
    if isinstance(model, LayeredModel):
        stage_share = math.ceil(model.layers / layout.pipeline) / model.layers
    else:
        stage_share = 1.0 / layout.pipeline
    first = count.embedding + count.unread
    ends = first + count.head if layout.pipeline == 1 else max(first, count.head)
    return count.layers * stage_share / layout.tensor, ends / layout.tensor


class KvCache(Struct, frozen=True, gc=False):
    """Cache of a request on one GPU, by length."""

    bytes_per_token: float
    """For layers that see all tokens."""
    windowed_bytes_per_token: float = 0.0
    window_tokens: float = math.inf
    index_bytes_per_token: float = 0.0
    """Keys for token selection in sparse attention."""
    state_bytes: float = 0.0
    """For recurrent layers, independent of length."""

    def request_bytes(self, tokens: float) -> float:
        """Cache of a request of the given length, in whole blocks."""
        whole = _in_blocks(tokens)
        within = min(whole, _in_blocks(self.window_tokens))
        windowed = self.windowed_bytes_per_token * within if self.windowed_bytes_per_token else 0.0
        of_token = self.bytes_per_token + self.index_bytes_per_token
        return of_token * whole + windowed + self.state_bytes


def kv_cache(model: Model, number_format: NumberFormat, layout: Parallelism = _SINGLE) -> KvCache:
    """Cache on the fullest GPU of a layout; empty for a model without one.

    Tensor parallelism divides the heads of keys and values, down to one per GPU. The cache of
    latent attention has no heads, so every GPU has all of it; likewise the keys of an indexer.
    """
    if not isinstance(model, Transformer):
        return KvCache(0.0)
    layers = model.layers if model.cached_layers is None else model.cached_layers
    if model.kv_lora_rank:
        width = float(model.kv_lora_rank + model.rope_head_dim)
    else:
        heads = model.key_value_heads
        width = 2.0 * heads * model.head_width / min(layout.tensor, heads)
    layer_bytes = width * number_format.bytes_per_parameter
    staged = math.ceil(layers / layout.pipeline)
    state = _STATE_BYTES * model.state_elements / (layout.tensor * layout.pipeline)
    if model.cache_elements is not None:
        divided = layout.pipeline * min(layout.tensor, model.key_value_heads)
        of_one = number_format.bytes_per_parameter / divided
        whole = model.cache_elements * of_one
        windows = model.windowed_cache_elements * of_one
        return KvCache(whole, windows, float(model.sliding_window or math.inf), state_bytes=state)
    if model.sliding_window is None:
        index = 0.0
        indexer = model.indexer
        if indexer is not None:
            index = math.ceil(indexer.layers / layout.pipeline) * float(indexer.key_bytes)
        return KvCache(staged * layer_bytes, index_bytes_per_token=index, state_bytes=state)
    windowed = layers
    if model.windowed_layers is not None:
        windowed = min(model.windowed_layers - model.borrowed_windowed_layers, layers)
    part = windowed / layers if layers else 0.0
    whole = staged * (1 - part) * layer_bytes
    windows = staged * part * layer_bytes
    return KvCache(whole, windows, float(model.sliding_window), state_bytes=state)


def kv_cache_format(precision: Precisions) -> NumberFormat:
    """Format as given, else that of the model's numbers, like vLLM's `auto` with any weights.

    Llama-3.1-70B in fp8 with the default was measured at x1.02 of the estimate with a 16-bit cache
    and x1.05 of that with an 8-bit cache (aiconfigurator's measurements, Apache-2.0).
    """
    if precision.kv_cache is not None:
        return precision.kv_cache
    return NumberFormat.FP32 if precision.weights is NumberFormat.FP32 else NumberFormat.BF16


def _in_blocks(tokens: float) -> float:
    return tokens if math.isinf(tokens) else math.ceil(tokens / _BLOCK_TOKENS) * _BLOCK_TOKENS


@lru_cache
def adapter_parameters(model: Model, lora: Lora) -> float:
    """Parameters of low-rank adapters: rank times input plus output width of each matrix."""
    if not isinstance(model, Transformer):
        return 0.0
    adapted = adapted_matrices(model, lora, max(1, model.experts))
    return lora.rank * (adapted.inputs + adapted.outputs)


class AdaptedMatrices(NamedTuple):
    """Matrices with adapters, and the widths of their inputs and outputs in all."""

    number: int
    inputs: float
    outputs: float


def adapted_matrices(model: Transformer, lora: Lora, experts: int) -> AdaptedMatrices:
    """Matrices of all layers with adapters, of so many experts."""
    hidden = model.hidden
    ffn = model.ffn_width
    queries = model.heads * model.head_width
    keys = model.key_value_heads * model.head_width
    mixing = sum(kind.layers for kind in model.kinds if kind.has_attention)
    feeding = sum(kind.layers for kind in model.kinds if kind.has_feed_forward) * experts
    widths = {
        "q": (mixing, hidden, queries),
        "o": (mixing, queries, hidden),
        **dict.fromkeys(("k", "v"), (mixing, hidden, keys)),
        **dict.fromkeys(("gate", "up"), (feeding, hidden, ffn)),
        "down": (feeding, ffn, hidden),
        "head": (1, hidden, model.vocab),
    }
    matrices = [widths[target] for target in lora.targets if target in widths]
    return AdaptedMatrices(
        sum(count for count, _, _ in matrices),
        float(sum(count * width for count, width, _ in matrices)),
        float(sum(count * width for count, _, width in matrices)),
    )


class ServingMemory:
    """One model in one layout; created once, used for all concurrencies in a search."""

    def __init__(
        self, requirement: Requirement, layout: Parallelism, settings: MemorySettings = _DEFAULTS
    ) -> None:
        self.requirement = requirement
        self.layout = layout
        self.settings = settings
        model = requirement.model
        weights = requirement.precision.weights
        load = requirement.load
        count = count_parameters(model)
        ranks = layout.tensor * layout.pipeline
        self.adapter_bytes = _ADAPTER_BYTES * adapter_parameters(model, requirement.lora) / ranks
        """One adapter, in 16 bits."""
        self.weights_bytes = weight_bytes(model, count, weights, layout)
        self.weights_bytes += load.adapters * self.adapter_bytes
        self.cache = kv_cache(model, kv_cache_format(requirement.precision), layout)
        self.request_bytes = self.cache.request_bytes(load.input_tokens + load.output_tokens)
        """KV cache of one request at its maximum length."""
        self._unpacked_bytes = dequantized_bytes(count, weights, layout)
        self._error_factor = memory_error_factor(requirement)
        self._overhead_bytes = settings.context_bytes
        self._overhead_bytes += communication_bytes(layout, settings, trains=False)
        self._token_bytes = self._row_bytes = 0.0
        if isinstance(model, LayeredModel | Diffusion):
            blocks = (
                (activations.denoiser_block(model),)
                if isinstance(model, Diffusion)
                else activations.blocks_of(model)
            )
            self._token_bytes, self._row_bytes = activations.passing_bytes(
                blocks, requirement.precision.activations, layout
            )
        self.largest_concurrency = cache(self._largest_concurrency)
        """Maximum number of requests in flight on all GPUs by available bytes."""

    def at(self, concurrency: float) -> MemoryEstimate:
        """Memory at a concurrency over all GPUs."""
        requests = float(math.ceil(concurrency / self.layout.data))
        model = self.requirement.model
        overhead = self._overhead_bytes
        if isinstance(model, Transformer):
            layers = math.ceil(model.layers / self.layout.pipeline)
            overhead += graph_bytes(layers, requests, self.settings)
        return MemoryEstimate(
            weights_bytes=self.weights_bytes,
            kv_cache_bytes=self.request_bytes * requests,
            activations_bytes=self._unpacked_bytes + self._activation_bytes(requests),
            overhead_bytes=overhead,
            outside_bytes=overhead,
            error_factor=self._error_factor,
        )

    def _largest_concurrency(self, available_bytes: float) -> int:
        """Maximum number of requests in flight on all GPUs; 0 if not even one fits.

        `available_bytes`: per GPU, without headroom.
        """
        replicas = self.layout.data
        request_bytes = self.request_bytes
        left = available_bytes - (self.at(replicas).total_bytes - request_bytes)
        if left < 0.0:
            return 0
        # Per replica: upper bound from the minimum per request, and lower bound with everything
        # except the cache at its maximum.
        least = request_bytes or self._activation_bytes(2.0) - self._activation_bytes(1.0)
        request_maximum = 1 + int(left / least) if least else _UNBOUNDED
        surely = 0
        if request_bytes:
            fullest = self.at(request_maximum * replicas)
            left = available_bytes - (fullest.total_bytes - fullest.kv_cache_bytes)
            surely = max(0, min(request_maximum, int(left / request_bytes)))
        more = bisect_right(
            range(surely + 1, request_maximum + 1),
            available_bytes,
            key=lambda requests: self.at(requests * replicas).total_bytes,
        )
        return (surely + more) * replicas

    def _activation_bytes(self, requests: float) -> float:
        model = self.requirement.model
        load = self.requirement.load
        number_format = self.requirement.precision.activations
        match model:
            case Transformer():
                tokens = requests * max(1.0, load.input_tokens)
                tokens = min(tokens, float(self.settings.batched_tokens))
                rows = min(requests, float(self.settings.sampled_rows))
                seen = model.unread.encoder_elements * number_format.bytes_per_parameter
                return max(tokens * self._token_bytes + rows * self._row_bytes, seen)
            case VisionTransformer():
                return requests * model.tokens * self._token_bytes
            case ConvolutionalNetwork():
                kept = activations.convolution_training_bytes(model, number_format, requests)
                return kept * activations.CONVOLUTION_LIVE_SHARE
            case Diffusion():
                denoising = activations.denoiser_tokens(model) * requests * self._token_bytes
                decoding = activations.decoder_peak_bytes(model, number_format, requests)
                return max(denoising, decoding)
            case RecommenderModel():
                return activations.recommender_bytes(model, requests, trains=False)


def dequantized_bytes(
    count: ParameterCount, number_format: NumberFormat, layout: Parallelism
) -> float:
    """Largest matrix in 16 bits, including the head, for formats that must be unpacked.

    bitsandbytes multiplies with an unpacked copy. Engines that also quantize the head (Lightning)
    unpack it; engines that do not need less than this.
    """
    if not number_format.is_dequantized_whole:
        return 0.0
    return count.largest_matrix * number_format.bytes_per_embedding / layout.tensor
