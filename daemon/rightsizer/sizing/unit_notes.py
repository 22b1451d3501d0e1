"""What has to be said of weights in a format that a GPU has no units for."""

from collections.abc import Iterable, Iterator
from typing import Final

from rightsizer.catalogue.board import Board
from rightsizer.catalogue.precision import Precision
from rightsizer.sizing.number_format import NumberFormat

__all__ = ["unit_notes"]

_NEEDED: Final = {
    NumberFormat.FP8: Precision.FP8,
    NumberFormat.INT8: Precision.INT8,
    NumberFormat.NVFP4: Precision.FP4,
}
_NAMED: Final = 3


def unit_notes(number_format: NumberFormat, boards: Iterable[Board]) -> Iterator[str]:
    """A sentence, where some of the boards have no units for the weights."""
    precision = _NEEDED.get(number_format)
    if precision is None:
        return
    without = [board.key for board in boards if board.peak(precision) is None]
    if not without:
        return
    more = len(without) - _NAMED
    named = ", ".join(without[:_NAMED]) + (f" and {more} more" if more > 0 else "")
    yield (
        f"no units for {number_format} on {named}: reckoned as if an engine unpacks such weights"
        " to 16 bits there, which saves memory and no computing; not every engine does"
    )
