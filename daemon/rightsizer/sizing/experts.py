"""What of a mixture of experts a batch passes, and what it reads."""

from dataclasses import dataclass
from typing import Self

from rightsizer.sizing.models import Transformer
from rightsizer.sizing.parameters import ParameterCount

__all__ = ["Experts"]


@dataclass(frozen=True, slots=True)
class Experts:
    """Parameters of the layers, by who uses them; a dense model has no experts."""

    active_parameters: float
    """That one token is multiplied with."""
    common_parameters: float
    """That every token passes, as often as it does."""
    expert_parameters: float
    """Of all experts that a token may pass or not."""
    chosen_share: float
    """Of the experts, for one token."""

    @classmethod
    def of(cls, model: Transformer, count: ParameterCount) -> Self:
        """Those of a model: what a token does not pass is the experts that it did not choose."""
        active = max(0.0, count.active - count.embedding - count.head)
        again = count.repeated
        share = model.experts_per_token / model.experts
        if share >= 1.0:
            return cls(active + again, count.layers + again, 0.0, 1.0)
        idle = max(0.0, count.layers - active)
        experts = min(count.layers, idle / (1.0 - share))
        return cls(active + again, count.layers + again - experts, experts, share)

    def read_parameters(self, tokens: float) -> float:
        """At least one token: its experts; of many that choose evenly, soon all of them."""
        missed: float = (1.0 - self.chosen_share) ** max(1.0, tokens)
        return self.common_parameters + self.expert_parameters * (1.0 - missed)
