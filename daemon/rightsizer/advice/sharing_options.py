"""One GPU for two workloads of a node, without walls between them."""

from collections.abc import Iterable
from typing import Final

from rightsizer.advice.colocation import Pairing
from rightsizer.advice.market import Market
from rightsizer.advice.measured_profile import measured_profile
from rightsizer.advice.projected_option import costing
from rightsizer.advice.savings import shared
from rightsizer.domain.finding import Action, Case, Option
from rightsizer.sizing.placement_share import SharedPlacement, Sharing, share

__all__ = ["shared_gpu"]

_HALF: Final = 0.5
"""Of the two GPUs one is free; each workload speaks for its half of it."""
_DIGITS: Final = 4


def shared_gpu(case: Case, market: Market, pairings: Iterable[Pairing]) -> tuple[Option, ...]:
    """The case's GPU shared with each of some workloads of the node: in turns where they alternate.

    With more than a partner the first is the one to begin with.
    """
    return tuple(_option(case, market, pairing) for pairing in pairings)


def _option(case: Case, market: Market, pairing: Pairing) -> Option:
    workload = pairing.partner.workload
    name = workload.name if workload else pairing.partner.key
    index = pairing.partner.devices[0].index
    how = "taking turns" if pairing.is_alternating else "side by side (MPS)"
    cost = market.cost(market.board(case.devices[0].board))
    dollars = None if cost is None else cost.dollars_per_hour.scaled(_HALF)
    action = Action.SHARE_TIMESLICE if pairing.is_alternating else Action.SHARE_MPS
    together = _together(case, market, pairing)
    option = Option(
        description=f"one GPU for both this and {name} (now on GPU {index}), {how}",
        risk=pairing.risk,
        target=pairing.partner.key,
        action=action,
        time_ratio=None if together is None else round(together.time_ratio.value, _DIGITS),
        time_ratio_low=None if together is None else round(together.time_ratio.low, _DIGITS),
        time_ratio_high=None if together is None else round(together.time_ratio.high, _DIGITS),
        utilization=pairing.mean_ratios,
        fits=True,
        savings=shared(case, market, _HALF),
        risks=pairing.risks,
    )
    return costing(option, dollars)


def _together(case: Case, market: Market, pairing: Pairing) -> SharedPlacement | None:
    own = measured_profile(case, 0, market)
    beside = measured_profile(pairing.partner, 0, market)
    if own is None or beside is None or own.place != beside.place:
        return None
    way = Sharing.TIME_SLICE if pairing.is_alternating else Sharing.MPS
    return share(own, beside, way)
