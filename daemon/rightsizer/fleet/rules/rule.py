"""FleetRule: settings, evaluation and conduct of a fleet rule."""

from collections.abc import Callable, Iterable
from functools import wraps
from typing import Final

from rightsizer.advice.confidence import confidence_of
from rightsizer.advice.market import Market
from rightsizer.advice.rules.rule import OpeningPolicy, SettingsT, TunableRule
from rightsizer.fleet.model import FleetView
from rightsizer.fleet.pools.pool import PoolSubject
from rightsizer.model.values import DAY_SECONDS, HOUR_SECONDS, Finding


class FleetRule(TunableRule[SettingsT], frozen=True):
    """A fleet rule; returns one finding per pool or workload, also where there is no problem."""

    judge_with: Callable[[FleetView, SettingsT, Market], tuple[Finding, ...]]

    def judge(self, view: FleetView) -> tuple[Finding, ...]:
        """Return the verdicts on the fleet."""
        return self.judge_with(view, self.settings, self.market)


def pool_rule(
    name: str,
    settings: SettingsT,
    judge: Callable[[PoolSubject, SettingsT], Finding],
) -> FleetRule[SettingsT]:
    """Create a rule that judges each pool separately."""

    @wraps(judge)
    def judge_pools(view: FleetView, settings: SettingsT, market: Market) -> tuple[Finding, ...]:
        subjects = [PoolSubject.of(name, view, pool, market) for pool in view.pools]
        return tuple(judge(subject, settings) for subject in subjects)

    return FleetRule(name, settings, judge_pools)


def least_certain(factors: Iterable[dict[str, float]]) -> dict[str, float]:
    """Return the factors with the lowest confidence."""
    return min(factors, key=lambda factor: (confidence_of(factor), sorted(factor.items())))


WEEKLY: Final = OpeningPolicy(
    long_seconds=14 * DAY_SECONDS,
    short_seconds=7 * DAY_SECONDS,
    minimum_known_seconds=6 * DAY_SECONDS,
    close_after_seconds=DAY_SECONDS,
)
"""Two weeks, and one week at their end, so that both contain every hour of a week."""
PRESENT: Final = OpeningPolicy(
    long_seconds=14 * DAY_SECONDS,
    short_seconds=DAY_SECONDS / 4,
    minimum_known_seconds=0.0,
    close_after_seconds=HOUR_SECONDS,
)
"""Two weeks, and six hours at their end: for present facts rather than past usage."""


def node_key(cluster: str, node: str) -> str:
    """Return the key of advice on a node."""
    return f"node/{cluster}/{node}" if cluster else f"node/{node}"
