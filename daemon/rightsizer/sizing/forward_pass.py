"""What one pass of tokens through a model takes on one board of a layout, part by part."""

import math
from dataclasses import dataclass
from typing import Self

from rightsizer.catalogue.board import Board
from rightsizer.catalogue.precision import Precision
from rightsizer.sizing.attention import Attention
from rightsizer.sizing.collective import all_reduce_seconds, send_seconds
from rightsizer.sizing.compute_format import matrix_flops_per_second
from rightsizer.sizing.experts import Experts
from rightsizer.sizing.models import Transformer
from rightsizer.sizing.number_format import NumberFormat
from rightsizer.sizing.parameters import ParameterCount, count_parameters
from rightsizer.sizing.pass_cost import PassCost
from rightsizer.sizing.requirement import Parallelism, Precisions
from rightsizer.sizing.serving_settings import ServingSettings
from rightsizer.sizing.weights import kept_parameters

__all__ = ["ForwardPass"]

_BF16_BYTES = 2.0
_UNPACKED_BYTES = 4.0
"""A parameter is written and read once more in 16 bits where a format is unpacked whole."""


@dataclass(frozen=True, slots=True)
class ForwardPass:
    """One model on one board of a layout; made once, asked for every batch."""

    model: Transformer
    board: Board
    layout: Parallelism
    number_format: NumberFormat
    attention: Attention
    experts: Experts
    count: ParameterCount
    settings: ServingSettings

    @classmethod
    def of(
        cls,
        model: Transformer,
        precision: Precisions,
        board: Board,
        layout: Parallelism,
        settings: ServingSettings,
    ) -> Self:
        """The pass of a model in the formats given."""
        count = count_parameters(model)
        return cls(
            model=model,
            board=board,
            layout=layout,
            number_format=precision.weights,
            attention=Attention.of(model, precision, board, layout, settings),
            experts=Experts.of(model, count),
            count=count,
            settings=settings,
        )

    def decode(self, requests: float, context_tokens: float) -> PassCost:
        """One token of each request, that many at a time in each stage."""
        each = max(1.0, requests / self.layout.pipeline)
        cost = self._products(each, each).plus(self.attention.of_new_tokens(each, context_tokens))
        beside = requests * self.model.layers * self.settings.request_layer_seconds
        return cost.plus(self._exchange(each)).plus(PassCost(latency=beside))

    def prompts(self, tokens: float, requests: float = 1.0, cached_tokens: float = 0.0) -> PassCost:
        """Prompts of so many tokens each, several at a time; the last token of each is sampled.

        Tokens that are cached are looked at and not computed.
        """
        total = (tokens - cached_tokens) * requests
        chunks = math.ceil(total / self.settings.chunk_tokens)
        each = total / chunks
        rows = requests / chunks if self.attention.is_causal else 0.0
        one = self._products(each, rows).plus(self._exchange(each))
        attended = self.attention.of_prompt(tokens, cached_tokens)
        return PassCost().plus(one, chunks).plus(attended, requests)

    def _products(self, tokens: float, rows: float) -> PassCost:
        """All matrices but attention's own; the head has rows of its own."""
        number_format, gpus = self.number_format, self.layout.tensor
        head = self.count.head or self.count.embedding
        read = self.experts.read_parameters(tokens)
        stored = number_format.bytes_per_parameter
        if number_format.is_dequantized_whole:
            stored += _UNPACKED_BYTES
        body = self._overlapped(
            2.0 * self.experts.active_parameters * tokens / gpus,
            (read * stored + self._kept * (_BF16_BYTES - stored)) / gpus,
            number_format,
        )
        if not rows:
            return body
        top = self._overlapped(
            2.0 * head * rows / gpus,
            head * number_format.bytes_per_embedding / gpus,
            NumberFormat.FP32 if number_format is NumberFormat.FP32 else NumberFormat.BF16,
        )
        return body.plus(top)

    @property
    def _kept(self) -> float:
        return kept_parameters(self.model, self.count, self.number_format)

    def _overlapped(self, flops: float, read_bytes: float, number_format: NumberFormat) -> PassCost:
        """Products and reads of one kind: near the ridge neither hides behind the other whole."""
        speed = matrix_flops_per_second(self.board, number_format)
        compute = flops / speed if speed else 0.0
        share = self.board.efficiency.weight_read_ratio(Precision.BF16)
        reading = read_bytes / (share * self.board.memory_bandwidth_bytes_per_second)
        together = math.hypot(compute, reading)
        if not together:
            return PassCost()
        # Split by squares, so that the larger of them gets what is due to it.
        return PassCost(compute**2 / together, reading**2 / together)

    def _exchange(self, tokens: float) -> PassCost:
        """Sums over GPUs, handing on between stages, and what each layer takes regardless."""
        payload = tokens * self.model.hidden * _BF16_BYTES
        depth, layout = self.model.depth, self.layout
        sums = 2.0 * depth * all_reduce_seconds(self.board, layout.tensor, payload)
        sends = (layout.pipeline - 1) * send_seconds(self.board, payload)
        return PassCost(
            communication=sums + (sends if layout.pipeline > 1 else 0.0),
            latency=depth * self.settings.layer_seconds,
        )
