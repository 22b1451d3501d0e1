"""Power saving: work that no higher clock speeds up.

What a lower limit saves and costs, as intervals.
"""

import math
from typing import Any, Final

from rightsizer.advice.board_status import BoardStatus
from rightsizer.model.frozen import dataclass
from rightsizer.model.settings import setting
from rightsizer.model.state import Cause, Resource, State
from rightsizer.model.units import seconds
from rightsizer.model.window import Window

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


def low_pipe_ratio() -> Any:
    """The setting of the SM use that counts as low."""
    return setting(
        0.3,
        help="SM use up to which productive time does not follow the clock.",
        source="docs/definitions.md, states: pipes below .3 count as low",
    )


def clock_free_ratio(window: Window, low_pipe_ratio: float) -> float | None:
    """The share of the active time that a lower clock leaves nearly as it is; `None` without any.

    Up to `low_pipe_ratio` of use of SMs and pipes, productive time waits for something else.
    """
    if window.active <= 0:
        return None
    waiting = sum(window.states.get(state, 0) for state in _WAITING)
    # By the upper bound of compute, which is the SMs' own activity; unknown is not low.
    used = window.demands.get(Resource.COMPUTE)
    highest = None if used is None else used.quantile(_QUANTILE)
    if highest is not None and highest <= low_pipe_ratio:
        waiting += window.states.get(State.PRODUCTIVE, 0)
    return waiting / window.active


_STEP_WATTS: Final = 5.0
"""Proposals are in such steps, so that they do not change with every reading."""


@dataclass(frozen=True, slots=True)
class PowerSavingSettings:
    """Which limit is proposed, and what it is taken to cost.

    Attributes:
        cap_ratio: Proposed power limit, of the board's default; never below what the driver allows.
            Source: assumed; published sweeps of memory-bound loads lose little down to here
            (inventivehq.com: 17 % less power, under 1 % of the tokens)
        time_ratio_high: Time of the same work under the proposed limit at the worst, of that
            without it.
            Source: assumed for a limit of .8; 600 instead of 700 W cost an H100 5 to 8 % at
            memory-bound inference (factryze.ai, power capping)
    """

    cap_ratio: float = setting(0.8, within=(0.3, 0.99))
    time_ratio_high: float = setting(1.1, unit="ratio", within=(1, 2))


@dataclass(frozen=True, slots=True)
class PowerSaving:
    """One GPU under a lower limit."""

    cap_watts: float
    active_watts: float
    """Mean draw while it was at work."""
    watts_low: float
    """Saved on average over all the time, idle time included, for the same work."""
    watts_high: float
    time_ratio_low: float
    time_ratio_high: float
    source: str


def power_saving(
    window: Window, status: BoardStatus, settings: PowerSavingSettings
) -> PowerSaving | None:
    """What the proposed limit saves; `None` where it is no lower, or the draw is not known.

    Of the draw its mean is known, not its distribution. The mean of what exceeds a cap is least
    when the draw is steady, and most when it jumps between nothing and the present limit: those
    are the ends of the interval. At the low end the same work also takes the longest.
    """
    limit, default = status.limit_watts, status.default_limit_watts
    least = status.stated("power_limit_minimum_watts")
    is_measured = window.energy_joules > 0.0 and window.active > 0
    if limit is None or default is None or least is None or not is_measured:
        return None
    joules = window.energy_joules - window.waste_joules.get(Cause.IDLE, 0.0)
    active = max(0.0, joules) / seconds(window.active)
    cap = max(least, math.ceil(default * settings.cap_ratio / _STEP_WATTS) * _STEP_WATTS)
    if cap >= limit:
        return None
    steady = max(0.0, active - cap)
    jumping = max(steady, (limit - cap) * min(1.0, active / limit))
    longer = settings.time_ratio_high
    part = window.active / window.known
    return PowerSaving(
        cap_watts=cap,
        active_watts=active,
        watts_low=part * max(0.0, active - (active - steady) * longer),
        watts_high=part * jumping,
        time_ratio_low=1.0,
        time_ratio_high=longer,
        source="assumed, between no loss and the setting saving.time_ratio_high",
    )
