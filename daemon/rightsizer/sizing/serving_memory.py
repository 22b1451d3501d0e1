"""What a model that serves needs on one GPU, by how many requests are in flight."""

import math
from dataclasses import dataclass

from rightsizer.sizing.activations import inference_activation_bytes
from rightsizer.sizing.block import blocks_of
from rightsizer.sizing.estimate import MemoryEstimate
from rightsizer.sizing.image_activations import (
    convolution_inference_bytes,
    decoder_peak_bytes,
    denoiser_block,
    denoiser_tokens,
    recommender_bytes,
)
from rightsizer.sizing.kv_cache import KvCache, kv_cache, kv_cache_format
from rightsizer.sizing.memory_error import error_factor
from rightsizer.sizing.memory_settings import MemorySettings
from rightsizer.sizing.models import (
    ConvolutionalNetwork,
    Diffusion,
    Recommender,
    Transformer,
    VisionTransformer,
)
from rightsizer.sizing.number_format import NumberFormat
from rightsizer.sizing.overhead import communication_bytes, graph_bytes
from rightsizer.sizing.parameters import ParameterCount, count_parameters
from rightsizer.sizing.requirement import Parallelism, Requirement
from rightsizer.sizing.weights import weight_bytes

__all__ = ["ServingMemory", "dequantized_bytes", "serving_memory"]


@dataclass(frozen=True, slots=True)
class ServingMemory:
    """One model in one layout; made once, asked for as many concurrencies as a search needs."""

    requirement: Requirement
    layout: Parallelism
    weights_bytes: float
    cache: KvCache
    unpacked_bytes: float
    """A whole matrix, where the weights' format needs one unpacked."""
    settings: MemorySettings

    def at(self, concurrency: float) -> MemoryEstimate:
        """With so many requests in flight on all GPUs together."""
        requests = self._requests(concurrency)
        settings, model = self.settings, self.requirement.model
        graphs = (
            graph_bytes(math.ceil(model.layers / self.layout.pipeline), requests, settings)
            if isinstance(model, Transformer)
            else 0.0
        )
        return MemoryEstimate(
            weights_bytes=self.weights_bytes,
            kv_cache_bytes=self.request_bytes * requests,
            activations_bytes=self.unpacked_bytes + self._activation_bytes(requests),
            overhead_bytes=settings.context_bytes
            + graphs
            + communication_bytes(self.layout, settings, trains=False),
            error_factor=error_factor(self.requirement),
        )

    @property
    def request_bytes(self) -> float:
        """The KV cache of one request at its longest."""
        load = self.requirement.load
        return self.cache.request_bytes(load.input_tokens + load.output_tokens)

    def largest_concurrency(self, available_bytes: float) -> int:
        """The most requests in flight on all GPUs together; 0 where not even one fits.

        Args:
            available_bytes: Of each GPU, headroom already taken off.
        """
        replicas = self.layout.data
        high = self._upper_bound(available_bytes)
        low = self._lower_bound(available_bytes, high)
        while low < high:
            middle = (low + high + 1) // 2
            if self.at(middle * replicas).total_bytes <= available_bytes:
                low = middle
            else:
                high = middle - 1
        return low * replicas

    def _upper_bound(self, available_bytes: float) -> int:
        """Requests of one replica, going by what each takes at least."""
        fixed = self.at(self.layout.data).total_bytes - self.request_bytes
        left = available_bytes - fixed
        each = self.request_bytes or self._activation_bytes(2.0) - self._activation_bytes(1.0)
        if left < 0.0:
            return 0
        return 1 + int(left / each) if each else _UNBOUNDED

    def _lower_bound(self, available_bytes: float, most: int) -> int:
        """Requests of one replica, if all that is no cache were as large as it gets."""
        if not self.request_bytes or most < 1:
            return 0
        fullest = self.at(most * self.layout.data)
        left = available_bytes - (fullest.total_bytes - fullest.kv_cache_bytes)
        return max(0, min(most, int(left / self.request_bytes)))

    def _requests(self, concurrency: float) -> float:
        return float(math.ceil(concurrency / self.layout.data))

    def _activation_bytes(self, requests: float) -> float:
        model, load = self.requirement.model, self.requirement.load
        form = self.requirement.precision.activations
        match model:
            case Transformer() | VisionTransformer():
                length = load.input_tokens if isinstance(model, Transformer) else model.tokens
                tokens = min(requests * max(1.0, length), float(self.settings.batched_tokens))
                if isinstance(model, VisionTransformer):
                    tokens = requests * length
                rows = min(requests, float(self.settings.sampled_rows))
                return inference_activation_bytes(blocks_of(model), form, self.layout, tokens, rows)
            case ConvolutionalNetwork():
                return convolution_inference_bytes(model, form, requests)
            case Diffusion():
                tokens = denoiser_tokens(model) * requests
                blocks = (denoiser_block(model),)
                denoising = inference_activation_bytes(blocks, form, self.layout, tokens, 0.0)
                return max(denoising, decoder_peak_bytes(model, form, requests))
            case Recommender():
                return recommender_bytes(model, requests, trains=False)


_UNBOUNDED = 1 << 20
"""Requests of one replica, where none takes anything of its own."""


def serving_memory(
    requirement: Requirement, layout: Parallelism, settings: MemorySettings | None = None
) -> ServingMemory:
    """What a requirement's model needs in a layout, whatever the concurrency."""
    model, precision = requirement.model, requirement.precision
    count = count_parameters(model)
    return ServingMemory(
        requirement=requirement,
        layout=layout,
        weights_bytes=weight_bytes(model, count, precision.weights, layout),
        cache=kv_cache(model, kv_cache_format(precision), layout),
        unpacked_bytes=dequantized_bytes(count, precision.weights, layout),
        settings=settings or MemorySettings(),
    )


def dequantized_bytes(
    count: ParameterCount, number_format: NumberFormat, layout: Parallelism
) -> float:
    """The largest matrix in 16 bits, the head among them, where a format needs it unpacked.

    bitsandbytes multiplies with an unpacked copy. Engines that quantize the head too (Lightning)
    unpack that; those that leave it out need less than this.
    """
    if not number_format.is_dequantized_whole:
        return 0.0
    return count.largest_matrix * number_format.bytes_per_embedding / layout.tensor
