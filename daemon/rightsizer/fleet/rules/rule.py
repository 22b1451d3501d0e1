"""FleetRule: settings, evaluation and conduct of a fleet rule."""

from collections.abc import Callable, Iterable
from functools import partial, wraps
from typing import Final, Protocol, TypeVar

from rightsizer.advice.market import Market
from rightsizer.advice.rules.rule import OpeningPolicy, RuleSettings, TunableRule
from rightsizer.advice.verdict import confidence_of
from rightsizer.fleet.model import FleetView
from rightsizer.fleet.pools.pool import PoolSubject, pool_key
from rightsizer.model.finding import Finding
from rightsizer.model.frozen import dataclass
from rightsizer.model.settings import setting
from rightsizer.model.units import DAY_SECONDS, HOUR_SECONDS


class _WithPolicy(RuleSettings, Protocol):
    @property
    def conduct(self) -> OpeningPolicy:
        """When a verdict becomes advice."""


FleetRuleSettings = TypeVar("FleetRuleSettings", bound=_WithPolicy)


@dataclass(frozen=True, slots=True)
class FleetVerdict:
    """Finding of the fleet, and the key of its subject (`pool/NAME`, a workload's key)."""

    key: str
    finding: Finding


@dataclass(frozen=True, slots=True)
class FleetRule(TunableRule[FleetRuleSettings]):
    """A fleet rule; returns one verdict per pool or workload, including those without a finding."""

    judge_with: Callable[[FleetView, FleetRuleSettings, Market], tuple[FleetVerdict, ...]]

    def judge(self, view: FleetView) -> tuple[FleetVerdict, ...]:
        """Return the verdicts on the fleet."""
        return self.judge_with(view, self.settings, self.market)

    def conduct(self) -> OpeningPolicy:
        """Conduct of this rule's advice."""
        return self.settings.conduct


def pool_rule(
    name: str,
    settings: FleetRuleSettings,
    judge: Callable[[PoolSubject, FleetRuleSettings], Finding],
) -> FleetRule[FleetRuleSettings]:
    """Create a rule that judges each pool separately."""

    @wraps(judge)
    def judge_pools(
        view: FleetView, settings: FleetRuleSettings, market: Market
    ) -> tuple[FleetVerdict, ...]:
        subjects = [PoolSubject.of(name, view, pool, market) for pool in view.pools]
        return tuple(FleetVerdict(pool_key(each.name), judge(each, settings)) for each in subjects)

    return FleetRule(name, settings, judge_pools)


def least_certain(factors: Iterable[dict[str, float]]) -> dict[str, float]:
    """Return the factors with the lowest confidence."""
    return min(factors, key=lambda each: (confidence_of(each), sorted(each.items())))


covered: Final = partial(
    setting,
    6 * DAY_SECONDS,
    help="Known time, with every hour of a week, below which the rule abstains.",
    unit="seconds",
    within=(DAY_SECONDS, None),
    source="docs/definitions.md, conduct: not before the history covers the load's cycle",
)
"""Setting of the known time required to judge a size."""
mostly_covered: Final = partial(
    setting,
    0.8,
    help="Share of the span that must be known: an unseen time may hold a peak.",
    unit="ratio",
    within=(0.1, 1),
    source="assumed; a day a week may be missing",
)
"""Setting of the share of the span that must be known."""
weekly_conduct: Final = partial(
    OpeningPolicy,
    long_seconds=14 * DAY_SECONDS,
    short_seconds=7 * DAY_SECONDS,
    minimum_known_seconds=6 * DAY_SECONDS,
    close_after_seconds=DAY_SECONDS,
)
"""Two weeks, and one week at their end, so that both contain every hour of a week."""
seen_conduct: Final = partial(
    OpeningPolicy,
    long_seconds=14 * DAY_SECONDS,
    short_seconds=DAY_SECONDS / 4,
    minimum_known_seconds=0.0,
    close_after_seconds=HOUR_SECONDS,
)
"""Two weeks, and six hours at their end: for present facts rather than past usage."""


def node_key(cluster: str, node: str) -> str:
    """Return the key of advice on a node."""
    return f"node/{cluster}/{node}" if cluster else f"node/{node}"
