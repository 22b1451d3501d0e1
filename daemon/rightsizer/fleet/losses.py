"""Limits of savings: no rule's recommendation saves more than its GPUs lose.

What a plan of a served model saves is the plan's: smaller GPUs may do the same work.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from functools import cache, reduce

from msgspec.structs import replace

from rightsizer.advice.market import Market
from rightsizer.advice.rules.rule import Judgement
from rightsizer.fleet.model import FleetDevice
from rightsizer.fleet.pools.pool import is_of_whole_pool, pool_key
from rightsizer.fleet.usage import HeldGpu
from rightsizer.model.values import HOURS_PER_MONTH, Finding, FindingKind, Savings
from rightsizer.sizing.estimate import EstimateInterval


class Losses:
    """What present GPUs lose, by their holders' own hours within the lookback."""

    def __init__(
        self, holdings: Iterable[HeldGpu], devices: Mapping[str, FleetDevice], market: Market
    ) -> None:
        self._devices = devices
        self._cost = cache(market.cost_near)
        self._held: defaultdict[str, list[HeldGpu]] = defaultdict(list)
        """By uuid, and by key of the pool."""
        for held in holdings:
            self._held[held.uuid].append(held)
            self._held[pool_key(devices[held.uuid].pool)].append(held)

    def limited(self, judgement: Judgement) -> Judgement:
        """Return a judgement that promises at most what its GPUs lose."""
        finding = judgement.finding
        held = self._of(finding) if finding.is_actionable else []
        if not held:
            return judgement
        # What is idle loses all of its time, however long it was at work before.
        is_idle = finding.kind is FindingKind.IDLE
        parts = [gpu.gpus * (1.0 if is_idle else gpu.lost_ratio) for gpu in held]
        prices = [self._price(gpu, part) for gpu, part in zip(held, parts, strict=True)]
        intervals = [price for price in prices if price is not None]
        dollars = (
            reduce(EstimateInterval.plus, intervals) if len(intervals) == len(prices) else None
        )
        limited = replace(
            finding,
            savings=_at_most(finding.savings, sum(parts), dollars),
            options=tuple(
                replace(
                    option, savings=option.savings and _at_most(option.savings, sum(parts), dollars)
                )
                for option in finding.options
            ),
        )
        return replace(judgement, finding=limited)

    def _of(self, finding: Finding) -> list[HeldGpu]:
        """Return the holdings of the GPUs of a finding; none if one of them is gone."""
        is_whole = is_of_whole_pool(finding.key, finding.devices)
        uuids = (finding.key,) if is_whole else finding.devices
        if not all(uuid in self._held for uuid in uuids):
            return []
        held = [gpu for uuid in uuids for gpu in self._held[uuid]]
        return [gpu for gpu in held if gpu.workload == finding.workload] or held

    def _price(self, held: HeldGpu, gpus: float) -> EstimateInterval | None:
        device = self._devices[held.uuid]
        cost = self._cost(device.provider, device.device.board)
        return None if cost is None else cost.dollars_per_hour.scaled(gpus)


def _at_most(savings: Savings, gpus: float, dollars: EstimateInterval | None) -> Savings:
    month = gpus * HOURS_PER_MONTH
    limits = {
        "gpus_low": gpus,
        "gpus_high": gpus,
        "gpu_hours_per_month_low": month,
        "gpu_hours_per_month_high": month,
    }
    if dollars is not None and savings.dollars_per_hour_low is not None:
        savings = replace(savings, dollars_per_hour_typical=savings.dollars_per_hour)
        limits |= {
            "dollars_per_hour_low": dollars.low,
            "dollars_per_hour_high": dollars.high,
            "dollars_per_hour_typical": dollars.value,
        }
    estimates = {name: getattr(savings, name) for name in limits}
    return replace(
        savings,
        **{
            name: min(estimate, limits[name])
            for name, estimate in estimates.items()
            if estimate is not None
        },
    )
