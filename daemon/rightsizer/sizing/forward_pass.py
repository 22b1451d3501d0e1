"""Forward pass of tokens on one board: attention, experts, products, communication."""

import math
from collections.abc import Callable
from functools import cached_property, lru_cache, partial
from typing import NamedTuple

from msgspec import Struct
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
_CONTEXTS = 4
"""Lengths of a search whose attention is kept."""
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

    def read_share(self, tokens: float, choosing_ratio: float) -> float:
        """Fraction of experts read, if this fraction of further tokens chooses independently."""
        missed: float = (1.0 - self.chosen_share) ** (1.0 + choosing_ratio * max(0.0, tokens - 1.0))
        return 1.0 - missed


def _linear(seconds: Callable[[float], float]) -> tuple[float, float]:
    """Fixed time, and time per byte, of what grows linearly with its payload."""
    fixed = seconds(0.0)
    return fixed, (seconds(GIB) - fixed) / GIB


def _overlapped(compute: float, reading: float) -> tuple[float, float]:
    """Times of products and reads of one kind: near the ridge, neither fully hides the other."""
    together = math.hypot(compute, reading)
    if not together:
        return 0.0, 0.0
    # Split by squares, so that the larger one gets its due share.
    return compute * compute / together, reading * reading / together


class _Product(Struct, frozen=True, gc=False):
    """Product of rows with weights that are read once."""

    row_seconds: float
    read_seconds: float
    least_seconds: float
    """Time of a whole tile of rows where that outlasts reads."""

    def seconds(self, rows: float) -> tuple[float, float]:
        """Times of products and reads."""
        return _overlapped(max(rows * self.row_seconds, self.least_seconds), self.read_seconds)


class _Layers(Struct, frozen=True):
    """A fraction of all layers except attention itself."""

    part: float
    body: _Product
    """All but the experts."""
    launch_seconds: float
    sum_seconds: float
    """Of all-reduces and transfers between stages, without data."""
    token_sum_seconds: float
    """The same of the data of a token."""
    token_move_seconds: float
    """Of norms and activations."""
    chosen_experts: Callable[[float], PassCost] | None
    """Of a number of tokens, in all layers; `None` of a dense model."""


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
        return PassCost(*(_overlapped(compute, reading) if is_latent else (compute, reading)))

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
        self._sum_seconds = _linear(partial(self.links.sum_seconds, layout.tensor))
        stages = partial(self.links.stage_seconds, layout.pipeline, layout.tensor)
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
        is_tuned = model.experts <= 1 or board.vendor == _TUNED_VENDOR
        self._times = 1.0 if is_tuned else 1.0 / settings.other_vendor_experts_ratio
        """Factor on the counted time."""
        self._weights = precision.weights
        self._attended = lru_cache(_CONTEXTS)(partial(self.attention.of_new_tokens, 1.0))
        """Attention of one request, by context and new tokens."""

    @cached_property
    def _head(self) -> _Product:
        weights = self._weights
        logits = self.count.head or self.count.embedding
        runs_in = NumberFormat.FP32 if weights is NumberFormat.FP32 else NumberFormat.BF16
        speed = matrix_flops_per_second(self.board, runs_in)
        return self._product(2.0 * logits, logits * weights.bytes_per_embedding, speed)

    @cached_property
    def _decoding(self) -> _Layers:
        return self._layers(1.0 - self.model.input_ratio)

    @cached_property
    def _prompting(self) -> _Layers:
        return self._layers(self.model.input_ratio or 1.0, is_prompt=True)

    @cached_property
    def _beside(self) -> tuple[float, float]:
        """Seconds of a step beside its kernels: fixed, and of each request."""
        model = self.model
        settings = self.settings
        fixed = settings.step_seconds
        if model.indexer is not None:
            fixed += model.indexer.layers * settings.indexer_layer_seconds
        return fixed, model.attending_layers * settings.request_layer_seconds

    def decode(self, requests: float, context_tokens: float, proposed: float = 0.0) -> PassCost:
        """Cost of one token per request, all requests divided among pipeline stages.

        Proposed tokens are verified with it; before that, a layer of its own and the head make each
        of them (multi-token prediction, EAGLE).
        """
        stage_requests = max(1.0, requests / self.layout.pipeline)
        tokens = stage_requests * (1.0 + proposed)
        attended = self._attended(context_tokens, 1.0 + proposed)
        passed = self._passed(self._decoding, tokens, tokens)
        fixed, of_request = self._beside
        cost = PassCost(
            passed.compute + stage_requests * attended.compute,
            passed.bandwidth + stage_requests * attended.bandwidth,
            passed.communication,
            passed.latency + requests * of_request + fixed,
        )
        if self.model.input_ratio:  # Kernels are launched one by one, while those before run.
            depth = self._decoding.part * self.model.depth
            launching = depth * self.settings.encoder_decoder_layer_seconds
            ran = cost.seconds - requests * of_request - fixed
            cost = cost.plus(PassCost(latency=max(0.0, launching - ran)))
        if proposed:
            draft = self._layers(self._decoding.part / self.model.layers)
            cost = cost.plus(self._passed(draft, stage_requests, stage_requests), proposed)
        return cost if self._times == 1.0 else PassCost().plus(cost, self._times)

    def prompts(self, tokens: float, requests: float = 1.0, cached_tokens: float = 0.0) -> PassCost:
        """Cost of several prompts of the given length together; the last token of each is sampled.

        Cached tokens are attended to but not computed.
        """
        total = (tokens - cached_tokens) * requests
        chunks = math.ceil(total / (self.settings.chunk_tokens or _CHUNK_TOKENS))
        rows = requests / chunks if self.attention.is_causal else 0.0
        one = self._passed(self._prompting, total / chunks, rows)
        attended = self.attention.of_prompt(tokens, cached_tokens)
        times = self._times
        return PassCost().plus(one, chunks * times).plus(attended, requests * times)

    def _passed(self, layers: _Layers, tokens: float, rows: float) -> PassCost:
        """Cost of some layers except attention itself; `rows` pass the head."""
        compute, reading = layers.body.seconds(tokens)
        if rows:
            head_compute, head_reading = self._head.seconds(rows)
            compute += head_compute
            reading += head_reading + self._adapters.read_bytes(rows) / self._read_bytes_per_second
        reading += tokens * layers.token_move_seconds
        sums = layers.sum_seconds + tokens * layers.token_sum_seconds
        cost = PassCost(compute, reading, sums, layers.launch_seconds)
        if layers.chosen_experts is not None:
            cost = cost.plus(layers.chosen_experts(tokens), layers.part)
        return cost

    def _product(self, row_flops: float, read_bytes: float, flops_per_second: float) -> _Product:
        """Product of rows with weights divided among tensor parallel ranks."""
        gpus = self.layout.tensor
        reading = read_bytes / gpus / self._read_bytes_per_second
        row_seconds = row_flops / gpus / flops_per_second
        tile = self._tile_rows * row_seconds
        return _Product(row_seconds, reading, tile if tile > reading else 0.0)

    def _layers(self, part: float, *, is_prompt: bool = False) -> _Layers:
        """Return a fraction of the layers."""
        layout = self.layout
        body = self._product(
            part * 2.0 * self.experts.common_active_parameters,
            part * self._common_bytes,
            self.flops_per_second,
        )
        depth = part * self.model.depth
        width = self.model.hidden
        moved = depth * width * _ELEMENT_TRAFFIC * (1.0 + 1.0 / layout.tensor)
        summed, summing = self._sum_seconds
        between, sending = self._stage_seconds
        sums = (2.0 * depth * summing + sending) * width * _BF16_BYTES
        return _Layers(
            part,
            body,
            depth * self._layer_seconds,
            2.0 * depth * summed + between,
            sums,
            moved / self._read_bytes_per_second,
            self.chosen_experts(is_prompt=is_prompt) if self.experts.expert_parameters else None,
        )

    def chosen_experts(self, *, is_prompt: bool = False) -> Callable[[float], PassCost]:
        """Cost by tokens of experts in all layers, each with few tokens in kernels of its own."""
        experts = self.experts
        model = self.model
        settings = self.settings
        gpus = self.layout.tensor
        spread = self.layout.expert
        layers = model.layers - model.dense_layers
        fullest = settings.expert_imbalance_ratio if spread > 1 else 1.0
        speed = self._expert_compute_ratio * self.flops_per_second
        flops = 2.0 * experts.chosen_share * experts.expert_parameters * fullest / gpus
        product_seconds = flops / speed
        stored = experts.expert_parameters * self._stored_bytes / (gpus * spread)
        read_seconds = stored / self._read_bytes_per_second
        width = model.expert_input or model.hidden
        vector = fullest * model.experts_per_token * width * _BF16_BYTES
        # To the replica of the expert and back: each way is half of an all-reduce.
        near = self.links.neighbors(spread, apart=gpus)
        fixed, sum_seconds = _linear(partial(all_reduce_seconds, self.board, near))
        sum_seconds *= vector / gpus
        sent_seconds = self._sent_seconds(width, is_prompt=is_prompt)
        moved = settings.expert_passes * layers * vector / self._read_bytes_per_second
        launch = settings.expert_layer_seconds
        if is_prompt:
            launch += settings.expert_prompt_layer_seconds

        def cost(tokens: float) -> PassCost:
            read = experts.read_share(tokens * spread, settings.expert_choice_ratio)
            compute, reading = _overlapped(product_seconds * tokens, read_seconds * read)
            there_and_back = max(fixed + sum_seconds * tokens, sent_seconds * tokens)
            exchanged = layers * there_and_back
            return PassCost(compute, reading + moved * tokens, exchanged, layers * launch)

        return cost

    def _sent_seconds(self, width: float, *, is_prompt: bool) -> float:
        """Time to send a token in a layer to experts on other servers and back.

        Prompts' tokens are sent once to each server, and on over its links; single tokens to each
        expert, which has less latency (DeepEP). With weights of 8 bits they travel there in 8 bits,
        and back in 16.
        """
        group = self.layout.tensor * self.layout.expert
        choices = self.model.experts_per_token
        servers = self.links.servers(group)
        copies = other_servers(servers, choices) if is_prompt else choices * (1.0 - 1.0 / servers)
        there = _BYTE if self._stored_bytes == _BYTE else _BF16_BYTES
        sent_bytes = copies * width * (there + _BF16_BYTES) / self.layout.tensor
        return sent_bytes / self.settings.network_bytes_per_second
