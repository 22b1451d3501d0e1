"""How far off a memory estimate may be."""

from typing import Final

from rightsizer.sizing.models import Transformer, VisionTransformer
from rightsizer.sizing.requirement import Requirement

__all__ = ["error_factor"]

_SERVING: Final = 1.08
_TRAINING: Final = 1.10
_ASSUMED_SHAPE: Final = 1.2
"""Beside that, where layers or widths were taken as is usual."""
_OTHER_KINDS: Final = 1.4
"""Of models whose activations go by a rule of thumb."""


def error_factor(requirement: Requirement) -> float:
    """The factor within which a measured peak lies with a probability of 90 %.

    The first two were read off the measured peaks of the evaluation (docs/benchmarks.md), the
    others are assumed.
    """
    known = _TRAINING if requirement.task.trains else _SERVING
    model = requirement.model
    if isinstance(model, Transformer):
        return known * (_ASSUMED_SHAPE if model.assumed else 1.0)
    return known if isinstance(model, VisionTransformer) else _OTHER_KINDS
