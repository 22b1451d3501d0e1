"""How much of its work a GPU does no faster at a higher clock.

Memory, links and hosts keep their own time; only arithmetic follows the SM clock. Two rules ask
it from two sides: whom a lower power limit costs nothing, and whom one holds back.
"""

from typing import Final

from rightsizer.domain.state import Resource, State
from rightsizer.domain.window import Window

__all__ = ["clock_free_ratio"]

_WAITING: Final = frozenset(
    {
        State.MEMORY_BANDWIDTH_BOUND,
        State.LAUNCH_BOUND,
        State.HOST_BOUND,
        State.STORAGE_BOUND,
        State.PCIE_BOUND,
        State.HIDDEN_STALL,
    }
)
_QUANTILE: Final = 0.95


def clock_free_ratio(window: Window, low_pipe_ratio: float) -> float | None:
    """The share of the active time that a lower clock leaves nearly as it is; `None` without any.

    Args:
        window: What the GPU did.
        low_pipe_ratio: Use of SMs and pipes up to which productive time waits for something else.
    """
    if window.active <= 0:
        return None
    waiting = sum(window.states.get(state, 0) for state in _WAITING)
    if _is_low(window, low_pipe_ratio):
        waiting += window.states.get(State.PRODUCTIVE, 0)
    return waiting / window.active


def _is_low(window: Window, low_pipe_ratio: float) -> bool:
    """By the upper bound of compute, which is the SMs' own activity; unknown is not low."""
    used = window.demands.get(Resource.COMPUTE)
    highest = None if used is None else used.quantile(_QUANTILE)
    return highest is not None and highest <= low_pipe_ratio
