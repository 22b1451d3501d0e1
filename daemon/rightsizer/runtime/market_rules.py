"""The rules as an operator has set them, in the market that he knows."""

from typing import Any

from rightsizer.advice.market import Market
from rightsizer.advice.rules import RULES
from rightsizer.advice.rules.rule import Rule
from rightsizer.catalogue.operator_file import read_catalogue, read_prices
from rightsizer.runtime.settings import Settings

__all__ = ["market_of", "rules_of"]


def market_of(settings: Settings) -> Market:
    """What there is to run on and what it costs, by the operator's own files too.

    Raises:
        ConfigurationError: his files of boards or prices have faults.
    """
    files = settings.catalogue
    catalogue = read_catalogue(files.boards_path)
    prices = read_prices(files.prices_path, catalogue)
    return Market(catalogue, prices, settings.recommender.market, settings.sizing.memory)


def rules_of(settings: Settings) -> tuple[Rule[Any], ...]:
    """The rules with an operator's settings, in the market that he knows.

    Raises:
        ConfigurationError: his files of boards or prices have faults.
    """
    tree, market = settings.recommender.rules, market_of(settings)
    return tuple(rule.with_settings(getattr(tree, rule.name)).in_market(market) for rule in RULES)
