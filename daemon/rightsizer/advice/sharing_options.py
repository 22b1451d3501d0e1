"""Fewer GPUs: one shared with another workload, or several made fewer."""

import math
from typing import Final

from rightsizer.advice.exceedance import risk_beyond
from rightsizer.advice.market import Market
from rightsizer.advice.measured_profile import measured_profile, place_of
from rightsizer.advice.projected_option import costing
from rightsizer.advice.savings import released, shared
from rightsizer.domain.finding import Action, Case, Option, Risk
from rightsizer.domain.state import Resource
from rightsizer.sizing.placement_share import Sharing, share

__all__ = ["fewer_gpus", "shared_gpu"]

_HALF: Final = 0.5
_NOISE_RATIO: Final = 0.01
_MOST_BUSY_RATIO: Final = 0.7
"""Of a server; beyond it requests queue for longer than they are served (M/G/1)."""
_DIGITS: Final = 4


def shared_gpu(case: Case, market: Market) -> tuple[Option, ...]:
    """The only GPU shared with a workload like this one, without walls between them."""
    if len(case.devices) != 1 or _largest_need(case) > _HALF:
        return ()
    profile = measured_profile(case, 0, market.catalogue)
    if profile is None:
        return ()
    together = share(profile, profile, Sharing.MPS)
    if together.fits is False:
        return ()
    cost = market.cost(profile.place.board)
    dollars = None if cost is None else cost.dollars_per_hour.scaled(_HALF)
    option = Option(
        description="MPS: the GPU shared with a workload that is as active as this one",
        risk=risk_beyond(case.windows[0], dict.fromkeys(Resource, _HALF)),
        action=Action.SHARE_MPS,
        time_ratio=round(together.time_ratio.value, _DIGITS),
        time_ratio_low=round(together.time_ratio.low, _DIGITS),
        time_ratio_high=round(together.time_ratio.high, _DIGITS),
        fits=together.fits,
        savings=shared(case, market, _HALF),
    )
    return (costing(option, dollars),)


def fewer_gpus(case: Case, market: Market) -> tuple[Option, ...]:
    """As many GPUs as hold the sum of what is needed, where they do not work on one another.

    None where that cannot be told, NVLink traffic unmeasured. Memory too must hold the sum: what
    looks like replicas may be parts of one model.
    """
    count = len(case.devices)
    fits = [fit.resources for fit in case.provisioning]
    if count == 1 or not all(_is_apart(case, at, market) for at in range(count)):
        return ()
    needed = max(
        sum(fit[resource].need or 0.0 for fit in fits if resource in fit) for resource in Resource
    )
    enough = max(1, math.ceil(needed), math.ceil(_busy(case) * count / _MOST_BUSY_RATIO))
    if enough >= count:
        return ()
    part = enough / count
    capacities: dict[Resource, float] = dict.fromkeys(Resource, part)
    risks = [risk_beyond(window, capacities) for window in case.windows]
    saved = 1.0 - part
    return (
        Option(
            description=f"{enough} of the {count} GPUs",
            risk=max(risks, key=tuple(Risk).index),
            target=str(enough),
            action=Action.REDUCE_GPU_COUNT,
            utilization={"gpu_busy": round(min(1.0, _busy(case) / part), _DIGITS)},
            fits=True,
            savings=released(case, market, saved, saved),
        ),
    )


def _is_apart(case: Case, at: int, market: Market) -> bool:
    """Whether a device is known to have nothing to say to another."""
    place = place_of(case.devices[at], market.catalogue)
    if place is None:
        return False
    link = case.provisioning[at].resources.get(Resource.NVLINK)
    if link is None or link.need is None:
        return place.link_bytes_per_second == 0.0
    return link.need <= _NOISE_RATIO


def _busy(case: Case) -> float:
    parts = [window.active / window.known for window in case.windows if window.known > 0]
    return sum(parts) / len(parts) if parts else 0.0


def _largest_need(case: Case) -> float:
    return max(
        (each.need or 0.0 for fit in case.provisioning for each in fit.resources.values()),
        default=1.0,
    )
