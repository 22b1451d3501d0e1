"""What of a transformer the time of a training step goes by."""

from dataclasses import dataclass
from typing import Final

from rightsizer.sizing.models import Transformer, VisionTransformer
from rightsizer.sizing.parameters import (
    ParameterCount,
    count_parameters,
    ffn_width,
    head_dimension,
)

__all__ = ["FLOPS", "FROZEN_FLOPS", "TrainingShape"]

_MOST_IN_EXPERTS: Final = 0.9
"""Of the parameters that one token passes."""
FLOPS: Final = 6.0
"""Of a parameter and a token: two forward, two for the gradient of activations, two for its own."""
FROZEN_FLOPS: Final = 4.0
"""The same of one that has no gradient, as beside adapters (LoRA). NeMo AutoModel counts so, too:
176 TFLOP/s where Llama 3 70B is adapted at 608 tokens per second."""


@dataclass(frozen=True, slots=True)
class TrainingShape:
    """What of a transformer a step's time goes by."""

    count: ParameterCount
    layers: float
    """Of two parts each: attention and a feed-forward part."""
    hidden: float
    attended: float
    """Width of all heads together, over all layers, each by the part of the sequence it sees."""
    sequence: float
    expert_parameters: float = 0.0
    """Active ones in experts."""
    experts_per_token: int = 0
    head_dim: float = 1.0

    @property
    def scores(self) -> float:
        """Of one token, in all heads of all layers: what attention weighs other tokens by."""
        return self.attended / self.head_dim * self.sequence

    @classmethod
    def of(cls, model: Transformer | VisionTransformer, sequence: float) -> "TrainingShape":
        """The shape of a model over sequences of so many tokens."""
        count = count_parameters(model)
        if isinstance(model, VisionTransformer):
            width = float(model.layers * model.hidden)
            each = model.hidden / model.heads
            return cls(count, model.layers, model.hidden, width, model.tokens, head_dim=each)
        width = float(model.heads * head_dimension(model))
        windowed = 0
        if model.sliding_window is not None:
            windowed = model.layers if model.windowed_layers is None else model.windowed_layers
        seen = min(1.0, 2.0 * (model.sliding_window or 0) / sequence)
        attended = width * (model.attending_layers - windowed + windowed * seen)
        experts = 0.0
        if model.experts > 1:
            matrices = 3 if model.gated_ffn else 2
            one = float(matrices * model.hidden * ffn_width(model))
            mixed = model.layers - model.dense_layers
            experts = min(mixed * model.experts_per_token * one, _MOST_IN_EXPERTS * count.linear)
        per_token = model.experts_per_token if model.experts > 1 else 0
        each = head_dimension(model)
        return cls(count, model.depth, model.hidden, attended, sequence, experts, per_token, each)

    def model_flops(self, flops: float) -> float:
        """Of one token forward and backward, as utilization is counted (PaLM, appendix B).

        Args:
            flops: Of a parameter, `FLOPS` or `FROZEN_FLOPS`.
        """
        passed = self.count.active + self.count.repeated
        return flops * passed + 12.0 * self.attended * self.sequence
