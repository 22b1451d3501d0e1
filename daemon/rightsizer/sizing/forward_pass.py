"""Forward pass of tokens on one board: attention, experts, products, communication."""

import math
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from msgspec.structs import replace

from rightsizer.catalogue.board import Board, Precision
from rightsizer.model.units import GIB
from rightsizer.sizing.collectives import ServerLinks, all_reduce_seconds, other_servers
from rightsizer.sizing.models import Transformer
from rightsizer.sizing.parameters import (
    NumberFormat,
    ParameterCount,
    count_parameters,
    expert_parameters,
)
from rightsizer.sizing.requirement import Parallelism, Precisions
from rightsizer.sizing.roofline import (
    PassCost,
    compute_format,
    matrix_flops_per_second,
)
from rightsizer.sizing.serving_memory import kv_cache, kv_cache_format, stored_parameters
from rightsizer.sizing.serving_settings import ServingModelSettings

_BYTE = 1.0
_BF16_BYTES = 2.0
_TUNED_VENDOR = "NVIDIA"
_CHUNK_TOKENS = 8192
"""Default if neither settings nor an engine specify it."""
_ELEMENT_TRAFFIC = 12.0
"""Bytes per element of the width, token and layer: two norms read two inputs and write one in 16
bits on each GPU of a group; attention (four) and activation (two) pass as much, split over it."""
_TILE_ROWS = {"Hopper": 64.0}
"""Rows a matrix unit multiplies at a time, by architecture (PTX, `wgmma.m64`). Relevant on boards
with high bandwidth and little compute, such as the H20."""
_UNPACKED_TILE_ROWS = 16.0
"""The same of kernels that unpack weights (PTX, `mma.m16n8k16`, as in Marlin)."""
_UNPACKED_BYTES = 4.0
"""Extra write and read of a parameter in 16 bits, for formats that unpack whole matrices."""


class Experts:
    """Parameters of the layers, by use; a dense model has no experts.

    Parameters inactive for a token belong to the experts it did not choose.
    """

    def __init__(self, model: Transformer, count: ParameterCount) -> None:
        active = max(0.0, count.active - count.embedding - count.head) + count.repeated
        self.chosen_share = min(1.0, model.experts_per_token / model.experts)
        """Fraction of experts chosen by one token."""
        self.expert_parameters = expert_parameters(model, count)
        """All experts that a token may choose."""
        self.common_parameters = count.layers + count.repeated - self.expert_parameters
        """Used by every token, counted once per use."""
        self.common_active_parameters = active - self.chosen_share * self.expert_parameters
        """Multiplied with one token, outside of its experts."""

    def read_parameters(self, tokens: float, choosing_ratio: float) -> float:
        """Expert parameters read, if this fraction of further tokens chooses independently."""
        missed: float = (1.0 - self.chosen_share) ** (1.0 + choosing_ratio * max(0.0, tokens - 1.0))
        return self.expert_parameters * (1.0 - missed)


def _linear(seconds: Callable[[float], float]) -> tuple[float, float]:
    """Fixed time, and time per byte, of what grows linearly with its payload."""
    fixed = seconds(0.0)
    return fixed, (seconds(GIB) - fixed) / GIB


def _overlapped(compute: float, reading: float) -> PassCost:
    """Cost of products and reads of one kind: near the ridge, neither fully hides the other."""
    together = math.hypot(compute, reading)
    if not together:
        return PassCost()
    # Split by squares, so that the larger one gets its due share.
    return PassCost(compute**2 / together, reading**2 / together)


class Attention:
    """Attention of all layers on one GPU of a group.

    8-bit caches are multiplied in 16 bits, latent ones on boards with fp4 units in 8.
    """

    def __init__(
        self,
        model: Transformer,
        precision: Precisions,
        board: Board,
        layout: Parallelism,
        settings: ServingModelSettings,
    ) -> None:
        flops = matrix_flops_per_second(board, NumberFormat.BF16)
        layers = model
        if model.borrowed_layers:
            # As if each layer had its own cache, since a shared cache is read by each of its
            # layers.
            scale = model.layers / (model.layers - model.borrowed_layers)
            layers = replace(
                model,
                cached_layers=None,
                cache_elements=model.cache_elements and scale * model.cache_elements,
                windowed_cache_elements=scale * model.windowed_cache_elements,
                borrowed_layers=0,
                borrowed_windowed_layers=0,
            )
        share = board.efficiency.decode_attention[Precision.BF16]
        reached = settings.attention_compute_ratio
        self.model = model
        self._tensor = layout.tensor
        self.is_causal = not model.is_encoder
        """Whether tokens see only earlier ones; an encoder sees both directions, uncached."""
        cached = kv_cache_format(precision)
        self._cache = kv_cache(layers, cached, Parallelism(layout.tensor))
        """Cache seen by all layers, regardless of pipeline stages."""
        self.bytes_per_second = share * board.memory_bandwidth_bytes_per_second
        self._flops_per_second = reached * flops
        self._index_flops_per_second = reached * (board.achieved(Precision.FP8) or flops)
        """For token selection, with 8-bit keys."""
        self._latent_flops_per_second = self._flops_per_second
        if cached is NumberFormat.FP8 and board.peak(Precision.FP4):
            self._latent_flops_per_second = self._index_flops_per_second
        self._window = float(model.sliding_window or 0)
        self._windowed = model.window_layers
        """Maximum number of tokens seen by a windowed layer, and number of windowed layers."""
        if model.indexer is not None:
            self._window = float(model.indexer.tokens)
            self._windowed = model.layers
        rank = model.kv_lora_rank
        rotated = model.rope_head_dim
        width = model.head_width
        self._head_width = float(width + (rotated if rank else 0) + (model.value_head_dim or width))
        """Width of queries times keys plus weights times values."""
        self._latent_width = 2.0 * rank + rotated if rank else self._head_width
        """The same for a new token; latent attention works on its compressed cache."""

    def of_new_tokens(
        self, requests: float, context_tokens: float, tokens_each: float = 1.0
    ) -> PassCost:
        """Attention of new tokens of each request to all earlier ones, whose cache is read once."""
        cache = self._cache
        picked = context_tokens
        if self.model.indexer is not None:
            picked = min(context_tokens, self.model.indexer.tokens)
        read = cache.bytes_per_token * picked + cache.index_bytes_per_token * context_tokens
        if cache.windowed_bytes_per_token:
            read += cache.windowed_bytes_per_token * min(context_tokens, cache.window_tokens)
        read += 2.0 * cache.state_bytes  # Read and written back.
        # Tokens seen by one new token, over all layers.
        whole = self.model.attending_layers - self._windowed
        seen = self._windowed * min(context_tokens, self._window) + whole * context_tokens
        pairs = requests * tokens_each * seen
        is_latent = self.model.kv_lora_rank
        speed = self._latent_flops_per_second if is_latent else self._flops_per_second
        compute = self._compute_seconds(pairs, self._latent_width, speed)
        compute += self._index_seconds(requests * tokens_each * context_tokens)
        reading = requests * read / self.bytes_per_second
        # Only heads that share one latent fill the tiles of the matrix units.
        return _overlapped(compute, reading) if is_latent else PassCost(compute, reading)

    def of_prompt(self, tokens: float, cached_tokens: float = 0.0) -> PassCost:
        """Attention of each uncached prompt token to the tokens it sees, cached or not."""
        pairs = self._pairs(tokens) - self._pairs(cached_tokens)
        # Kernels for selected tokens work on the compressed cache.
        width = self._head_width if self.model.indexer is None else self._latent_width
        looked_up = (tokens * tokens - cached_tokens * cached_tokens) / 2.0
        seconds = self._compute_seconds(pairs, width, self._flops_per_second)
        seconds += self._index_seconds(looked_up)
        return PassCost(compute=seconds)

    def _pairs(self, tokens: float) -> float:
        """Pairs of tokens that see each other, over all layers: half of all if causal."""
        if not self.is_causal:
            return self.model.attending_layers * tokens * tokens
        windowed = self._windowed * min(self._window, tokens / 2.0)
        return tokens * (windowed + (self.model.attending_layers - self._windowed) * tokens / 2.0)

    def _compute_seconds(self, pairs: float, width: float, flops_per_second: float) -> float:
        return 2.0 * pairs * self.model.heads * width / (self._tensor * flops_per_second)

    def _index_seconds(self, pairs: float) -> float:
        """Time to select tokens: products with each key, all heads on every GPU."""
        indexer = self.model.indexer
        if indexer is None:
            return 0.0
        return 2.0 * pairs * indexer.layers * indexer.width / self._index_flops_per_second


class Adapters(NamedTuple):
    """LoRA adapters served beside a model."""

    number: float = 0.0
    bytes_each: float = 0.0
    """On one GPU."""

    def read_bytes(self, requests: float) -> float:
        """Bytes of those used by requests that choose evenly."""
        unused = (1.0 - 1.0 / self.number) ** requests if self.number > 1 else 0.0
        return self.bytes_each * self.number * (1.0 - unused)


_NO_ADAPTERS = Adapters()


class ForwardPass:
    """One model on one board of a layout; created once, used for every batch."""

    def __init__(  # noqa: PLR0913 - adapters are rare.
        self,
        model: Transformer,
        precision: Precisions,
        board: Board,
        layout: Parallelism,
        settings: ServingModelSettings,
        *,
        adapters: Adapters = _NO_ADAPTERS,
    ) -> None:
        self.model = model
        self.board = board
        self.layout = layout
        self.settings = settings
        self.links = ServerLinks(board, settings.network_bytes_per_second)
        stages = partial(self.links.stage_seconds, layout.pipeline, layout.tensor)
        self._sum_seconds = _linear(partial(self.links.sum_seconds, layout.tensor))
        self._stage_seconds = _linear(stages)
        self.attention = Attention(model, precision, board, layout, settings)
        self.count = count_parameters(model)
        self.experts = Experts(model, self.count)
        self.flops_per_second = matrix_flops_per_second(board, precision.weights)
        """For large products in the format of the weights."""
        is_unpacked = (
            precision.weights.is_quantized
            and compute_format(board, precision.weights) is Precision.BF16
        )
        is_shared = layout.expert > 1 and precision.weights.is_quantized
        plain = settings.shared_expert_compute_ratio if is_shared else settings.expert_compute_ratio
        unpacked = settings.unpacked_expert_compute_ratio
        self._expert_compute_ratio = unpacked if is_unpacked else plain
        is_whole = precision.weights is NumberFormat.FP32
        head = NumberFormat.FP32 if is_whole else NumberFormat.BF16
        self._head_flops_per_second = matrix_flops_per_second(board, head)
        self._head = self.count.head or self.count.embedding
        self._head_bytes = self._head * precision.weights.bytes_per_embedding
        self.is_unpacked = is_unpacked and model.experts <= 1
        """Whether products of each layer unpack weights; experts are counted separately."""
        unpacking = settings.unpacking_layer_seconds if self.is_unpacked else 0.0
        self._adapters = adapters
        adapting = settings.adapter_layer_seconds if adapters.number else 0.0
        self._layer_seconds = settings.layer_seconds + unpacking + adapting
        share = board.efficiency.weight_read[Precision.BF16]
        self._read_bytes_per_second = share * board.memory_bandwidth_bytes_per_second
        stored = precision.weights.bytes_per_parameter
        if precision.weights.is_dequantized_whole:
            stored += _UNPACKED_BYTES
        self._stored_bytes = stored
        """Bytes per parameter as read."""
        kept = stored_parameters(model, self.count, precision.weights)
        common = self.experts.common_parameters * stored + kept * (_BF16_BYTES - stored)
        self._common_bytes = common
        """Read in every pass through all layers."""
        rows = _TILE_ROWS.get(board.architecture, 0.0)
        self._tile_rows = _UNPACKED_TILE_ROWS if is_unpacked else rows
        self._depth = model.depth
        is_tuned = model.experts <= 1 or board.vendor == _TUNED_VENDOR
        self._times = 1.0 if is_tuned else 1.0 / settings.other_vendor_experts_ratio
        """Factor on the counted time."""

    def decode(self, requests: float, context_tokens: float, proposed: float = 0.0) -> PassCost:
        """Cost of one token per request, all requests divided among pipeline stages.

        Proposed tokens are verified with it; before that, a layer of its own and the head make each
        of them (multi-token prediction, EAGLE).
        """
        stage_requests = max(1.0, requests / self.layout.pipeline)
        part = 1.0 - self.model.input_ratio
        tokens = stage_requests * (1.0 + proposed)
        layer = part / self.model.layers
        attended = self.attention.of_new_tokens(stage_requests, context_tokens, 1.0 + proposed)
        cost = self._products(tokens, tokens, part).plus(attended)
        beside = requests * self.model.attending_layers * self.settings.request_layer_seconds
        beside += self.settings.step_seconds
        if self.model.indexer is not None:
            beside += self.model.indexer.layers * self.settings.indexer_layer_seconds
        cost = cost.plus(self._exchange(tokens, part))
        if self.model.input_ratio:  # Kernels are launched one by one, while those before run.
            launching = part * self._depth * self.settings.encoder_decoder_layer_seconds
            beside += max(0.0, launching - cost.seconds)
        cost = cost._replace(latency=cost.latency + beside)
        if proposed:
            draft = self._products(stage_requests, stage_requests, layer).plus(
                self._exchange(stage_requests, layer)
            )
            cost = cost.plus(draft, proposed)
        return cost if self._times == 1.0 else PassCost().plus(cost, self._times)

    def prompts(self, tokens: float, requests: float = 1.0, cached_tokens: float = 0.0) -> PassCost:
        """Cost of several prompts of the given length together; the last token of each is sampled.

        Cached tokens are attended to but not computed.
        """
        total = (tokens - cached_tokens) * requests
        chunks = math.ceil(total / (self.settings.chunk_tokens or _CHUNK_TOKENS))
        chunk_tokens = total / chunks
        rows = requests / chunks if self.attention.is_causal else 0.0
        part = self.model.input_ratio or 1.0
        products = self._products(chunk_tokens, rows, part, is_prompt=True)
        one = products.plus(self._exchange(chunk_tokens, part))
        attended = self.attention.of_prompt(tokens, cached_tokens)
        whole = PassCost().plus(one, chunks).plus(attended, requests)
        return PassCost().plus(whole, self._times)

    def _products(
        self, tokens: float, rows: float, part: float, *, is_prompt: bool = False
    ) -> PassCost:
        """Cost of a fraction of all matrices except attention itself; `rows` pass the head."""
        gpus = self.layout.tensor
        body = self._multiplied(
            part * 2.0 * self.experts.common_active_parameters / gpus,
            tokens,
            part * self._common_bytes / gpus,
            self.flops_per_second,
        )
        if self.experts.expert_parameters:
            chosen = self.chosen_experts(tokens, self._stored_bytes, is_prompt=is_prompt)
            body = body.plus(chosen, part)
        if not rows:
            return body
        adapted = self._adapters.read_bytes(rows) / self._read_bytes_per_second
        head = self._multiplied(
            2.0 * self._head / gpus, rows, self._head_bytes / gpus, self._head_flops_per_second
        )
        return body.plus(head).plus(PassCost(bandwidth=adapted)) if adapted else body.plus(head)

    def _multiplied(
        self, row_flops: float, rows: float, read_bytes: float, flops_per_second: float
    ) -> PassCost:
        """Cost of multiplying weights with some rows, of a whole tile where that outlasts reads."""
        reading = read_bytes / self._read_bytes_per_second
        row_seconds = row_flops / flops_per_second
        compute = rows * row_seconds
        tile = self._tile_rows * row_seconds
        return _overlapped(max(compute, tile) if tile > reading else compute, reading)

    def chosen_experts(
        self, tokens: float, stored_bytes: float, *, is_prompt: bool = False
    ) -> PassCost:
        """Cost of experts in all layers: each one processes few tokens, in kernels of its own."""
        experts = self.experts
        model = self.model
        settings = self.settings
        gpus = self.layout.tensor
        spread = self.layout.expert
        layers = model.layers - model.dense_layers
        fullest = tokens * (settings.expert_imbalance_ratio if spread > 1 else 1.0)
        flops = 2.0 * experts.chosen_share * experts.expert_parameters * fullest / gpus
        touched = experts.read_parameters(tokens * spread, settings.expert_choice_ratio)
        read = touched * stored_bytes / (gpus * spread)
        speed = self._expert_compute_ratio * self.flops_per_second
        products = _overlapped(flops / speed, read / self._read_bytes_per_second)
        width = model.expert_input or model.hidden
        vectors = fullest * model.experts_per_token * width * _BF16_BYTES
        # To the replica of the expert and back: each way is half of an all-reduce.
        near = self.links.neighbors(spread, apart=gpus)
        sums = all_reduce_seconds(self.board, near, vectors / gpus)
        there_and_back = max(sums, self._sent_seconds(tokens, width, is_prompt=is_prompt))
        moved = settings.expert_passes * layers * vectors / self._read_bytes_per_second
        launch = settings.expert_layer_seconds
        if is_prompt:
            launch += settings.expert_prompt_layer_seconds
        return products.plus(PassCost(0.0, moved, layers * there_and_back, layers * launch))

    def _sent_seconds(self, tokens: float, width: float, *, is_prompt: bool) -> float:
        """Time to send a layer's tokens to experts on other servers and back.

        Prompts' tokens are sent once to each server, and on over its links; single tokens to each
        expert, which has less latency (DeepEP). With weights of 8 bits they travel there in 8 bits,
        and back in 16.
        """
        group = self.layout.tensor * self.layout.expert
        choices = self.model.experts_per_token
        servers = self.links.servers(group)
        copies = other_servers(servers, choices) if is_prompt else choices * (1.0 - 1.0 / servers)
        there = _BYTE if self._stored_bytes == _BYTE else _BF16_BYTES
        sent_bytes = tokens * copies * width * (there + _BF16_BYTES) / self.layout.tensor
        return sent_bytes / self.settings.network_bytes_per_second

    def _exchange(self, tokens: float, part: float) -> PassCost:
        """Cost of norms and activations, all-reduces, transfers between stages, and fixed time."""
        depth = part * self._depth
        layout = self.layout
        elements = tokens * self.model.hidden
        payload = elements * _BF16_BYTES
        moved = depth * elements * _ELEMENT_TRAFFIC * (1.0 + 1.0 / layout.tensor)
        fixed, seconds_per_byte = self._sum_seconds
        between, sent = self._stage_seconds
        sums = 2.0 * depth * (fixed + seconds_per_byte * payload) + between + sent * payload
        return PassCost(0.0, moved / self._read_bytes_per_second, sums, depth * self._layer_seconds)
