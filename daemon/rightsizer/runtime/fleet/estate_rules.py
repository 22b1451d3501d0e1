"""The rules of an estate as an operator has set them, in the market that he knows."""

from typing import Any

from rightsizer.fleet.fleet_rule import EstateRule
from rightsizer.fleet.rules import ESTATE_RULES
from rightsizer.runtime.fleet.settings import WholeSettings
from rightsizer.runtime.market_rules import market_of

__all__ = ["estate_rules_of"]


def estate_rules_of(settings: WholeSettings) -> tuple[EstateRule[Any], ...]:
    """The rules with an operator's settings.

    Raises:
        ConfigurationError: his files of boards or prices have faults.
    """
    tree, market = settings.fleet.rules, market_of(settings)
    return tuple(
        rule.with_settings(getattr(tree, rule.name)).in_market(market) for rule in ESTATE_RULES
    )
