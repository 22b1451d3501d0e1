"""Settings of the recommender: when it runs, thresholds of all rules, market, ledger."""

from typing import Any, Final

from rightsizer.advice.market import MarketSettings
from rightsizer.advice.rules import RULES
from rightsizer.advice.settings import LedgerSettings
from rightsizer.model.frozen import dataclass, field
from rightsizer.model.settings import group, setting, settings_class

_PARTS: Final = ((rule.name, type(rule.settings), group(type(rule.settings))) for rule in RULES)
RuleTree: Any = settings_class("RuleTree", __name__, "The rules by name.", _PARTS)


@dataclass(frozen=True, slots=True)
class RecommenderSettings:
    """When advice is made, and by which thresholds.

    Attributes:
        interval: Time between two runs.
            Source: the shortest span that a rule looks at
        jitter: How far a run may be shifted, so that a fleet's agents do not run together.
    """

    interval: float = setting(600.0, unit="seconds", within=(10.0, 86400.0))
    jitter: float = setting(30.0, unit="seconds", within=(0.0, 3600.0))
    rules: RuleTree = field(default_factory=RuleTree)
    market: MarketSettings = field(default_factory=MarketSettings)
    ledger: LedgerSettings = field(default_factory=LedgerSettings)
