"""The rules as an operator has set them, in the market that he knows."""

from typing import Any

from rightsizer.advice.market import Market
from rightsizer.advice.rules import RULES
from rightsizer.advice.rules.rule import Rule
from rightsizer.catalogue.operator_file import read_catalogue, read_prices
from rightsizer.runtime.settings import Settings

__all__ = ["rules_of"]


def rules_of(settings: Settings) -> tuple[Rule[Any], ...]:
    """The rules with an operator's settings, in the market that he knows.

    Raises:
        ConfigurationError: his files of boards or prices have faults.
    """
    tree, files = settings.recommender.rules, settings.catalogue
    catalogue = read_catalogue(files.boards_path)
    prices = read_prices(files.prices_path, catalogue)
    market = Market(catalogue, prices, settings.recommender.market, settings.sizing.memory)
    return tuple(rule.with_settings(getattr(tree, rule.name)).in_market(market) for rule in RULES)
