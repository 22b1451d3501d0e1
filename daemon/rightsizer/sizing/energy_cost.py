"""The energy of GPUs and of all that stands around them."""

from typing import Final

from rightsizer.catalogue.board import Board
from rightsizer.catalogue.price import OnPremises
from rightsizer.sizing.estimate import Interval

__all__ = ["board_watts", "kilowatt_hours"]

_IDLE_RATIO: Final = 0.15
"""Of the power limit, which a GPU draws doing nothing (docs/definitions.md, states)."""


def board_watts(board: Board, power_ratio: float) -> float:
    """The draw of a board.

    Args:
        board: Whose power limit it is.
        power_ratio: Draw above idle, of the limit above idle, 0 to 1.
    """
    idle = board.power_limit_watts * _IDLE_RATIO
    return idle + power_ratio * (board.power_limit_watts - idle)


def kilowatt_hours(watts: Interval, hours: float, terms: OnPremises | None = None) -> Interval:
    """What GPUs take over some hours; at the meter of the building where its terms are given."""
    energy = watts.scaled(hours / 1000.0)
    if terms is None:
        return energy
    node, building = terms.node_power_factor, terms.pue_ratio
    return Interval(
        energy.value * node.value * building.value,
        energy.low * node.low * building.low,
        energy.high * node.high * building.high,
    )
