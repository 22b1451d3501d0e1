"""How far off what is predicted of serving may be."""

from dataclasses import dataclass
from typing import Final

from rightsizer.catalogue.board import Board
from rightsizer.catalogue.origin import OriginKind
from rightsizer.sizing.models import Transformer

__all__ = ["ServingError", "serving_error"]

_STEP: Final = 1.3
"""A decode step of a dense model on a board with measured efficiencies."""
_PROMPTS: Final = 1.6
"""Prompts beside it may cost so much less, since engines keep what they have in common."""
_FIRST_TOKEN: Final = 2.4
"""Those who measure let prompts arrive together or apart."""
_ASSUMED_BOARD: Final = 1.15
"""Beside that, where a board's efficiencies are those of its like; assumed."""
_FITTED_ARCHITECTURE: Final = "Hopper"
_OTHER_ARCHITECTURE: Final = 1.15
"""Beside that, where kernels are others than those that the constants were fitted on; assumed."""
_EXPERTS: Final = 1.2
"""Beside that, where tokens choose experts unevenly; assumed."""
_ASSUMED_SHAPE: Final = 1.1
"""Beside that, where layers or widths were taken as is usual; assumed."""


@dataclass(frozen=True, slots=True)
class ServingError:
    """Factors within which what is measured lies with a probability of 90 %."""

    step: float
    prompts: float
    first_token: float


def serving_error(model: Transformer, board: Board) -> ServingError:
    """Those of a model on a board; the first three were read off the evaluation's rows."""
    wider = 1.0
    if board.origin("efficiency.weight_read.bf16").kind is OriginKind.ASSUMED:
        wider *= _ASSUMED_BOARD
    if board.architecture != _FITTED_ARCHITECTURE:
        wider *= _OTHER_ARCHITECTURE
    if model.experts > 1:
        wider *= _EXPERTS
    if model.assumed:
        wider *= _ASSUMED_SHAPE
    return ServingError(_STEP * wider, _PROMPTS * wider, _FIRST_TOKEN * wider)
