"""Attribution of lost time: causes, cost, and the strongest cause."""

from typing import Final

from rightsizer.advice.market import Market
from rightsizer.advice.verdict import released
from rightsizer.model.finding import Case, Savings
from rightsizer.model.state import Cause, Resource, State
from rightsizer.model.window import Window

_CAUSES: Final = {
    State.HIDDEN_STALL: Cause.STALLED,
    State.STORAGE_BOUND: Cause.STORAGE,
    State.HOST_BOUND: Cause.HOST,
    State.PCIE_BOUND: Cause.PCIE,
    State.LAUNCH_BOUND: Cause.LAUNCH,
}
_UNATTRIBUTED: Final = 0.5
"""The best hypothesis below half is no better than the others together."""
_NAMED_CAUSES: Final = 2
_MEDIAN: Final = 0.5


def lost_share(window: Window, state: State) -> float:
    """The part of the known time that was lost to a limit.

    Where the use of a limited second is unknown, all of it counts. A link at its
    limit is well used by the books, so that what counts there is the compute that waits for it.
    """
    if state is State.PCIE_BOUND:
        # The median over the active time; 0 where that is unknown.
        used = window.compute_at_least.quantile(_MEDIAN)
        if used is None and Resource.COMPUTE in window.demands:
            used = window.demands[Resource.COMPUTE].quantile(_MEDIAN)
        return window.share(state) * (1.0 - (used or 0.0))
    if not window.waste_seconds or window.known_seconds <= 0.0:
        return window.share(state)
    return min(1.0, window.waste_seconds.get(_CAUSES[state], 0.0) / window.known_seconds)


def lost_gpus(case: Case, state: State) -> float:
    """GPUs' worth of time that the whole workload lost to a limit."""
    return sum(
        lost_share(window, state) * device.capacity_ratio
        for window, device in zip(case.windows, case.devices, strict=True)
    )


def saved_at_most(case: Case, market: Market, state: State) -> Savings:
    """What a fix would save: at most all that it costs, at least nothing."""
    capacity = case.gpus
    share = lost_gpus(case, state) / capacity if capacity else 0.0
    return released(case, market, 0.0, min(1.0, share))


def _losses(case: Case) -> list[tuple[State, float]]:
    """The GPUs' worth of time lost to each limit, the most first."""
    return sorted(((state, lost_gpus(case, state)) for state in _CAUSES), key=lambda each: -each[1])


def hypotheses(case: Case) -> dict[str, float]:
    """The two limits that the workload lost most to, of all that it lost to any, best first.

    `unattributed` goes before them where the best holds less than half.
    """
    losses = _losses(case)
    whole = sum(lost for _, lost in losses)
    if whole <= 0.0:
        return {}
    best = losses[0][1] / whole
    unattributed = {"unattributed": round(1.0 - best, 3)} if best < _UNATTRIBUTED else {}
    named = {str(state): round(lost / whole, 3) for state, lost in losses[:_NAMED_CAUSES] if lost}
    return unattributed | named


def strongest(case: Case) -> State | None:
    """The limit that the workload lost most to; `None` where it lost to none."""
    state, lost = _losses(case)[0]
    return state if lost > 0.0 else None


def limit_of(window: Window) -> State | None:
    """What limited a device for most of its active time, where anything but a stall did."""
    times = {state: window.states.get(state, 0) for state in _CAUSES}
    del times[State.HIDDEN_STALL]
    best = max(times, key=lambda state: times[state])
    return best if times[best] > _UNATTRIBUTED * window.active else None
